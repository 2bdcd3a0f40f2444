//! Finding a command as the system would, and what to install if it is missing.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use wharf::fleet::{Scope, Server, TransportConfig};
use wharf::search_folders;

use crate::env;

/// The result of searching for a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Found(PathBuf),
    /// A script whose interpreter is missing.
    NoInterpreter(PathBuf, String),
    NotExecutable(PathBuf),
    Missing,
}

/// How much of a script is read to find its first line.
const FIRST_LINE_BYTES: u64 = 256;

/// Searches the absolute directories of `path` for a command. One with a `/` in it is relative to `folder`.
pub(crate) fn find(command: &str, path: Option<&OsStr>, folder: &Path) -> Program {
    let candidates: Vec<PathBuf> = if command.contains('/') {
        vec![folder.join(command)]
    } else {
        path.iter().flat_map(|path| search_folders(path)).map(|place| place.join(command)).collect()
    };
    let Some(file) = candidates.iter().find(|file| is_executable(file)) else {
        let there = candidates.into_iter().find(|file| file.exists());
        return there.map_or(Program::Missing, Program::NotExecutable);
    };
    match interpreter(file) {
        Some(named) if find(&named, path, folder) == Program::Missing => Program::NoInterpreter(file.clone(), named),
        _ => Program::Found(file.clone()),
    }
}

/// The command of a server that is not installed.
pub(crate) struct MissingCommand {
    pub(crate) command: String,
    /// How to install it.
    pub(crate) hint: String,
}

/// Returns the command of a server if this machine does not have it.
pub(crate) fn missing_command(server: &Server, project: &Path) -> Option<MissingCommand> {
    let TransportConfig::Stdio(stdio) = &server.transport else { return None };
    // A command that depends on a variable cannot be found yet.
    if stdio.command.contains("${") || stdio.env.contains_key("PATH") {
        return None;
    }
    let environment = env::for_servers();
    let path: Option<OsString> = environment.get("PATH").map(Into::into);
    // A project's relative command refers to its root.
    let folder = match &stdio.cwd {
        _ if server.scope == Scope::Project => project.to_owned(),
        Some(cwd) => cwd.clone(),
        None => std::env::current_dir().unwrap_or_else(|_| "/".into()),
    };
    let is_missing = find(&stdio.command, path.as_deref(), &folder) == Program::Missing;
    let hint = || install_hint(&stdio.command, path.as_deref());
    is_missing.then(|| MissingCommand { command: stdio.command.clone(), hint: hint() })
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Returns the interpreter in the first line of a script.
fn interpreter(file: &Path) -> Option<String> {
    let mut head = Vec::new();
    std::fs::File::open(file).ok()?.take(FIRST_LINE_BYTES).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line).into_owned();
    let mut words = line.split_whitespace();
    let first = words.next()?.to_owned();
    if !first.ends_with("/env") {
        return Some(first);
    }
    // `env` accepts options and variables before the program.
    words.find(|word| !word.starts_with('-') && !word.contains('=')).map(str::to_owned)
}

/// Returns how to install a missing command.
pub(crate) fn install_hint(command: &str, path: Option<&OsStr>) -> String {
    let name = command.rsplit('/').next().unwrap_or(command);
    let known = match name {
        "npx" | "npm" | "node" => "install Node.js, which includes `npx`: https://nodejs.org",
        "uvx" | "uv" => "install uv, which includes `uvx`: https://docs.astral.sh/uv",
        "python" if matches!(find("python3", path, Path::new("/")), Program::Found(_)) => {
            "use `python3`: this machine has no `python`"
        }
        "python" | "python3" | "pip" | "pipx" => "install Python 3: https://www.python.org",
        "docker" => "install Docker: https://docs.docker.com/get-docker",
        "podman" => "install Podman: https://podman.io",
        "deno" => "install Deno: https://deno.com",
        "bun" | "bunx" => "install Bun, which includes `bunx`: https://bun.sh",
        "dotnet" | "dnx" => "install the .NET SDK: https://dotnet.microsoft.com",
        "java" => "install a Java runtime: https://adoptium.net",
        _ if command.contains(['~', '$', '=', '&', '|']) => {
            "commands run without a shell: write paths in full, and variables into `env`"
        }
        _ if command.contains('/') => "fix the path, or install the program",
        _ => "install it, or write its full path; servers get the PATH of this program",
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(file: &Path, text: &str, mode: u32) {
        std::fs::write(file, text).unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn commands_and_interpreters_are_found_as_the_system_finds_them() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        write(&here.join("good"), "#!/bin/sh\n", 0o755);
        write(&here.join("data"), "#!/bin/sh\n", 0o644);
        write(&here.join("orphan"), "#!/usr/bin/env -S K=V no-such-interpreter -x\n", 0o755);
        write(&here.join("lost"), "#!/no/such/python3\n", 0o755);
        let path = std::env::join_paths([Path::new("/no/such/folder"), here]).unwrap();
        let found = |command: &str| find(command, Some(&path), here);
        assert_eq!(found("good"), Program::Found(here.join("good")));
        assert_eq!(found("./good"), Program::Found(here.join("./good")));
        assert_eq!(found("data"), Program::NotExecutable(here.join("data")));
        assert_eq!(found("orphan"), Program::NoInterpreter(here.join("orphan"), "no-such-interpreter".to_owned()));
        assert_eq!(found("lost"), Program::NoInterpreter(here.join("lost"), "/no/such/python3".to_owned()));
        assert_eq!((found("nowhere"), find("good", None, here)), (Program::Missing, Program::Missing));
        for relative in ["", ".", ":/no/such/folder"] {
            assert_eq!(find("good", Some(OsStr::new(relative)), here), Program::Missing, "{relative}");
        }
    }

    #[test]
    fn install_hints_name_the_package_of_common_commands() {
        let hint = |command: &str| install_hint(command, Some(OsStr::new("/no/such/folder")));
        assert!(hint("npx").contains("Node.js") && hint("/opt/node").contains("Node.js"));
        assert!(hint("uvx").contains("install uv") && hint("python").contains("install Python"));
        assert!(hint("~/bin/server").contains("without a shell"));
        assert!(hint("my-server").starts_with("install it"));
    }
}
