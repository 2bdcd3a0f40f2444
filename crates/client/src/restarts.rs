//! When a server that failed may be tried again: at once, after a growing pause, or not for a while.
//!
//! Deciding only; the session waits.

use std::time::Duration;

use tokio::time::Instant;
use wharf_io::{Backoff, Jitter, jittered};

/// The pauses from the second failure in a row on.
const PAUSES: Backoff =
    Backoff { initial: Duration::from_millis(250), factor: 2.0, max: Duration::from_secs(30), jitter: Jitter::NONE };
/// From this many failures in a row on the server is left alone instead of being waited for.
const PATIENCE: u32 = 6;
/// How long it is left alone.
const RESTS: Backoff =
    Backoff { initial: Duration::from_secs(30), factor: 2.0, max: Duration::from_secs(300), jitter: Jitter::NONE };
/// A connection that lived this long was a good one: the failures before it are forgotten.
const STABLE: Duration = Duration::from_secs(30);

/// What to do about the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Try after this pause, which may be none.
    After(Duration),
    /// Do not try for this long.
    Rest(Duration),
}

/// The failures of one server in a row.
#[derive(Debug, Default)]
pub(crate) struct Restarts {
    failures: u32,
    not_before: Option<Instant>,
}

impl Restarts {
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    pub(crate) fn decide(&self, now: Instant) -> Decision {
        let wait = self.not_before.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        if self.failures >= PATIENCE && !wait.is_zero() { Decision::Rest(wait) } else { Decision::After(wait) }
    }

    /// An attempt failed, or a connection ended after `lived`.
    pub(crate) fn failed(&mut self, now: Instant, lived: Duration) {
        self.failures = if lived >= STABLE { 1 } else { self.failures.saturating_add(1) };
        self.not_before = Some(now + jittered(self.pause()));
    }

    /// How long to wait after so many failures in a row.
    fn pause(&self) -> Duration {
        match self.failures {
            0 | 1 => Duration::ZERO,
            few if few < PATIENCE => PAUSES.delay(few - 1),
            many => RESTS.delay(many - (PATIENCE - 1)),
        }
    }

    /// The session was closed on purpose: what comes next is a new beginning.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pause after each of these ends, without its jitter, and whether the server is then left alone.
    fn pauses(lives: &[u64]) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _guard = runtime.enter();
        let (now, mut restarts) = (Instant::now(), Restarts::default());
        let told = lives.iter().map(|lived| {
            restarts.failed(now, Duration::from_secs(*lived));
            match restarts.decide(now) {
                Decision::After(_) => format!("after {} ms", restarts.pause().as_millis()),
                Decision::Rest(_) => format!("rest {} s", restarts.pause().as_secs()),
            }
        });
        told.collect()
    }

    #[test]
    fn a_server_that_keeps_failing_is_tried_less_and_less_often_and_then_left_alone() {
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
        assert_eq!(pauses(&[0; 11]), expected);
    }

    #[test]
    fn a_connection_that_lived_long_makes_the_failures_before_it_forgotten() {
        let expected = ["after 0 ms", "after 250 ms", "after 500 ms", "after 0 ms", "after 250 ms"];
        assert_eq!(pauses(&[0, 0, 0, 31, 0]), expected);
    }

    #[test]
    fn once_its_rest_is_over_a_server_gets_one_more_chance() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _guard = runtime.enter();
        let now = Instant::now();
        let mut restarts = Restarts::default();
        for _ in 0..PATIENCE {
            restarts.failed(now, Duration::ZERO);
        }
        assert!(matches!(restarts.decide(now), Decision::Rest(_)));
        assert_eq!(restarts.decide(now + Duration::from_secs(38)), Decision::After(Duration::ZERO));
    }
}
