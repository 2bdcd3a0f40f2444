//! The last lines of a process's stderr: always drained, never more than a small ring.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncRead;
use tokio::sync::watch;

use crate::{LineEvent, LineReader};

/// How many lines are kept.
const LINES: usize = 40;
/// How much of one line is kept, in bytes.
const LINE: usize = 1024;

/// A bounded ring of lines, shared between the task that drains and those who quote.
#[derive(Clone, Debug)]
pub struct LastLines {
    ring: Arc<Mutex<Ring>>,
    finished: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Ring {
    lines: VecDeque<String>,
    total: u64,
}

impl Default for LastLines {
    fn default() -> Self {
        Self { ring: Arc::default(), finished: watch::Sender::new(false) }
    }
}

impl LastLines {
    /// The last lines, oldest first.
    pub fn lines(&self) -> Vec<String> {
        self.lock().lines.iter().cloned().collect()
    }

    /// How many lines there have been in all.
    pub fn total(&self) -> u64 {
        self.lock().total
    }

    pub(super) async fn drain(self, source: impl AsyncRead + Unpin) {
        let mut lines = LineReader::new(source, LINE);
        while let Ok(Some(event)) = lines.next().await {
            match event {
                LineEvent::Line(line) | LineEvent::Unfinished(line) => self.push(&line, ""),
                LineEvent::TooLong { head } => self.push(&head, "…"),
                LineEvent::TooLongEnd { .. } => {}
            }
        }
        self.finished.send_replace(true);
    }

    /// There is no stream, so it has been read to its end.
    pub(super) fn nothing_to_drain(&self) {
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
        if ring.lines.len() == LINES {
            ring.lines.pop_front();
        }
        ring.lines.push_back(format!("{}{cut}", text.trim_end()));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_flood_leaves_only_the_last_lines_each_cut_to_its_bound() {
        let stderr = LastLines::default();
        let mut flood: Vec<u8> = (0..5_000).flat_map(|n| format!("line {n}\r\n").into_bytes()).collect();
        flood.extend(vec![b'x'; 100_000]);
        flood.extend(b"\nlast \xff words");
        stderr.clone().drain(flood.as_slice()).await;
        let lines = stderr.lines();
        assert_eq!((lines.len(), stderr.total()), (LINES, 5_002));
        assert_eq!(lines[0], "line 4962");
        assert_eq!(lines[LINES - 2].len(), LINE + "…".len());
        assert_eq!(lines[LINES - 1], "last \u{fffd} words");
    }
}
