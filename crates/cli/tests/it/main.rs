//! Tests of the binary: its output, its exit codes, and the files and processes it leaves behind.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod add;
mod approve;
mod call;
mod call_questions;
mod certificates;
mod completions;
mod config;
mod context;
mod doctor;
mod fixtures;
mod help;
mod hostile;
mod import;
mod json_errors;
mod links_and_export;
mod list;
mod login;
mod logs;
mod manage;
mod policy;
mod project;
mod prompts_and_resources;
mod protocol;
mod readme;
mod registry;
mod remote;
mod repl;
mod run;
mod safety;
mod server_states;
mod shutdown;
mod terminal;
mod tools;
mod trace;
mod usage_errors;
mod usage_hints;
mod variables;
mod verify;

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use terminal::on_terminal;
use wharf_testkit::{Script, scripted_server};

/// Returns the binary with arguments, isolated from the environment of the tests.
fn wharf(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wharf"));
    command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("SECRET", "s3cr3t").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A scripted server for `--mcp`, in its own directory; `$` in its script stands for that directory.
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

    /// Returns the value of `--mcp`; the server is named `s`.
    fn mcp(&self) -> String {
        format!("s={}", self.command_line())
    }

    /// Returns the command line that starts the server.
    fn command_line(&self) -> String {
        format!("{} {}", scripted_server().display(), self.path().join("script").display())
    }

    fn run(&self, arguments: &[&str]) -> RunOutput {
        let mcp = self.mcp();
        ran(wharf(&[arguments, &["--mcp", &mcp]].concat()))
    }
}

/// A user with a home and a project directory, without any configuration.
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

    /// Returns the path of a file or directory of the user.
    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file of the user, and creates its directory.
    fn write(&self, name: &str, text: &str) {
        let file = self.path(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Adds a server to a configuration file.
    fn with(self, file: &str, name: &str, entry: &serde_json::Value) -> Self {
        let text = std::fs::read_to_string(self.path(file)).unwrap_or_else(|_| r#"{"mcpServers": {}}"#.to_owned());
        let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
        value["mcpServers"][name] = entry.clone();
        self.write(file, &serde_json::to_string_pretty(&value).unwrap());
        self
    }

    /// Returns the binary with this home, in the project directory.
    fn wharf(&self, arguments: &[&str]) -> Command {
        let mut command = wharf(arguments);
        command.env("HOME", self.path("home")).current_dir(self.path("project"));
        command
    }

    fn run(&self, arguments: &[&str]) -> RunOutput {
        ran(self.wharf(arguments))
    }

    /// Returns the output of a run, without the parts that differ between runs.
    fn screen(&self, ran: &RunOutput) -> String {
        let text = screen(ran).replace(self.folder.path().to_str().unwrap(), "");
        let text = text.replace(env!("CARGO_BIN_EXE_wharf"), "WHARF");
        match text.split_once("/wharf/projects/") {
            Some((_, rest)) => text.replace(&rest[..16], "PROJECT"),
            None => text,
        }
    }
}

/// The configuration file of the user scope.
const USER: &str = "home/.config/wharf/mcp.json";
/// The configuration file of the project scope.
const PROJECT: &str = "project/.mcp.json";

/// Returns an entry of a working server: the demo server of the binary.
fn demo_entry() -> serde_json::Value {
    serde_json::json!({"command": env!("CARGO_BIN_EXE_wharf"), "args": ["__demo-server"]})
}

/// Returns the entry of a demo server that creates a file when it starts.
fn entry_touching(file: &Path) -> serde_json::Value {
    let line = format!("touch {}; exec {} __demo-server", file.display(), env!("CARGO_BIN_EXE_wharf"));
    serde_json::json!({"command": "sh", "args": ["-c", line]})
}

/// The exit code and the output of a run.
struct RunOutput {
    code: i32,
    out: String,
    err: String,
}

fn ran(mut command: Command) -> RunOutput {
    run_output(&command.output().unwrap())
}

fn ran_with_input(mut command: Command, input: &str) -> RunOutput {
    let mut child: Child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    run_output(&child.wait_with_output().unwrap())
}

/// Sends Ctrl-C to a command, and returns its output.
fn interrupted(child: Child) -> RunOutput {
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    run_output(&child.wait_with_output().unwrap())
}

fn run_output(output: &Output) -> RunOutput {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    RunOutput { code: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
}

/// Formats a run for snapshots: exit code, stdout, stderr.
fn screen(ran: &RunOutput) -> String {
    format!("exit {}\n--- stdout\n{}--- stderr\n{}", ran.code, ran.out, ran.err)
}
