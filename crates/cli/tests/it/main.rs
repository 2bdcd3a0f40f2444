//! The binary as its users meet it: what it prints, how it ends, and what it leaves behind.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod call;
mod context;
mod doctor;
mod ending;
mod misuse;
mod protocol;
mod readme;
mod remote;
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
        format!("s={} {}", scripted_server().display(), self.path().join("script").display())
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let mcp = self.mcp();
        ran(wharf(&[arguments, &["--mcp", &mcp]].concat()))
    }
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
