//! The binary as its users meet it: what it prints, how it ends, and what it leaves behind.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod add;
mod approve;
mod call;
mod completions;
mod config;
mod configured;
mod context;
mod doctor;
mod ending;
mod import;
mod list;
mod login;
mod manage;
mod misuse;
mod offers;
mod permitted;
mod project;
mod protocol;
mod readme;
mod remote;
mod run;
mod safety;
mod slips;
mod tools;
mod world;

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use wharf_testkit::{Script, scripted_server};

/// The binary with arguments, in an environment that knows nothing of the one who runs the tests.
fn wharf(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wharf"));
    command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("SECRET", "s3cr3t").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A line of the shell on a terminal of its own, in an environment as bare as that of `wharf`. What it shows is on stdout.
fn on_terminal(line: &str) -> Command {
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", line, "/dev/null"]).env_clear();
    script.env("PATH", "/usr/bin:/bin").env("TERM", "xterm").env("SECRET", "s3cr3t").stdin(Stdio::null());
    script.stdout(Stdio::piped());
    script
}

/// A scripted server for `--mcp`, in a folder of its own; `$` in its texts stands for that folder.
struct Server {
    folder: tempfile::TempDir,
}

impl Server {
    fn new(script: &Script) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = serde_json::to_string(script).unwrap().replace('$', folder.path().to_str().unwrap());
        std::fs::write(folder.path().join("script"), text).unwrap();
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The value of `--mcp`, under the name `s`.
    fn mcp(&self) -> String {
        format!("s={}", self.command_line())
    }

    /// What it is started with.
    fn command_line(&self) -> String {
        format!("{} {}", scripted_server().display(), self.path().join("script").display())
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let mcp = self.mcp();
        ran(wharf(&[arguments, &["--mcp", &mcp]].concat()))
    }
}

/// A person with a home and a project, and nothing that is configured yet.
struct Person {
    folder: tempfile::TempDir,
}

impl Person {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "project/.git"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    /// A file or folder of theirs.
    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file of theirs.
    fn write(&self, name: &str, text: &str) {
        let file = self.path(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// The same with a server in it.
    fn with(self, file: &str, name: &str, entry: &serde_json::Value) -> Self {
        let text = std::fs::read_to_string(self.path(file)).unwrap_or_else(|_| r#"{"mcpServers": {}}"#.to_owned());
        let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
        value["mcpServers"][name] = entry.clone();
        self.write(file, &serde_json::to_string_pretty(&value).unwrap());
        self
    }

    /// The binary, as this person runs it in the project.
    fn wharf(&self, arguments: &[&str]) -> Command {
        let mut command = wharf(arguments);
        command.env("HOME", self.path("home")).current_dir(self.path("project"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        ran(self.wharf(arguments))
    }

    /// A screen on which everything that is never the same has been made the same.
    fn screen(&self, ran: &Ran) -> String {
        let text = screen(ran).replace(self.folder.path().to_str().unwrap(), "");
        let text = text.replace(env!("CARGO_BIN_EXE_wharf"), "WHARF");
        match text.split_once("/wharf/projects/") {
            Some((_, rest)) => text.replace(&rest[..16], "PROJECT"),
            None => text,
        }
    }
}

/// The file of the user scope, in a home.
const USER: &str = "home/.config/wharf/mcp.json";
/// The file of the project.
const PROJECT: &str = "project/.mcp.json";

/// An entry that starts a server which works: this binary's own.
fn good() -> serde_json::Value {
    serde_json::json!({"command": env!("CARGO_BIN_EXE_wharf"), "args": ["__demo-server"]})
}

/// An entry that leaves a trace when it is started.
fn traced(file: &Path) -> serde_json::Value {
    let line = format!("touch {}; exec {} __demo-server", file.display(), env!("CARGO_BIN_EXE_wharf"));
    serde_json::json!({"command": "sh", "args": ["-c", line]})
}

/// What a run came to.
struct Ran {
    code: i32,
    out: String,
    err: String,
}

fn ran(mut command: Command) -> Ran {
    done(&command.output().unwrap())
}

fn ran_with_input(mut command: Command, input: &str) -> Ran {
    let mut child: Child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    done(&child.wait_with_output().unwrap())
}

fn done(output: &Output) -> Ran {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Ran { code: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
}

/// A run on one screen: how it ended, stdout, stderr.
fn screen(ran: &Ran) -> String {
    format!("exit {}\n--- stdout\n{}--- stderr\n{}", ran.code, ran.out, ran.err)
}
