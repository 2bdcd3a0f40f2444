//! Data on stdout.

use std::io::{IsTerminal as _, Write as _};

use rustix::termios::tcgetwinsize;
use wharf::Redactor;

use super::json_line::json_line;
use super::line_quoter::unlabeled;
use super::message::error;
use super::reported;
use super::text::plain;
use crate::exit::Exit;

/// Writes text and a line feed to stdout.
pub(crate) async fn out(mut text: String) -> Exit {
    text.push('\n');
    exactly(text.into_bytes()).await
}

/// Writes bytes to stdout as they are. A reader that closed the pipe is not an error.
///
/// A blocking thread writes them: a pipe that is not read must not keep us from handling Ctrl-C.
pub(crate) async fn exactly(bytes: Vec<u8>) -> Exit {
    reported::set_output();
    let write = move || {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(&bytes).and_then(|()| stdout.flush())
    };
    match tokio::task::spawn_blocking(write).await {
        Ok(Err(cause)) if cause.kind() != std::io::ErrorKind::BrokenPipe => {
            error(&format!("cannot write to stdout: {cause}"), &[], None);
            Exit::Failed
        }
        _ => Exit::Done,
    }
}

/// Writes one JSON value to stdout, in one line.
pub(crate) async fn json(value: &impl serde::Serialize) -> Exit {
    redacted_json(value, &Redactor::default()).await
}

/// Like [`json`], without secrets.
pub(crate) async fn redacted_json(value: &impl serde::Serialize, redactor: &Redactor) -> Exit {
    match serde_json::to_string(value) {
        Ok(text) => out(json_line(&redactor.redact_json(&text))).await,
        Err(cause) => {
            error(&format!("cannot write the result as JSON: {cause}"), &[], None);
            Exit::Failed
        }
    }
}

/// Returns the width of the terminal, if stdout is one.
pub(crate) fn terminal_width() -> Option<u16> {
    tcgetwinsize(std::io::stdout()).ok().map(|size| size.ws_col).filter(|width| *width > 0)
}

/// Makes a server's text harmless for a terminal, and leaves it as it is for a pipe.
pub(crate) fn for_stdout(text: String) -> String {
    if std::io::stdout().is_terminal() { unlabeled(&plain(&text), terminal_width().map(usize::from)) } else { text }
}
