//! When a failed server may be tried again: immediately, after a growing delay, or not until a cooldown has passed.
//!
//! This file only decides; the session sleeps.

use std::time::Duration;

use tokio::time::Instant;
use wharf_io::{Backoff, Jitter, jittered};

/// The delays from the second failure in a row on.
const DELAYS: Backoff =
    Backoff { initial: Duration::from_millis(250), factor: 2.0, max: Duration::from_secs(30), jitter: Jitter::NONE };
/// The number of failures in a row from which on attempts fail immediately during a cooldown.
const COOLDOWN_AFTER: u32 = 6;
/// The cooldowns.
const COOLDOWNS: Backoff =
    Backoff { initial: Duration::from_secs(30), factor: 2.0, max: Duration::from_secs(300), jitter: Jitter::NONE };
/// The lifetime after which a connection counts as stable and resets the failures.
const STABLE_AFTER: Duration = Duration::from_secs(30);

/// What to do about the next attempt to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Try after this delay, which may be zero.
    After(Duration),
    /// Fail. The cooldown lasts this long.
    Rest(Duration),
}

/// The failures of one server in a row.
#[derive(Debug, Default)]
pub(crate) struct RestartTracker {
    failures: u32,
    not_before: Option<Instant>,
}

impl RestartTracker {
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    pub(crate) fn decide(&self, now: Instant) -> Decision {
        let wait = self.not_before.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        if self.failures >= COOLDOWN_AFTER && !wait.is_zero() { Decision::Rest(wait) } else { Decision::After(wait) }
    }

    /// Records a failed attempt, or a connection that ended after `lived`.
    pub(crate) fn failed(&mut self, now: Instant, lived: Duration) {
        self.failures = if lived >= STABLE_AFTER { 1 } else { self.failures.saturating_add(1) };
        self.not_before = Some(now + jittered(self.delay()));
    }

    /// Returns the delay after this many failures in a row, without jitter.
    fn delay(&self) -> Duration {
        match self.failures {
            0 | 1 => Duration::ZERO,
            few if few < COOLDOWN_AFTER => DELAYS.delay(few - 1),
            many => COOLDOWNS.delay(many - (COOLDOWN_AFTER - 1)),
        }
    }

    /// Resets the failures, because the session was closed.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the decision after each of these connections, without jitter.
    fn decisions(lifetimes: &[u64]) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _guard = runtime.enter();
        let now = Instant::now();
        let mut restarts = RestartTracker::default();
        let decisions = lifetimes.iter().map(|lived| {
            restarts.failed(now, Duration::from_secs(*lived));
            match restarts.decide(now) {
                Decision::After(_) => format!("after {} ms", restarts.delay().as_millis()),
                Decision::Rest(_) => format!("rest {} s", restarts.delay().as_secs()),
            }
        });
        decisions.collect()
    }

    #[test]
    fn delays_grow_with_repeated_failures_up_to_a_cooldown() {
        let expected = [
            "after 0 ms",
            "after 250 ms",
            "after 500 ms",
            "after 1000 ms",
            "after 2000 ms",
            "rest 30 s",
            "rest 60 s",
            "rest 120 s",
            "rest 240 s",
            "rest 300 s",
            "rest 300 s",
        ];
        assert_eq!(decisions(&[0; 11]), expected);
    }

    #[test]
    fn a_stable_connection_resets_the_failures() {
        let expected = ["after 0 ms", "after 250 ms", "after 500 ms", "after 0 ms", "after 250 ms"];
        assert_eq!(decisions(&[0, 0, 0, 31, 0]), expected);
    }

    #[test]
    fn one_attempt_is_allowed_after_a_cooldown() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _guard = runtime.enter();
        let now = Instant::now();
        let mut restarts = RestartTracker::default();
        for _ in 0..COOLDOWN_AFTER {
            restarts.failed(now, Duration::ZERO);
        }
        assert!(matches!(restarts.decide(now), Decision::Rest(_)));
        assert_eq!(restarts.decide(now + Duration::from_secs(38)), Decision::After(Duration::ZERO));
    }
}
