//! The progress of a run: one line that is redrawn on a terminal, and plain lines every few seconds on a pipe.

use std::time::Duration;

use indicatif::ProgressBar;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use wharf::verify::store::Progress;
use wharf::verify::{RunId, RunStore};

use super::table::cost;
use crate::globals::Globals;
use crate::term::{self, SPINNER, progress_bar};

/// Time between two reads of the progress.
const FRAME_INTERVAL: Duration = Duration::from_millis(250);
/// Minimum time between two plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Shows the progress of a run until it is dropped.
pub(crate) struct RunDisplay<'a> {
    store: &'a dyn RunStore,
    run: &'a RunId,
    bar: ProgressBar,
    quiet: bool,
}

impl<'a> RunDisplay<'a> {
    pub(crate) fn new(globals: &Globals, store: &'a dyn RunStore, run: &'a RunId) -> Self {
        Self { store, run, bar: progress_bar("{msg}", globals.quiet), quiet: globals.quiet }
    }

    /// Shows the progress. Never returns.
    pub(crate) async fn watch(&self) -> std::convert::Infallible {
        if self.quiet {
            return std::future::pending().await;
        }
        let began = Instant::now();
        let mut first: Option<Progress> = None;
        let mut shown: Option<(Instant, Progress)> = None;
        let mut frame = 0;
        let mut ticks = interval_at(began + FRAME_INTERVAL, FRAME_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // The run reports a store that fails.
            let Ok(progress) = self.store.progress(self.run).await else { continue };
            let before = *first.get_or_insert(progress);
            let line = line(&progress, time_left(&before, &progress, began.elapsed()));
            if !self.bar.is_hidden() {
                frame += 1;
                self.bar.set_message(format!("{} {line}", SPINNER[frame % SPINNER.len()]));
                self.bar.tick();
                continue;
            }
            let is_due = shown.is_none_or(|(at, last)| at.elapsed() >= LINE_INTERVAL && last != progress);
            if is_due && began.elapsed() >= LINE_INTERVAL {
                term::note(&line);
                shown = Some((Instant::now(), progress));
            }
        }
    }
}

impl Drop for RunDisplay<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Renders counts, cost and the time left.
fn line(progress: &Progress, left: Option<Duration>) -> String {
    let Progress { units, done, passed, failed, invalid, indeterminate, .. } = progress;
    let mut parts = vec![format!("{done}/{units}"), format!("{passed} passed"), format!("{failed} failed")];
    if *invalid > 0 {
        parts.push(format!("{invalid} invalid"));
    }
    if *indeterminate > 0 {
        parts.push(format!("{indeterminate} indeterminate"));
    }
    parts.extend(progress.usage.cost_usd.map(|dollars| cost(Some(dollars))));
    parts.extend(left.map(|left| format!("{} left", duration(left))));
    parts.join(" · ")
}

/// Estimates the time left from what was done since the display started.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn time_left(first: &Progress, now: &Progress, elapsed: Duration) -> Option<Duration> {
    let done = now.done.saturating_sub(first.done);
    let open = now.units.saturating_sub(now.done);
    if done == 0 || open == 0 {
        return None;
    }
    Duration::try_from_secs_f64(elapsed.as_secs_f64() * open as f64 / done as f64).ok()
}

fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_shows_counts_cost_and_the_time_left() {
        let first = Progress { units: 120, done: 20, ..Progress::default() };
        let mut now = Progress { done: 40, passed: 30, failed: 8, invalid: 2, ..first };
        now.usage.cost_usd = Some(0.1234);
        let left = time_left(&first, &now, Duration::from_secs(30));
        assert_eq!(line(&now, left), "40/120 · 30 passed · 8 failed · 2 invalid · $0.12 · 2 min 0 s left");
        assert_eq!(time_left(&first, &first, Duration::from_secs(30)), None, "nothing is known yet");
        assert_eq!(line(&first, None), "20/120 · 0 passed · 0 failed");
        assert_eq!(duration(Duration::from_secs(7_300)), "2 h 1 min");
    }
}
