//! A clock that stands still while the host is being asked something: deadlines measure the server, not the person.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// Most servers never ask, and their calls never look further than this.
    ever_paused: AtomicBool,
    pauses: Mutex<Pauses>,
    resumed: Notify,
}

#[derive(Debug, Default)]
struct Pauses {
    asking: u32,
    since: Option<Instant>,
    total: Duration,
}

/// The clock stands still for as long as this lives.
#[derive(Debug)]
pub(crate) struct Paused<'a>(&'a Clock);

impl Clock {
    pub(crate) fn pause(&self) -> Paused<'_> {
        self.ever_paused.store(true, Ordering::Relaxed);
        let mut pauses = self.lock();
        pauses.asking += 1;
        pauses.since.get_or_insert_with(Instant::now);
        Paused(self)
    }

    /// How long the clock has stood still in all.
    pub(crate) fn paused(&self) -> Duration {
        if !self.ever_paused.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        let pauses = self.lock();
        pauses.total + pauses.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Waits until the clock runs.
    pub(crate) async fn running(&self) {
        loop {
            let resumed = self.resumed.notified();
            tokio::pin!(resumed);
            resumed.as_mut().enable();
            if self.lock().asking == 0 {
                return;
            }
            resumed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pauses> {
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        let mut pauses = self.0.lock();
        pauses.asking -= 1;
        if pauses.asking == 0 {
            let stood_still = pauses.since.take().map_or(Duration::ZERO, |since| since.elapsed());
            pauses.total += stood_still;
            drop(pauses);
            self.0.resumed.notify_waiters();
        }
    }
}
