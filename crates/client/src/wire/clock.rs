//! A clock that can be stopped: deadlines and durations measure the server, not the user who is asked meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Measures how long it was stopped. It may be stopped several times at once.
#[derive(Debug, Default)]
pub struct PausableClock {
    /// Whether the clock was ever stopped. Most servers send no requests, and their calls check only this.
    ever_paused: AtomicBool,
    pauses: Mutex<Pauses>,
    resumed: Notify,
}

#[derive(Debug, Default)]
struct Pauses {
    active: u32,
    since: Option<Instant>,
    total: Duration,
}

/// Stops the clock until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Paused<'a>(&'a PausableClock);

impl PausableClock {
    /// Stops the clock until the returned guard is dropped.
    pub fn pause(&self) -> Paused<'_> {
        self.ever_paused.store(true, Ordering::Relaxed);
        let mut pauses = self.lock();
        pauses.active += 1;
        pauses.since.get_or_insert_with(Instant::now);
        Paused(self)
    }

    /// Returns how long the clock was stopped in all.
    pub fn paused(&self) -> Duration {
        if !self.ever_paused.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        let pauses = self.lock();
        pauses.total + pauses.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    pub(crate) async fn wait_until_running(&self) {
        loop {
            let resumed = self.resumed.notified();
            tokio::pin!(resumed);
            resumed.as_mut().enable();
            if self.lock().active == 0 {
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
        pauses.active -= 1;
        if pauses.active == 0 {
            let elapsed = pauses.since.take().map_or(Duration::ZERO, |since| since.elapsed());
            pauses.total += elapsed;
            drop(pauses);
            self.0.resumed.notify_waiters();
        }
    }
}
