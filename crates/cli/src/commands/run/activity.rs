//! The line that shows which model or tool a run waits for.

use std::time::Duration;

use indicatif::ProgressBar;
use tokio::time::Instant;

use crate::term::prompt::is_asking;
use crate::term::{DIM, SPINNER, brief, progress_bar, stderr_has_color};

/// Time between two frames.
pub(super) const FRAME_INTERVAL: Duration = Duration::from_millis(100);
/// Faster activities are not shown.
const MIN_DURATION: Duration = Duration::from_millis(300);

/// What a run waits for, and whether that is on the screen.
pub(super) struct Activity {
    current: Option<(String, Instant)>,
    line: ProgressBar,
    is_drawn: bool,
}

impl Activity {
    pub(super) fn new(hidden: bool) -> Self {
        let line = progress_bar("{prefix} {wide_msg}", hidden);
        Self { current: None, line, is_drawn: false }
    }

    /// Sets what the run waits for.
    pub(super) fn set(&mut self, what: Option<String>) {
        self.current = what.map(|what| (what, Instant::now()));
    }

    /// Draws the next frame.
    pub(super) fn draw(&mut self) {
        let Some((what, since)) = &self.current else { return self.erase() };
        let elapsed = since.elapsed();
        if is_asking() || elapsed < MIN_DURATION {
            return;
        }
        if self.line.is_finished() {
            self.line.reset();
        }
        let frame = usize::try_from(elapsed.as_millis() / FRAME_INTERVAL.as_millis()).unwrap_or_default();
        let seconds = format!("{}.{} s", elapsed.as_secs(), elapsed.subsec_millis() / 100);
        self.line.set_prefix(dimmed(&format!("{} {seconds}", SPINNER[frame % SPINNER.len()])));
        self.line.set_message(dimmed(&brief(what, usize::MAX)));
        self.line.tick();
        self.is_drawn = true;
    }

    /// Makes room for other output.
    pub(super) fn erase(&mut self) {
        // A question has erased the line already, and must not be erased itself.
        if std::mem::take(&mut self.is_drawn) && !is_asking() {
            self.line.finish_and_clear();
        }
    }
}

fn dimmed(text: &str) -> String {
    if stderr_has_color() { format!("{DIM}{text}{DIM:#}") } else { text.to_owned() }
}
