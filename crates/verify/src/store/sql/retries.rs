//! Repeating what failed because the database was away for a moment.

use std::time::Duration;

use tokio::time::Instant;
use wharf_io::{Backoff, Jitter};

/// The pauses between two attempts.
const BACKOFF: Backoff =
    Backoff { initial: Duration::from_millis(50), factor: 2.0, max: Duration::from_secs(2), jitter: Jitter::AROUND };

/// The attempts of one operation.
pub(in crate::store) struct Retries {
    deadline: Instant,
    failures: u32,
}

impl Retries {
    /// Allows attempts for some time from now.
    pub(in crate::store) fn within(time: Duration) -> Self {
        Self { deadline: Instant::now() + time, failures: 0 }
    }

    /// Waits before the next attempt. Returns false if there is no time for one.
    pub(in crate::store) async fn wait(&mut self) -> bool {
        self.failures += 1;
        let next = Instant::now() + BACKOFF.delay(self.failures);
        if next > self.deadline {
            return false;
        }
        tokio::time::sleep_until(next).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn attempts_end_when_their_time_is_over() {
        assert!(!Retries::within(Duration::ZERO).wait().await, "none without time");
        let (start, mut attempts) = (Instant::now(), 0);
        let mut retries = Retries::within(Duration::from_secs(30));
        while retries.wait().await {
            attempts += 1;
        }
        assert!((15..40).contains(&attempts), "{attempts}");
        assert!(start.elapsed() <= Duration::from_secs(30));
    }
}
