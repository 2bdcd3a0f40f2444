//! The last lines of a process's stderr, which is always read, in a small ring buffer.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncRead;
use tokio::sync::watch;

use crate::lines::{LineEvent, LineReader};

/// Number of stored lines.
const MAX_LINES: usize = 40;
/// Stored bytes per line.
const MAX_LINE_BYTES: usize = 1024;

/// A ring buffer of lines, shared between the reading task and its users.
#[derive(Clone, Debug)]
pub struct LastLines {
    ring: Arc<Mutex<Ring>>,
    finished: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Ring {
    lines: VecDeque<String>,
    total: u64,
    observer: Option<LineObserver>,
}

/// Receives every line, in order. It is called while the line is stored, so it must return quickly.
#[derive(Clone)]
pub struct LineObserver(Arc<dyn Fn(&str) + Send + Sync>);

impl LineObserver {
    /// Creates an observer that calls `observe` with each line.
    pub fn new(observe: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(observe))
    }
}

impl fmt::Debug for LineObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LineObserver(..)")
    }
}

impl Default for LastLines {
    fn default() -> Self {
        Self { ring: Arc::default(), finished: watch::Sender::new(false) }
    }
}

impl LastLines {
    /// Returns the last lines, oldest first.
    pub fn lines(&self) -> Vec<String> {
        self.lock().lines.iter().cloned().collect()
    }

    /// Returns how many lines have been read.
    pub fn total(&self) -> u64 {
        self.lock().total
    }

    /// Passes the lines to an observer: those that are stored, and all that follow.
    pub fn observe(&self, observer: LineObserver) {
        let mut ring = self.lock();
        ring.lines.iter().for_each(|line| (observer.0)(line));
        ring.observer = Some(observer);
    }

    pub(super) async fn drain(self, source: impl AsyncRead + Unpin) {
        let mut lines = LineReader::new(source, MAX_LINE_BYTES);
        while let Ok(Some(event)) = lines.next().await {
            match event {
                LineEvent::Line(line) | LineEvent::Unfinished(line) => self.push(&line, ""),
                LineEvent::TooLong { head } => self.push(&head, "…"),
                LineEvent::TooLongEnd { .. } => {}
            }
        }
        self.finished.send_replace(true);
    }

    /// Marks the stream as read to its end if there is none.
    pub(super) fn mark_finished(&self) {
        self.finished.send_replace(true);
    }

    /// Waits until the stream has been read to its end, or `limit` has passed.
    pub(super) async fn finished(&self, limit: Duration) {
        let mut finished = self.finished.subscribe();
        let _ = tokio::time::timeout(limit, finished.wait_for(|finished| *finished)).await;
    }

    fn push(&self, line: &[u8], cut: &str) {
        let text = String::from_utf8_lossy(line);
        let mut ring = self.lock();
        ring.total += 1;
        if ring.lines.len() == MAX_LINES {
            ring.lines.pop_front();
        }
        let text = text.trim_end();
        // A character that was cut in half would hide that a secret was cut with it.
        let text = if cut.is_empty() { text } else { text.trim_end_matches(char::REPLACEMENT_CHARACTER) };
        let line = format!("{text}{cut}");
        if let Some(LineObserver(observe)) = &ring.observer {
            observe(&line);
        }
        ring.lines.push_back(line);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_last_lines_are_stored_each_truncated_to_its_limit() {
        let stderr = LastLines::default();
        let mut flood: Vec<u8> = (0..5_000).flat_map(|n| format!("line {n}\r\n").into_bytes()).collect();
        flood.extend(vec![b'x'; 100_000]);
        flood.extend(b"\nlast \xff words");
        stderr.clone().drain(flood.as_slice()).await;
        let lines = stderr.lines();
        assert_eq!((lines.len(), stderr.total()), (MAX_LINES, 5_002));
        assert_eq!(lines[0], "line 4962");
        assert_eq!(lines[MAX_LINES - 2].len(), MAX_LINE_BYTES + "…".len());
        assert_eq!(lines[MAX_LINES - 1], "last \u{fffd} words");
        let wide = format!("{}ü tail", "x".repeat(MAX_LINE_BYTES - 1));
        stderr.clone().drain(wide.as_bytes()).await;
        assert_eq!(stderr.lines()[MAX_LINES - 1], format!("{}…", "x".repeat(MAX_LINE_BYTES - 1)));
    }

    #[tokio::test]
    async fn an_observer_receives_each_line_once_also_those_before_it() {
        let stderr = LastLines::default();
        stderr.clone().drain(&b"one\ntwo\n"[..]).await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        stderr.observe(LineObserver::new(move |line| sink.lock().unwrap().push(line.to_owned())));
        stderr.clone().drain(&b"three\nfour"[..]).await;
        assert_eq!(*seen.lock().unwrap(), ["one", "two", "three", "four"]);
    }
}
