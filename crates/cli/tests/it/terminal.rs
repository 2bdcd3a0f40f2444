//! Commands on a terminal of their own, and answers to their questions.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};

/// Returns a shell command on its own terminal, in the environment of `wharf`. Its stdout is the terminal's output.
pub(crate) fn on_terminal(line: &str) -> Command {
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", line, "/dev/null"]).env_clear();
    script.env("PATH", "/usr/bin:/bin").env("TERM", "xterm").env("SECRET", "s3cr3t").stdin(Stdio::null());
    script.stdout(Stdio::piped());
    script
}

/// A command on its own terminal.
pub(crate) struct Terminal {
    child: Child,
    seen: String,
}

impl Terminal {
    /// Starts a command of [`on_terminal`].
    pub(crate) fn start(mut command: Command) -> Self {
        Self { child: command.stdin(Stdio::piped()).spawn().unwrap(), seen: String::new() }
    }

    /// Waits until the terminal shows a text, and types a line.
    pub(crate) fn answer(&mut self, question: &str, line: &str) {
        self.wait_for(question);
        self.write(&format!("{line}\n"));
    }

    /// Types a text.
    pub(crate) fn write(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(text.as_bytes()).and_then(|()| stdin.flush()).unwrap();
    }

    /// Waits until the terminal shows a text.
    pub(crate) fn wait_for(&mut self, question: &str) {
        let from = self.seen.len();
        let mut stdout = self.child.stdout.take().unwrap();
        let mut bytes = Vec::new();
        let mut byte = [0];
        while !String::from_utf8_lossy(&bytes).contains(question) {
            let read = stdout.read(&mut byte).unwrap();
            assert!(read > 0, "no {question:?}: {}{}", self.seen, String::from_utf8_lossy(&bytes));
            bytes.push(byte[0]);
        }
        self.child.stdout = Some(stdout);
        self.seen.push_str(&String::from_utf8(bytes).unwrap());
        assert!(self.seen.len() > from);
    }

    /// Returns what the terminal showed so far.
    pub(crate) fn seen(&self) -> &str {
        &self.seen
    }

    /// Ends the input, waits for the end, and returns the exit code and everything that the terminal showed.
    pub(crate) fn finish(mut self) -> (Option<i32>, String) {
        drop(self.child.stdin.take());
        self.ended()
    }

    /// Waits for the end of a program that was told to end by its input. Without the input, the terminal would hang up.
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        let code = self.child.wait().unwrap().code();
        self.seen.push_str(&rest);
        (code, self.seen.replace('\r', ""))
    }
}
