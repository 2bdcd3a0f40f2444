//! The line that shows which model or tool a run waits for, and since when.

use std::time::Duration;

use indicatif::ProgressBar;
use tokio::time::Instant;

use super::summary::seconds;
use crate::term::prompt::is_asking;
use crate::term::{DIM, SPINNER, brief, note, progress_bar, stderr_has_color};

/// Time between two frames.
pub(super) const FRAME_INTERVAL: Duration = Duration::from_millis(100);
/// Faster activities are not shown.
const MIN_DURATION: Duration = Duration::from_millis(300);
/// When a wait is first mentioned where nothing is animated. Then after twice the time, and so on.
const FIRST_NOTE: Duration = Duration::from_secs(30);

/// What a run waits for, and whether that is on the screen.
pub(super) struct Activity {
    current: Option<Wait>,
    line: ProgressBar,
    is_drawn: bool,
}

/// Something that a run waits for.
struct Wait {
    what: String,
    since: Instant,
    /// What follows, and when: an attempt after a delay.
    then: Option<(Instant, String)>,
    /// How long it takes until it is mentioned.
    next_note: Duration,
}

impl Wait {
    fn new(what: String, since: Instant) -> Self {
        Self { what, since, then: None, next_note: FIRST_NOTE }
    }
}

impl Activity {
    pub(super) fn new(hidden: bool) -> Self {
        let line = progress_bar("{prefix} {wide_msg}", hidden);
        Self { current: None, line, is_drawn: false }
    }

    /// Sets what the run waits for.
    pub(super) fn set(&mut self, what: Option<String>) {
        self.current = what.map(|what| Wait::new(what, Instant::now()));
    }

    /// Sets what the run waits for during a delay, and after it.
    pub(super) fn set_delayed(&mut self, what: String, delay: Duration, then: String) {
        let now = Instant::now();
        self.current = Some(Wait { then: Some((now + delay, then)), ..Wait::new(what, now) });
    }

    /// Describes the current wait in other words. It does not begin again.
    pub(super) fn rename(&mut self, what: String) {
        if let Some(wait) = &mut self.current {
            wait.what = what;
        }
    }

    /// Returns what the run waits for now.
    fn now(&mut self) -> Option<&mut Wait> {
        let wait = self.current.as_mut()?;
        if let Some((from, what)) = wait.then.take_if(|(from, _)| *from <= Instant::now()) {
            *wait = Wait::new(what, from);
        }
        Some(wait)
    }

    /// Draws the next frame.
    pub(super) fn draw(&mut self) {
        let Some(Wait { what, since, .. }) = self.now() else { return self.erase() };
        let elapsed = since.elapsed();
        if is_asking() || elapsed < MIN_DURATION {
            return;
        }
        let message = dimmed(&brief(what, usize::MAX));
        if self.line.is_finished() {
            self.line.reset();
        }
        let frame = usize::try_from(elapsed.as_millis() / FRAME_INTERVAL.as_millis()).unwrap_or_default();
        let passed = format!("{}.{} s", elapsed.as_secs(), elapsed.subsec_millis() / 100);
        self.line.set_prefix(dimmed(&format!("{} {passed}", SPINNER[frame % SPINNER.len()])));
        self.line.set_message(message);
        self.line.tick();
        self.is_drawn = true;
    }

    /// Prints a line about a long wait, for logs and terminals without animation.
    pub(super) fn mention(&mut self) {
        let Some(wait) = self.now() else { return };
        if wait.since.elapsed() >= wait.next_note && !is_asking() {
            note(&format!("{}, for {} so far", brief(&wait.what, usize::MAX), seconds(wait.next_note)));
            wait.next_note *= 2;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_attempt_follows_its_delay_and_a_long_wait_is_mentioned_less_and_less_often() {
        let mut activity = Activity::new(true);
        let what = |activity: &mut Activity| {
            activity.mention();
            activity.now().map(|wait| (wait.what.clone(), wait.since.elapsed().as_secs(), wait.next_note.as_secs()))
        };
        activity.set_delayed("retrying".into(), Duration::from_secs(4), "waiting".into());
        assert_eq!(what(&mut activity), Some(("retrying".into(), 0, 30)));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(what(&mut activity), Some(("waiting".into(), 6, 30)));
        tokio::time::advance(Duration::from_secs(24)).await;
        assert_eq!(what(&mut activity), Some(("waiting".into(), 30, 60)));
        activity.rename("thinking".into());
        assert_eq!(what(&mut activity), Some(("thinking".into(), 30, 60)));
        activity.set(None);
        assert_eq!(what(&mut activity), None);
    }
}
