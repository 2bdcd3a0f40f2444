//! Commands that pass code or a command string to an interpreter.

use super::invocation::Invocation;

/// Shells with the options of `sh`.
const SHELLS: [&str; 13] =
    ["sh", "bash", "zsh", "dash", "ksh", "mksh", "fish", "ash", "csh", "tcsh", "rbash", "nu", "elvish"];
const POWERSHELLS: [&str; 2] = ["powershell", "pwsh"];
/// Programs that pass the value of `-c` to a shell, wherever it stands.
const SHELL_RUNNERS: [&str; 3] = ["su", "runuser", "script"];
/// Options of Node and its relatives that load a module before the program.
const MODULE_OPTIONS: [&str; 6] = ["-r", "--require", "--import", "--loader", "--experimental-loader", "--preload"];

/// How a Python gets its program, if not as a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PythonMode {
    /// `-c CODE`.
    Code,
    /// `-m MODULE`.
    Module,
}

/// Returns whether a command passes code to an interpreter.
pub(crate) fn runs_inline_code(command: &str, args: &[String]) -> bool {
    let run = Invocation::of(command, args);
    if run.splits_string {
        return true;
    }
    let options: &[&str] = match without_version(&run.program) {
        "python" | "pypy" | "pythonw" => return python_mode(&run) == Some(PythonMode::Code),
        "perl" => return has_letter(run.args, "eE", "IMmCFDdxi"),
        "ruby" => return has_letter(run.args, "e", "IrCFEKTxi"),
        "node" | "nodejs" | "bun" | "tsx" | "ts-node" if loads_module(run.args) => return true,
        "node" | "nodejs" | "bun" | "tsx" | "ts-node" => &["-e", "--eval", "-p", "--print", "-pe"],
        "lua" | "luajit" | "rscript" | "r" | "julia" => &["-e", "--eval"],
        "deno" => &["eval"],
        "php" => &["-r", "--run"],
        "npx" | "npm" | "pnpx" => &["-c", "--call", "--script-shell", "--node-options"],
        // The program of awk is its first argument, unless it is in a file.
        "awk" | "gawk" | "mawk" | "nawk" => {
            return !run.args.iter().any(|arg| arg.starts_with("-f") || arg == "--file");
        }
        "find" => return found_commands(run.args).any(|(command, args)| runs_inline_code(command, args)),
        // Many settings of Git name a program that it runs.
        "git" => &["-c", "--config-env", "--exec-path"],
        // A setting of cargo can name the program that runs what it builds.
        "cargo" => &["--config"],
        "make" | "gmake" => &["--eval"],
        "vim" | "nvim" | "vi" | "ex" | "view" => {
            return run.args.iter().any(|arg| matches!(arg.as_str(), "-c" | "--cmd" | "-S") || arg.starts_with('+'));
        }
        "gdb" | "lldb" => &["-ex", "-iex", "--eval-command", "-o", "--one-line", "-x", "-s"],
        "nix-shell" | "nix" => &["--run", "--command", "-c"],
        _ => return false,
    };
    run.args.iter().any(|arg| {
        let name = arg.split_once('=').map_or(arg.as_str(), |(name, _)| name);
        options.contains(&name.to_ascii_lowercase().as_str())
    })
}

/// Returns whether a command passes a command string to a shell.
pub(crate) fn runs_shell_string(command: &str, args: &[String]) -> bool {
    let run = Invocation::of(command, args);
    let program = run.program.as_str();
    if program == "cmd" {
        return run
            .args
            .iter()
            .any(|arg| ["/c", "/k", "/r"].contains(&arg.get(..2).unwrap_or("").to_lowercase().as_str()));
    }
    if POWERSHELLS.contains(&program) {
        return run.args.iter().any(|arg| is_powershell_command(arg));
    }
    if SHELL_RUNNERS.contains(&program) {
        return run.args.iter().any(|arg| {
            let is_long = arg.starts_with("--command") || arg.starts_with("--session-command");
            is_long || arg.starts_with('-') && !arg.starts_with("--") && arg.contains('c')
        });
    }
    if program == "find" {
        return found_commands(run.args).any(|(command, args)| runs_shell_string(command, args));
    }
    if program == "ssh" {
        return run.args.iter().any(|arg| is_ssh_command(arg));
    }
    SHELLS.contains(&program) && has_command_option(run.args)
}

/// Returns the commands that `find` runs for what it finds.
fn found_commands(args: &[String]) -> impl Iterator<Item = (&str, &[String])> {
    let is_action = |arg: &String| matches!(arg.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir");
    let actions = args.iter().enumerate().filter(move |(_, arg)| is_action(arg));
    actions.filter_map(|(at, _)| args.get(at + 1..)?.split_first()).map(|(command, args)| (command.as_str(), args))
}

/// Whether an option of ssh names a command that a shell of this machine runs. It may be a part of `-o…`.
fn is_ssh_command(arg: &str) -> bool {
    let option = arg.strip_prefix("-o").unwrap_or(arg).trim_start().to_ascii_lowercase();
    ["proxycommand", "localcommand", "knownhostscommand", "permitlocalcommand"]
        .iter()
        .any(|name| option.starts_with(name))
}

/// Whether the options of a Node, before its script, load a module. What follows an option may be its value.
fn loads_module(args: &[String]) -> bool {
    let mut may_be_value = false;
    for arg in args {
        let Some((name, has_value)) = arg.starts_with('-').then(|| match arg.split_once('=') {
            Some((name, _)) => (name, true),
            None => (arg.as_str(), false),
        }) else {
            if std::mem::take(&mut may_be_value) {
                continue;
            }
            return false;
        };
        if MODULE_OPTIONS.contains(&name) {
            return true;
        }
        may_be_value = !has_value;
    }
    false
}

/// Whether the options of a shell, before its script, contain `-c`: alone, or among other letters as in `-ce`.
fn has_command_option(args: &[String]) -> bool {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if let Some(long) = arg.strip_prefix("--") {
            match long.split_once('=').map_or(long, |(name, _)| name) {
                "" => return false,
                // Options of fish and nu.
                "command" | "commands" | "init-command" | "execute" => return true,
                "rcfile" | "init-file" => drop(args.next()),
                _ => {}
            }
            continue;
        }
        match arg.strip_prefix('-') {
            Some("") => return false,
            Some(letters) if letters.contains('c') => return true,
            Some(letters) if letters.ends_with(['o', 'O']) => drop(args.next()),
            Some(_) => {}
            None if arg.starts_with('+') => {
                if arg.ends_with(['o', 'O']) {
                    args.next();
                }
            }
            None => return false,
        }
    }
    false
}

/// Whether an argument is `-Command` or `-EncodedCommand`, which may be abbreviated.
fn is_powershell_command(arg: &str) -> bool {
    let arg = arg.to_ascii_lowercase();
    let Some(name) = arg.strip_prefix(['-', '/']).filter(|name| !name.is_empty()) else { return false };
    name == "ec" || "command".starts_with(name) || "encodedcommand".starts_with(name) || "commandwithargs" == name
}

/// Returns whether a Python runs a module or code; `None` for a script and for other programs.
pub(super) fn python_mode(run: &Invocation<'_>) -> Option<PythonMode> {
    if !matches!(without_version(&run.program), "python" | "pypy" | "pythonw") {
        return None;
    }
    let mut args = run.args.iter();
    while let Some(arg) = args.next() {
        if arg == "--check-hash-based-pycs" {
            args.next();
            continue;
        }
        let letters = arg.strip_prefix('-').filter(|letters| !letters.is_empty() && *letters != "-")?;
        if letters.starts_with('-') {
            continue;
        }
        for (index, letter) in letters.char_indices() {
            match letter {
                'c' => return Some(PythonMode::Code),
                'm' => return Some(PythonMode::Module),
                // The value is the rest of the argument, or the next one.
                'W' | 'X' => {
                    if index + 1 == letters.len() {
                        args.next();
                    }
                    break;
                }
                _ => {}
            }
        }
    }
    None
}

/// Whether the options before the script contain one of `wanted`. The letters `valued` have a value, which ends an
/// option.
fn has_letter(args: &[String], wanted: &str, valued: &str) -> bool {
    let options = args.iter().map_while(|arg| arg.strip_prefix('-').filter(|letters| !letters.is_empty()));
    let mut letters = options.map(|option| option.split(|letter| valued.contains(letter)).next().unwrap_or_default());
    letters.any(|letters| letters.contains(|letter| wanted.contains(letter)))
}

/// Returns the name of a program without its version: `python3.12` is Python.
fn without_version(program: &str) -> &str {
    program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn shell_strings_are_detected_also_behind_wrappers() {
        for (command, rest) in [
            ("sh", "-c id"),
            ("sh", "-ce id"),
            ("sh", "-ec id"),
            ("/bin/bash", "-lc id"),
            ("bash", "--norc -eo pipefail -c id"),
            ("bash", "--rcfile x -c id"),
            ("bash", "+x -uxc id"),
            ("fish", "--command=id"),
            ("cmd.exe", "/C dir"),
            ("env", "sh -c id"),
            ("env", "-i A=b sh -ce id"),
            ("nice", "-n 5 sh -c id"),
            ("timeout", "-k 1 10 bash -c id"),
            ("pwsh", "-Command ls"),
            ("pwsh", "-NoProfile -enc AAAA"),
            ("busybox", "sh -c id"),
            ("setarch", "x86_64 sh -c id"),
            ("strace", "-f -o x sh -c id"),
            ("systemd-run", "--user sh -c id"),
            ("parallel", "-j 2 sh -c id"),
            ("find", ". -name x -exec sh -c id ;"),
            ("find", ". -execdir env bash -c id +"),
            ("find", ". -exec true ; -exec sh -c id ;"),
            ("ssh", "-oProxyCommand=id host"),
            ("ssh", "-o proxycommand=id host"),
            ("flock", "/tmp/x sh -c id"),
            ("script", "-qc id /dev/null"),
            ("script", "--command=id /dev/null"),
            ("su", "-c id"),
            ("su", "nobody -lc id"),
            ("su", "nobody --command=id"),
            ("sudo", "runuser -u x -c id"),
        ] {
            assert!(runs_shell_string(command, &args(rest)), "{command} {rest}");
        }
        for (command, rest) in [
            ("node", "-c server.js"),
            ("bash", "server.sh"),
            ("bash", "server.sh -c config"),
            ("bash", "-e server.sh -c config"),
            ("pwsh", "-ExecutionPolicy Bypass -File x.ps1"),
            ("timeout", "5 node server.js"),
            ("su", "nobody"),
        ] {
            assert!(!runs_shell_string(command, &args(rest)), "{command} {rest}");
        }
    }

    #[test]
    fn inline_code_is_detected_also_behind_wrappers() {
        for (command, rest) in [
            ("/usr/bin/node", "--eval=1"),
            ("python3.12", "-c 1"),
            ("python", "-Ic 1"),
            ("python3", "-I -W ignore -uc 1"),
            ("nice", "python -Ic 1"),
            ("npx", "-y -c id"),
            ("npx", "-y --script-shell=/tmp/x pkg@1.0.0"),
            ("npx", "--node-options --require=/tmp/x pkg@1.0.0"),
            ("awk", "BEGIN{system(\"id\")}"),
            ("find", ". -exec python3 -c 1 ;"),
            ("find", ". -execdir env node -e 1 ;"),
            ("git", "-c core.pager=id log"),
            ("env", "-S id"),
            ("flock", "/tmp/lock -c id"),
            ("env", "-Sid"),
            ("perl", "-e 1"),
            ("perl", "-Ilib -wE 1"),
            ("ruby", "-rjson -ne 1"),
            ("uv", "run python -c 1"),
            ("tsx", "-e 1"),
            ("lua5.4", "-e 1"),
            ("Rscript", "-e 1"),
            ("node", "-r ./evil.js server.js"),
            ("node", "--title x --require=./evil.js server.js"),
            ("node", "--import data:text/javascript,1 server.js"),
            ("git", "-c core.sshCommand=id ls-remote x"),
            ("make", "--eval=$(shell_id)"),
            ("vim", "+!id"),
            ("nvim", "--headless -c !id"),
            ("gdb", "-batch -ex shell_id"),
            ("nix-shell", "--run id"),
        ] {
            assert!(runs_inline_code(command, &args(rest)), "{command} {rest}");
        }
        for (command, rest) in [
            ("node", "server.js"),
            ("python", "-m server"),
            ("python", "server.py -c config"),
            ("python", "-X code server.py"),
            ("perl", "-Mre server.pl"),
            ("ruby", "server.rb -e production"),
            ("node", "server.js -r us-east-1"),
            ("lua", "server.lua"),
            ("git", "daemon"),
            ("awk", "-f server.awk"),
            ("find", ". -exec python3 server.py ;"),
        ] {
            assert!(!runs_inline_code(command, &args(rest)), "{command} {rest}");
        }
    }

    #[test]
    fn the_mode_of_a_python_is_read_from_its_options() {
        let mode = |line: &str| {
            let words = args(line);
            python_mode(&Invocation::of(&words[0], &words[1..]))
        };
        assert_eq!(mode("python3 -um server"), Some(PythonMode::Module));
        assert_eq!(mode("python3 -X dev -m server"), Some(PythonMode::Module));
        assert_eq!(mode("env A=b python3 -c 1"), Some(PythonMode::Code));
        assert_eq!(mode("python3 server.py -m x"), None);
        assert_eq!(mode("python3 -Xm server.py"), None);
        assert_eq!(mode("uvx server -m x"), None);
    }
}
