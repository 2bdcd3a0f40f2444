//! One line on stderr that shows what is being done, and disappears afterwards.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::text::{brief, is_dumb};

/// Frames of a spinner.
pub(crate) const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Redraws per second at most.
const REFRESH_RATE: u8 = 20;

/// Returns a bar that draws to stderr. It draws nothing if stderr is not a terminal, or one that cannot move its cursor.
pub(crate) fn progress_bar(template: &str, hidden: bool) -> ProgressBar {
    let target = if hidden || is_dumb() || !std::io::stderr().is_terminal() {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr_with_hz(REFRESH_RATE)
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
    ProgressBar::with_draw_target(None, target).with_style(style)
}

/// A status line. Dropping it erases the line.
pub(crate) struct StatusLine(ProgressBar);

impl StatusLine {
    pub(crate) fn new(quiet: bool) -> Self {
        Self(progress_bar("… {wide_msg}", quiet))
    }

    pub(crate) fn show(&self, text: &str) {
        self.0.set_message(brief(text, usize::MAX));
        // After the message: it draws the line.
        if self.0.is_finished() {
            self.0.reset();
        }
        self.0.tick();
    }

    /// Erases the line until the next [`StatusLine::show`].
    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.clear();
    }
}
