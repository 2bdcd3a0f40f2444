//! The line that moves while a model thinks or a tool works, and is gone as soon as there is something to show.

use std::io::Write as _;
use std::time::Duration;

use rustix::termios::tcgetwinsize;
use tokio::time::Instant;

use crate::asker::is_asking;
use crate::live::SPINNER;
use crate::render::{DIM, brief};

/// How often it moves.
pub(super) const PACE: Duration = Duration::from_millis(100);
/// What is quicker than this is over before it is worth a line.
const QUICK: Duration = Duration::from_millis(300);
/// How long what is waited for may be where nobody knows how wide the screen is.
const WIDTH: usize = 80;

/// Who is waited for, and whether that is on the screen.
#[derive(Default)]
pub(super) struct Waiting {
    whom: Option<(String, Instant)>,
    drawn: bool,
}

impl Waiting {
    /// From now on somebody is waited for, or nobody.
    pub(super) fn set(&mut self, whom: Option<String>) {
        self.whom = whom.map(|whom| (whom, Instant::now()));
    }

    /// Shows how long it has been.
    pub(super) fn draw(&mut self) {
        let Some((whom, since)) = &self.whom else { return self.erase() };
        let elapsed = since.elapsed();
        if is_asking() || elapsed < QUICK {
            return;
        }
        let width = tcgetwinsize(std::io::stderr()).ok().map_or(WIDTH, |size| usize::from(size.ws_col));
        let frame = usize::try_from(elapsed.as_millis() / PACE.as_millis()).unwrap_or_default() % SPINNER.len();
        let time = format!("{}.{} s", elapsed.as_secs(), elapsed.subsec_millis() / 100);
        // A line that fills the last column moves on.
        let left = width.saturating_sub(time.len() + 5);
        write(&format!("\r\u{1b}[2K{DIM}{} {} {time}{DIM:#}", SPINNER[frame], brief(whom, left)));
        self.drawn = true;
    }

    /// Makes room for something else.
    pub(super) fn erase(&mut self) {
        // Who asks has made room already, and is not to be wiped away.
        if std::mem::take(&mut self.drawn) && !is_asking() {
            write("\r\u{1b}[2K");
        }
    }
}

fn write(text: &str) {
    let mut stderr = anstream::stderr();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
