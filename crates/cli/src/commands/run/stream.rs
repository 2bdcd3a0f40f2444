//! `--output stream-json`: one JSON value per line for each event.

use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

use wharf::agent::{AgentEvent, EventSink};

use crate::term::json_line;

/// Writes events in order.
pub(super) struct Stream {
    /// One line at a time.
    turn: Mutex<()>,
}

impl Stream {
    pub(super) fn new() -> Self {
        Self { turn: Mutex::new(()) }
    }
}

impl EventSink for Stream {
    fn event(&self, event: AgentEvent) {
        let Ok(text) = serde_json::to_string(&event) else { return };
        let mut line = json_line(&text);
        line.push('\n');
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stdout = std::io::stdout().lock();
        // A reader that closed the pipe is not an error.
        let _ = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
    }
}
