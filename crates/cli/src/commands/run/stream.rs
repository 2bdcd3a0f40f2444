//! `--output stream-json`: one JSON value per line for each event.

use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

use wharf::Redactor;
use wharf::agent::{AgentEvent, Delta, EventSink};

use crate::term::{self, json_line};

/// Writes events in order, without secrets.
pub(super) struct Stream {
    redactor: Redactor,
    /// Streamed text that may be the beginning of a secret. One line is written at a time.
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    text: String,
    is_thinking: bool,
}

impl Stream {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self { redactor, held: Mutex::default() }
    }

    /// Returns the events to write now: a delta waits until it is certain that it does not end within a secret.
    fn released(&self, held: &mut Held, event: AgentEvent) -> Vec<AgentEvent> {
        let (text, is_thinking) = match event {
            AgentEvent::ModelDelta(Delta::Text(text)) => (text, false),
            AgentEvent::ModelDelta(Delta::Thinking(text)) => (text, true),
            event => return held.take(0).into_iter().chain([event]).collect(),
        };
        let mut events = Vec::new();
        if held.is_thinking != is_thinking {
            events.extend(held.take(0));
            held.is_thinking = is_thinking;
        }
        held.text.push_str(&text);
        let redacted = self.redactor.redact(&held.text).into_owned();
        held.text = redacted;
        events.extend(held.take(self.redactor.incomplete_bytes(&held.text)));
        events
    }
}

impl Held {
    /// Takes all text except for this many bytes at the end.
    fn take(&mut self, except: usize) -> Option<AgentEvent> {
        let rest = self.text.split_off(self.text.len() - except);
        let text = std::mem::replace(&mut self.text, rest);
        let delta = if self.is_thinking { Delta::Thinking(text) } else { Delta::Text(text) };
        match &delta {
            Delta::Text(text) | Delta::Thinking(text) if text.is_empty() => None,
            _ => Some(AgentEvent::ModelDelta(delta)),
        }
    }
}

impl EventSink for Stream {
    fn event(&self, event: AgentEvent) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stdout = std::io::stdout().lock();
        term::set_output();
        for event in self.released(&mut held, event) {
            let Ok(line) = serde_json::to_string(&event) else { continue };
            let mut line = json_line(&self.redactor.redact_json(&line));
            line.push('\n');
            // A reader that closed the pipe is not an error.
            let _ = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wharf::Secret;

    #[test]
    fn a_secret_in_several_deltas_is_redacted() {
        let stream = Stream::new(Redactor::new([Secret::new("tok-12345")]));
        let mut held = Held::default();
        let mut text = String::new();
        let pieces = ["it is t", "ok-1", "2345", "6, not to", "day"];
        let deltas = pieces.map(|piece| AgentEvent::ModelDelta(Delta::Text(piece.to_owned())));
        let end = AgentEvent::Warning { message: "end".to_owned() };
        for event in deltas.into_iter().chain([end]) {
            for event in stream.released(&mut held, event) {
                if let AgentEvent::ModelDelta(Delta::Text(piece)) = event {
                    text.push_str(&piece);
                }
            }
        }
        assert_eq!(text, "it is [secret]6, not today");
    }
}
