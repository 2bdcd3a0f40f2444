//! The prompt of a run: an argument, the text on stdin, or both.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _};
use std::time::Duration;

use tokio::sync::oneshot;

use super::args::Run;
use crate::error::{UsageError, usage_error};
use crate::term;

/// The most that is read from stdin.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// How long a run with a prompt waits for a pipe that may stay silent, as in programs that start others.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(3);
const STDIN: &str = "-";

/// Returns the prompt; `None` for a resumed run, which has one.
pub(super) async fn read(run: &Run) -> Result<Option<String>, UsageError> {
    if run.resume.is_some() {
        return Ok(None);
    }
    let is_piped = !io::stdin().is_terminal();
    let prompt = match run.prompt.as_deref() {
        Some(STDIN) => from_stdin().await?,
        None if is_piped => from_stdin().await?,
        None => {
            let hint = "pass one: wharf run 'What time is it?', or pipe one: wharf run < prompt.txt";
            return Err(usage_error("no prompt given".to_owned(), Some(hint)));
        }
        Some(given) if is_piped => with_piped(given).await?,
        Some(given) => given.to_owned(),
    };
    if prompt.trim().is_empty() {
        return Err(usage_error("the prompt is empty".to_owned(), None));
    }
    Ok(Some(prompt))
}

/// Returns the prompt, and after it the text on stdin, if any.
async fn with_piped(given: &str) -> Result<String, UsageError> {
    let (started, first) = oneshot::channel();
    let reading = tokio::task::spawn_blocking(move || {
        let _ = io::stdin().lock().fill_buf();
        let _ = started.send(());
        text()
    });
    if tokio::time::timeout(FIRST_BYTE_TIMEOUT, first).await.is_err() {
        // Also with --quiet: whatever arrives later is not a part of the prompt.
        let seconds = FIRST_BYTE_TIMEOUT.as_secs();
        term::warning(&format!("stdin is a pipe without data for {seconds} s; continuing without it"));
        term::hint("to wait for it, omit the prompt or write `-`; to ignore it: wharf run … </dev/null");
        return Ok(given.to_owned());
    }
    let piped = reading.await.map_err(|error| unreadable(&error.to_string()))??;
    // An empty prompt is an error, whatever follows it.
    if given.trim().is_empty() || piped.trim().is_empty() {
        return Ok(given.to_owned());
    }
    Ok(format!("{given}\n\n{piped}"))
}

async fn from_stdin() -> Result<String, UsageError> {
    tokio::task::spawn_blocking(text).await.map_err(|error| unreadable(&error.to_string()))?
}

fn text() -> Result<String, UsageError> {
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(&error.to_string()))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(unreadable(&format!("it is larger than {} MiB", MAX_BYTES / (1024 * 1024))));
    }
    String::from_utf8(bytes).map_err(|_| unreadable("invalid UTF-8"))
}

fn unreadable(reason: &str) -> UsageError {
    usage_error(format!("cannot read the prompt from stdin: {reason}"), None)
}
