//! A question whose answer is not shown.

use std::io::{self, Write as _};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Turns the echo of the terminal off for as long as it lives.
struct WithoutEcho {
    before: Termios,
}

impl WithoutEcho {
    fn begin() -> io::Result<Self> {
        let stdin = io::stdin();
        let before = tcgetattr(&stdin)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        // The line break is shown, so that the next output starts on its own line.
        silent.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(&stdin, OptionalActions::Flush, &silent)?;
        Ok(Self { before })
    }
}

impl Drop for WithoutEcho {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Asks for a line, which the terminal does not show.
pub(crate) fn ask(question: &str) -> io::Result<String> {
    // Before the question, so that an answer is never shown.
    let _silent = WithoutEcho::begin()?;
    let mut stderr = io::stderr();
    write!(stderr, "{question}")?;
    stderr.flush()?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
