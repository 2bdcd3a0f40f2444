//! Risks of an entry: shells, variables that load code, plaintext secrets, unpinned versions.

/// Variables that make any program load code or run another program.
const CODE_LOADING: [&str; 27] = [
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

/// Variables that make programs read other settings, and with them other code.
const SETTINGS_PATHS: [&str; 4] = ["HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME"];

/// Programs that run a command string.
const SHELLS: [&str; 12] =
    ["sh", "bash", "zsh", "dash", "ksh", "fish", "ash", "busybox", "cmd", "cmd.exe", "powershell", "pwsh"];

/// Returns whether an environment variable makes programs load other code.
pub(crate) fn loads_code(variable: &str) -> bool {
    let variable = variable.to_ascii_uppercase();
    let group = ["DYLD_", "GIT_CONFIG"].iter().any(|group| variable.starts_with(group));
    group || CODE_LOADING.contains(&variable.as_str())
}

/// Returns whether an environment variable makes programs read other settings.
pub(crate) fn moves_settings(variable: &str) -> bool {
    let variable = variable.to_ascii_uppercase();
    variable.starts_with("NPM_CONFIG_") || SETTINGS_PATHS.contains(&variable.as_str())
}

/// Returns whether a command passes code to an interpreter.
pub(crate) fn runs_inline_code(command: &str, args: &[String]) -> bool {
    let program = program(command).to_ascii_lowercase();
    // `python3.12` is Python.
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

/// Returns whether a command passes a command string to a shell.
pub(crate) fn runs_shell_string(command: &str, args: &[String]) -> bool {
    let is_string_option = |arg: &String| {
        let arg = arg.to_ascii_lowercase();
        // `-c`, `-lc` and so on, and the options of other shells.
        (arg.starts_with('-') && !arg.starts_with("--") && arg.ends_with('c'))
            || matches!(arg.as_str(), "/c" | "/k" | "-command" | "-encodedcommand" | "-enc" | "sh")
    };
    let program = program(command);
    let shell = |name: &str| SHELLS.contains(&name.to_ascii_lowercase().as_str());
    let through_env = program == "env" && args.iter().any(|arg| shell(self::program(arg)));
    (shell(program) || through_env) && args.iter().any(is_string_option)
}

/// Returns the file name of a program.
fn program(command: &str) -> &str {
    command.rsplit(['/', '\\']).next().unwrap_or(command)
}

/// Returns the package that a command fetches in its latest version.
pub(crate) fn unpinned<'a>(command: &str, args: &'a [String]) -> Option<&'a str> {
    let args: Vec<&'a str> = args.iter().map(String::as_str).collect();
    let rest: &[&str] = match (program(command), args.as_slice()) {
        ("npx" | "bunx" | "pnpx" | "uvx", rest)
        | ("pnpm" | "yarn", ["dlx", rest @ ..])
        | ("pipx", ["run", rest @ ..]) => rest,
        _ => return None,
    };
    // These options name the package or its origin; the name of the program then says nothing.
    let option = rest.iter().position(|arg| matches!(*arg, "--from" | "-p" | "--package" | "--spec"));
    let package = match option {
        Some(index) => rest.get(index + 1),
        None => rest.iter().find(|arg| !arg.starts_with('-')),
    }?;
    let version = package.strip_prefix('@').unwrap_or(package).split_once(['@', '=', '<', '>', '~']);
    let is_path = package.contains("://") || package.starts_with(['.', '/']);
    match version {
        Some((_, version)) if !matches!(version, "" | "latest" | "next") => None,
        _ if is_path => None,
        _ => Some(package),
    }
}

/// Returns whether the value of a variable or header looks like a plaintext secret.
pub fn looks_secret(name: &str, value: &str) -> bool {
    const PREFIXES: [&str; 14] = [
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
    if PREFIXES.iter().any(|prefix| value.starts_with(prefix)) && value.len() >= 16 {
        return true;
    }
    let name = name.to_ascii_uppercase().replace('-', "_");
    let suffixes = ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "APIKEY", "AUTHORIZATION", "CREDENTIALS", "COOKIE"];
    let is_secret = |part: &str| part == "KEY" || suffixes.iter().any(|suffix| part.ends_with(suffix));
    // A path or a short word is not a secret, whatever its name.
    name.split('_').any(is_secret) && value.len() >= 8 && !value.starts_with(['/', '.', '~'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn shells_and_interpreters_are_detected() {
        for (command, rest) in [
            ("sh", "-c id"),
            ("/bin/bash", "-lc id"),
            ("cmd.exe", "/C dir"),
            ("env", "sh -c id"),
            ("pwsh", "-Command ls"),
            ("busybox", "sh -c id"),
        ] {
            assert!(runs_shell_string(command, &args(rest)), "{command} {rest}");
        }
        assert!(!runs_shell_string("node", &args("-c server.js")));
        for (command, rest) in [
            ("/usr/bin/node", "--eval=1"),
            ("python3.12", "-c 1"),
            ("npx", "-y -c id"),
            ("env", "-S id"),
            ("perl", "-e 1"),
        ] {
            assert!(runs_inline_code(command, &args(rest)), "{command} {rest}");
        }
        assert!(!runs_inline_code("node", &args("server.js")) && !runs_inline_code("python", &args("-m server")));
        assert!(!runs_shell_string("bash", &args("server.sh")));
    }

    #[test]
    fn unpinned_packages_are_detected() {
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
    fn plaintext_secrets_are_detected() {
        assert!(looks_secret("GITHUB_TOKEN", "abcdefghij"));
        assert!(looks_secret("Authorization", "Bearer sk-12345678901234567890"));
        assert!(looks_secret("X-Api-Key", "0123456789"));
        assert!(!looks_secret("GITHUB_TOKEN", "${GITHUB_TOKEN}"));
        assert!(!looks_secret("TOKEN_FILE", "/run/secrets/token"));
        assert!(!looks_secret("MODE", "production"));
        assert!(!looks_secret("MONKEY", "bananabanana"));
    }
}
