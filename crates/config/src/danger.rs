//! What makes an entry dangerous to run: shells, variables that load code, secrets in plain sight, moving versions.

/// Variables that make a program load code or find another program, whatever the program is.
const LOADERS: [&str; 27] = [
    "BASH_ENV",
    "DOTNET_STARTUP_HOOKS",
    "ENV",
    "GCONV_PATH",
    "GIT_ASKPASS",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_PROXY_COMMAND",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PATH",
    "PERL5DB",
    "PERL5LIB",
    "PERL5OPT",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RUBYLIB",
    "RUBYOPT",
    "_JAVA_OPTIONS",
];

/// Variables that make programs find other settings, and with them other code.
const SETTINGS: [&str; 4] = ["HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME"];

/// Programs that run a text they are given.
const SHELLS: [&str; 12] =
    ["sh", "bash", "zsh", "dash", "ksh", "fish", "ash", "busybox", "cmd", "cmd.exe", "powershell", "pwsh"];

/// Whether a variable makes programs load code from elsewhere.
pub(crate) fn loads_code(variable: &str) -> bool {
    let variable = variable.to_ascii_uppercase();
    let group = ["DYLD_", "GIT_CONFIG"].iter().any(|group| variable.starts_with(group));
    group || LOADERS.contains(&variable.as_str())
}

/// Whether a variable makes programs find other settings.
pub(crate) fn moves_settings(variable: &str) -> bool {
    let variable = variable.to_ascii_uppercase();
    variable.starts_with("NPM_CONFIG_") || SETTINGS.contains(&variable.as_str())
}

/// Whether a command hands an interpreter a text to run.
pub(crate) fn runs_a_text(command: &str, args: &[String]) -> bool {
    let program = program(command).to_ascii_lowercase();
    // `python3.12` is python.
    let program = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let options: &[&str] = match program {
        "node" | "nodejs" | "bun" => &["-e", "--eval", "-p", "--print", "-pe"],
        "deno" => &["eval"],
        "python" | "pypy" => &["-c"],
        "perl" | "ruby" => &["-e"],
        "php" => &["-r"],
        "npx" | "npm" | "pnpx" => &["-c", "--call"],
        "env" => &["-s", "--split-string"],
        _ => return false,
    };
    args.iter().any(|arg| {
        let arg = arg.to_ascii_lowercase();
        let joined = |option: &&&str| arg.strip_prefix(**option).is_some_and(|rest| rest.starts_with('='));
        options.contains(&arg.as_str()) || options.iter().any(|option| joined(&option))
    })
}

/// Whether a command hands a text to a shell.
pub(crate) fn runs_a_shell(command: &str, args: &[String]) -> bool {
    let hands_over = |arg: &String| {
        let arg = arg.to_ascii_lowercase();
        // `-c`, `-lc` and the like, and what other shells call it.
        (arg.starts_with('-') && !arg.starts_with("--") && arg.ends_with('c'))
            || matches!(arg.as_str(), "/c" | "/k" | "-command" | "-encodedcommand" | "-enc" | "sh")
    };
    let program = program(command);
    let shell = |name: &str| SHELLS.contains(&name.to_ascii_lowercase().as_str());
    let through_env = program == "env" && args.iter().any(|arg| shell(self::program(arg)));
    (shell(program) || through_env) && args.iter().any(hands_over)
}

/// The program of a command, without its folder.
fn program(command: &str) -> &str {
    command.rsplit(['/', '\\']).next().unwrap_or(command)
}

/// The package that would be fetched in whatever version is the newest.
pub(crate) fn unpinned<'a>(command: &str, args: &'a [String]) -> Option<&'a str> {
    let args: Vec<&'a str> = args.iter().map(String::as_str).collect();
    let rest: &[&str] = match (program(command), args.as_slice()) {
        ("npx" | "bunx" | "pnpx" | "uvx", rest)
        | ("pnpm" | "yarn", ["dlx", rest @ ..])
        | ("pipx", ["run", rest @ ..]) => rest,
        _ => return None,
    };
    // What follows these options is the package, or where it comes from; the program's name then says nothing.
    let chosen = rest.iter().position(|arg| matches!(*arg, "--from" | "-p" | "--package" | "--spec"));
    let package = match chosen {
        Some(index) => rest.get(index + 1),
        None => rest.iter().find(|arg| !arg.starts_with('-')),
    }?;
    let version = package.strip_prefix('@').unwrap_or(package).split_once(['@', '=', '<', '>', '~']);
    let elsewhere = package.contains("://") || package.starts_with(['.', '/']);
    match version {
        Some((_, version)) if !matches!(version, "" | "latest" | "next") => None,
        _ if elsewhere => None,
        _ => Some(package),
    }
}

/// Whether a value is a secret that stands there in plain sight.
pub fn looks_secret(name: &str, value: &str) -> bool {
    const BEGINNINGS: [&str; 14] = [
        "sk-",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "github_pat_",
        "glpat-",
        "xoxb-",
        "xoxp-",
        "AKIA",
        "AIza",
        "eyJ",
        "npm_",
        "hf_",
    ];
    let value = value.strip_prefix("Bearer ").or_else(|| value.strip_prefix("Basic ")).unwrap_or(value).trim();
    if value.is_empty() || value.contains("${") {
        return false;
    }
    if BEGINNINGS.iter().any(|beginning| value.starts_with(beginning)) && value.len() >= 16 {
        return true;
    }
    let name = name.to_ascii_uppercase().replace('-', "_");
    let words = ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "APIKEY", "AUTHORIZATION", "CREDENTIALS", "COOKIE"];
    let tells = |part: &str| part == "KEY" || words.iter().any(|word| part.ends_with(word));
    // A path or a word is no secret, whatever it is called.
    name.split('_').any(tells) && value.len() >= 8 && !value.starts_with(['/', '.', '~'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn shells_are_seen_however_they_are_called() {
        for (command, rest) in [
            ("sh", "-c id"),
            ("/bin/bash", "-lc id"),
            ("cmd.exe", "/C dir"),
            ("env", "sh -c id"),
            ("pwsh", "-Command ls"),
            ("busybox", "sh -c id"),
        ] {
            assert!(runs_a_shell(command, &args(rest)), "{command} {rest}");
        }
        assert!(!runs_a_shell("node", &args("-c server.js")));
        for (command, rest) in [
            ("/usr/bin/node", "--eval=1"),
            ("python3.12", "-c 1"),
            ("npx", "-y -c id"),
            ("env", "-S id"),
            ("perl", "-e 1"),
        ] {
            assert!(runs_a_text(command, &args(rest)), "{command} {rest}");
        }
        assert!(!runs_a_text("node", &args("server.js")) && !runs_a_text("python", &args("-m server")));
        assert!(!runs_a_shell("bash", &args("server.sh")));
    }

    #[test]
    fn a_package_without_a_version_is_named() {
        let check = |line: &str| {
            let words = args(line);
            unpinned(&words[0], &words[1..]).map(str::to_owned)
        };
        assert_eq!(check("npx -y @scope/pkg").as_deref(), Some("@scope/pkg"));
        assert_eq!(check("npx -y pkg@latest").as_deref(), Some("pkg@latest"));
        assert_eq!(check("npx -y @scope/pkg@1.2.3"), None);
        assert_eq!(check("uvx mcp-server-time").as_deref(), Some("mcp-server-time"));
        assert_eq!(check("uvx mcp-server-time==1.0"), None);
        assert_eq!(check("uvx --from git+https://x/y@abc tool"), None);
        assert_eq!(check("npx ./local"), None);
        assert_eq!(check("node server.js"), None);
    }

    #[test]
    fn secrets_in_plain_sight_are_known() {
        assert!(looks_secret("GITHUB_TOKEN", "abcdefghij"));
        assert!(looks_secret("Authorization", "Bearer sk-12345678901234567890"));
        assert!(looks_secret("X-Api-Key", "0123456789"));
        assert!(!looks_secret("GITHUB_TOKEN", "${GITHUB_TOKEN}"));
        assert!(!looks_secret("TOKEN_FILE", "/run/secrets/token"));
        assert!(!looks_secret("MODE", "production"));
        assert!(!looks_secret("MONKEY", "bananabanana"));
    }
}
