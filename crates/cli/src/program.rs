//! Whether a command is there, as the system will look for it, and what to install if it is not.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// What became of looking for a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// It is here.
    At(PathBuf),
    /// It is here, and what should run it is not.
    NoInterpreter(PathBuf, String),
    /// It is here, and may not be run.
    NotExecutable(PathBuf),
    /// It is nowhere.
    Missing,
}

/// How much of a script is read to find its first line.
const FIRST_LINE: u64 = 256;

/// Looks for a command in the folders of `path`; one with a `/` in it is looked for from `folder`.
pub(crate) fn find(command: &str, path: Option<&OsStr>, folder: &Path) -> Program {
    let candidates: Vec<PathBuf> = if command.contains('/') {
        vec![folder.join(command)]
    } else {
        path.iter().flat_map(std::env::split_paths).map(|place| folder.join(place).join(command)).collect()
    };
    let Some(file) = candidates.iter().find(|file| is_executable(file)) else {
        let there = candidates.into_iter().find(|file| file.exists());
        return there.map_or(Program::Missing, Program::NotExecutable);
    };
    match interpreter(file) {
        Some(named) if find(&named, path, folder) == Program::Missing => Program::NoInterpreter(file.clone(), named),
        _ => Program::At(file.clone()),
    }
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// What the first line of a script says it is run by.
fn interpreter(file: &Path) -> Option<String> {
    let mut head = Vec::new();
    std::fs::File::open(file).ok()?.take(FIRST_LINE).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line).into_owned();
    let mut words = line.split_whitespace();
    let first = words.next()?.to_owned();
    if !first.ends_with("/env") {
        return Some(first);
    }
    // `env` may be given options and variables before the program.
    words.find(|word| !word.starts_with('-') && !word.contains('=')).map(str::to_owned)
}

/// How to come by a command that is nowhere.
pub(crate) fn remedy(command: &str, path: Option<&OsStr>) -> String {
    let name = command.rsplit('/').next().unwrap_or(command);
    let known = match name {
        "npx" | "npm" | "node" => "install Node.js, which brings `node`, `npm` and `npx`: https://nodejs.org",
        "uvx" | "uv" => "install uv, which brings `uvx`: https://docs.astral.sh/uv",
        "python" if matches!(find("python3", path, Path::new("/")), Program::At(_)) => {
            "there is no `python` here, but there is `python3`: write that"
        }
        "python" | "python3" | "pip" | "pipx" => "install Python 3: https://www.python.org",
        "docker" => "install Docker: https://docs.docker.com/get-docker",
        "podman" => "install Podman: https://podman.io",
        "deno" => "install Deno: https://deno.com",
        "bun" | "bunx" => "install Bun, which brings `bunx`: https://bun.sh",
        "dotnet" | "dnx" => "install the .NET SDK: https://dotnet.microsoft.com",
        "java" => "install a Java runtime: https://adoptium.net",
        _ if command.contains(['~', '$', '=', '&', '|']) => {
            "no shell is involved: write the command and its paths in full, and variables into `env`"
        }
        _ if command.contains('/') => "mend the path, or install what should be there",
        _ => "install it, or write its path in full; servers see the PATH that this program sees",
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
    fn a_command_is_looked_for_as_the_system_does_it_and_so_is_what_runs_it() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        write(&here.join("good"), "#!/bin/sh\n", 0o755);
        write(&here.join("data"), "#!/bin/sh\n", 0o644);
        write(&here.join("orphan"), "#!/usr/bin/env -S K=V no-such-interpreter -x\n", 0o755);
        write(&here.join("lost"), "#!/no/such/python3\n", 0o755);
        let path = std::env::join_paths([Path::new("/no/such/folder"), here]).unwrap();
        let found = |command: &str| find(command, Some(&path), here);
        assert_eq!(found("good"), Program::At(here.join("good")));
        assert_eq!(found("./good"), Program::At(here.join("./good")));
        assert_eq!(found("data"), Program::NotExecutable(here.join("data")));
        assert_eq!(found("orphan"), Program::NoInterpreter(here.join("orphan"), "no-such-interpreter".to_owned()));
        assert_eq!(found("lost"), Program::NoInterpreter(here.join("lost"), "/no/such/python3".to_owned()));
        assert_eq!((found("nowhere"), find("good", None, here)), (Program::Missing, Program::Missing));
    }

    #[test]
    fn what_to_install_is_named_for_the_usual_commands() {
        let told = |command: &str| remedy(command, Some(OsStr::new("/no/such/folder")));
        assert!(told("npx").contains("Node.js") && told("/opt/node").contains("Node.js"));
        assert!(told("uvx").contains("install uv") && told("python").contains("install Python"));
        assert!(told("~/bin/server").contains("no shell"));
        assert!(told("my-server").starts_with("install it"));
    }
}
