//! The clock of a time limit: it runs while at least one step executes.
//!
//! What Wharf waits for by itself does not count: the queue of a provider, the pause before a retry, the disk, a judge
//! that decides about the next turn. So a trial has the same time, however many others run beside it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Measures the time during which steps execute. Steps in parallel count once.
#[derive(Default)]
pub(super) struct ExecutionClock(Mutex<Reading>);

#[derive(Default)]
struct Reading {
    /// The time before the steps that execute now.
    counted: Duration,
    /// When the first of the steps that execute now began.
    since: Option<Instant>,
    executing: usize,
}

/// A step that executes. The clock stops when the last one is dropped.
pub(super) struct Executing<'a>(&'a ExecutionClock);

impl ExecutionClock {
    pub(super) fn elapsed(&self) -> Duration {
        self.reading().elapsed()
    }

    /// Begins a step.
    pub(super) fn start(&self) -> Executing<'_> {
        let mut reading = self.reading();
        reading.since.get_or_insert_with(Instant::now);
        reading.executing += 1;
        Executing(self)
    }

    /// Sets the clock to the end of a recorded step, which another process executed.
    pub(super) fn advance_to(&self, recorded: Duration) {
        let mut reading = self.reading();
        let ahead = recorded.saturating_sub(reading.elapsed());
        reading.counted = reading.counted.saturating_add(ahead);
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reading {
    fn elapsed(&self) -> Duration {
        self.counted.saturating_add(self.since.map(|since| since.elapsed()).unwrap_or_default())
    }
}

impl Drop for Executing<'_> {
    fn drop(&mut self) {
        let mut reading = self.0.reading();
        reading.executing = reading.executing.saturating_sub(1);
        if reading.executing == 0 {
            reading.counted = reading.elapsed();
            reading.since = None;
        }
    }
}
