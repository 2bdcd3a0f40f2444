//! The program that a command runs in the end, behind `env`, `nice`, `timeout` and the like.

/// A program that runs another one, which follows its own options.
struct Wrapper {
    name: &'static str,
    /// The first argument that makes it a wrapper, such as `run` of `uv run`.
    subcommand: Option<&'static str>,
    /// The options whose value is the next argument.
    valued: &'static [&'static str],
    /// How many arguments precede the program.
    positionals: usize,
}

const fn wrapper(name: &'static str, valued: &'static [&'static str], positionals: usize) -> Wrapper {
    Wrapper { name, subcommand: None, valued, positionals }
}

const fn runner(name: &'static str, subcommand: &'static str, valued: &'static [&'static str]) -> Wrapper {
    Wrapper { name, subcommand: Some(subcommand), valued, positionals: 0 }
}

const WRAPPERS: [Wrapper; 32] = [
    wrapper(ENV, &["-u", "--unset", "-C", "--chdir", "-P"], 0),
    wrapper("nice", &["-n", "--adjustment"], 0),
    wrapper("timeout", &["-s", "--signal", "-k", "--kill-after"], 1),
    wrapper("gtimeout", &["-s", "--signal", "-k", "--kill-after"], 1),
    wrapper("ionice", &["-c", "--class", "-n", "--classdata"], 0),
    wrapper("chrt", &["-T", "-P", "-D"], 1),
    wrapper("taskset", &[], 1),
    wrapper("stdbuf", &["-i", "--input", "-o", "--output", "-e", "--error"], 0),
    wrapper("sudo", &["-u", "--user", "-g", "--group", "-h", "-p", "-C", "-D", "--chdir", "-R", "-T", "-U"], 0),
    wrapper("doas", &["-u", "-C"], 0),
    wrapper("nohup", &[], 0),
    wrapper("setsid", &[], 0),
    wrapper("time", &["-f", "-o"], 0),
    wrapper("exec", &["-a"], 0),
    wrapper("command", &[], 0),
    wrapper("busybox", &[], 0),
    wrapper("toybox", &[], 0),
    wrapper("xargs", &["-I", "-n", "-P", "-L", "-s", "-d", "-a", "-E"], 0),
    wrapper("arch", &[], 0),
    wrapper("flock", &["-w", "--timeout", "-E", "--conflict-exit-code"], 1),
    wrapper("caffeinate", &["-t", "-w"], 0),
    wrapper("unshare", &["-S", "-G", "-w", "-R"], 0),
    wrapper("setarch", &[], 1),
    wrapper("linux32", &[], 0),
    wrapper("linux64", &[], 0),
    wrapper("strace", &["-a", "-b", "-e", "-E", "-I", "-o", "-O", "-p", "-P", "-s", "-S", "-u", "-U", "-X"], 0),
    wrapper("ltrace", &["-a", "-e", "-l", "-n", "-o", "-p", "-s", "-u", "-x"], 0),
    wrapper(
        "systemd-run",
        &["-u", "--unit", "-p", "--property", "-E", "--setenv", "--slice", "--uid", "--gid", "-M"],
        0,
    ),
    wrapper("parallel", &["-j", "--jobs", "-a", "--arg-file", "-S", "--sshlogin", "--colsep"], 0),
    runner(
        "uv",
        "run",
        &["--with", "-w", "--python", "-p", "--project", "--directory", "--extra", "--group", "--index"],
    ),
    runner("poetry", "run", &["-C", "--directory", "-P", "--project"]),
    runner("bundle", "exec", &[]),
];

/// The wrapper that also sets variables and splits strings.
const ENV: &str = "env";

/// A program and its arguments, without wrappers.
pub(super) struct Invocation<'a> {
    /// The file name in lower case, without `.exe`.
    pub(super) program: String,
    pub(super) args: &'a [String],
    /// The names of the variables that a wrapper sets.
    pub(super) variables: Vec<&'a str>,
    /// Whether `env -S` splits a string into a command, or `flock -c` passes one to a shell.
    pub(super) splits_string: bool,
}

impl<'a> Invocation<'a> {
    pub(super) fn of(command: &str, args: &'a [String]) -> Self {
        let mut invocation = Self { program: program_name(command), args, variables: Vec::new(), splits_string: false };
        while let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.wraps(&invocation)) {
            match invocation.unwrapped(wrapper) {
                Some(inner) => invocation = inner,
                None => break,
            }
        }
        invocation
    }

    /// Returns the invocation behind a wrapper; `None` if nothing follows.
    fn unwrapped(&mut self, wrapper: &Wrapper) -> Option<Self> {
        let is_env = wrapper.name == ENV;
        let mut rest = &self.args[usize::from(wrapper.subcommand.is_some())..];
        let mut positionals = wrapper.positionals;
        while let Some((first, after)) = rest.split_first() {
            let is_command = wrapper.name == "flock" && matches!(first.as_str(), "-c" | "--command");
            if is_command || is_env && is_split_string(first) {
                self.splits_string = true;
                return None;
            }
            if first == "--" {
                rest = after;
                // Only variables and positionals can follow.
                continue;
            }
            if first.starts_with('-') && first.len() > 1 {
                let has_value = wrapper.valued.contains(&first.as_str());
                rest = if has_value { after.get(1..).unwrap_or_default() } else { after };
            } else if let Some((name, _)) = first.split_once('=').filter(|_| is_env || wrapper.name == "sudo") {
                self.variables.push(name);
                rest = after;
            } else if positionals > 0 {
                positionals -= 1;
                rest = after;
            } else {
                let variables = std::mem::take(&mut self.variables);
                let program = program_name(first);
                return Some(Self { program, args: after, variables, splits_string: self.splits_string });
            }
        }
        None
    }
}

impl Wrapper {
    fn wraps(&self, invocation: &Invocation<'_>) -> bool {
        let first = invocation.args.first().map(String::as_str);
        self.name == invocation.program && (self.subcommand.is_none() || self.subcommand == first)
    }
}

/// Whether an option of `env` is `-S`, alone or with other letters before it.
fn is_split_string(option: &str) -> bool {
    match option.strip_prefix('-') {
        Some(long) if long.starts_with('-') => long.starts_with("-split-string"),
        // The value may follow without a space.
        Some(letters) => letters.split(['u', 'C']).next().unwrap_or_default().contains(['S', 's']),
        None => false,
    }
}

/// Returns the file name of a program, in lower case.
fn program_name(command: &str) -> String {
    let name = command.rsplit(['/', '\\']).next().unwrap_or(command).to_ascii_lowercase();
    [".exe", ".cmd", ".bat"].iter().find_map(|ending| name.strip_suffix(ending)).map(str::to_owned).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &str) {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let found = Invocation::of(&words[0], &words[1..]);
        assert_eq!(format!("{} {}", found.program, found.args.join(" ")).trim(), expected, "{line}");
    }

    #[test]
    fn wrappers_and_their_options_are_skipped() {
        check("sh -c id", "sh -c id");
        check("/usr/bin/nice -n 10 /bin/SH -c id", "sh -c id");
        check("nice -10 sh x", "sh x");
        check("timeout -k 5 --signal=KILL 30s nice sh -c id", "sh -c id");
        check("env -i -u HOME A=b C=d -- python3 -m x", "python3 -m x");
        check("env nohup timeout 1 busybox sh -c id", "sh -c id");
        check("sudo -u me A=b sh -c id", "sh -c id");
        check("uv run --with x python -m y", "python -m y");
        check("uv tool run x", "uv tool run x");
        check("cmd.exe /c dir", "cmd /c dir");
        check("flock -w 5 /tmp/lock sh -c id", "sh -c id");
        check("env", "env");
        check("timeout 5", "timeout 5");
    }

    #[test]
    fn variables_and_split_strings_of_env_are_found() {
        let words: Vec<String> = ["-u", "X", "LD_PRELOAD=/x", "nice", "node"].map(str::to_owned).into();
        assert_eq!(Invocation::of("env", &words).variables, ["LD_PRELOAD"]);
        for option in ["-S", "-vS", "-Ssh -c id", "--split-string=sh"] {
            assert!(Invocation::of("env", &[option.to_owned(), "id".to_owned()]).splits_string, "{option}");
        }
        assert!(!Invocation::of("env", &["-i".to_owned(), "sh".to_owned(), "-S".to_owned()]).splits_string);
    }
}
