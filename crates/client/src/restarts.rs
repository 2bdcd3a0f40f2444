//! When a server that failed may be tried again: at once, after a growing pause, or not for a while.
//!
//! Deciding only; the session waits.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use tokio::time::Instant;

/// The pause after the second failure in a row; it doubles from there.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// From this many failures in a row on the server is left alone instead of being waited for.
const PATIENCE: u32 = 6;
/// How long it is left alone at first; this doubles too.
const FIRST_REST: Duration = Duration::from_secs(30);
/// The longest it is left alone.
const LONGEST_REST: Duration = Duration::from_secs(300);
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
        let doubled = |first: Duration, times: u32| first.saturating_mul(2_u32.saturating_pow(times));
        let pause = match self.failures {
            0 | 1 => Duration::ZERO,
            few if few < PATIENCE => doubled(FIRST_PAUSE, few - 2),
            many => doubled(FIRST_REST, many - PATIENCE).min(LONGEST_REST),
        };
        self.not_before = Some(now + jittered(pause));
    }

    /// The session was closed on purpose: what comes next is a new beginning.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// Up to a quarter more, so that many clients of one machine do not come back in step.
fn jittered(pause: Duration) -> Duration {
    let dice = RandomState::new().hash_one(0_u8) % 1000;
    pause + pause.mul_f64(f64::from(u32::try_from(dice).unwrap_or(0)) / 4000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(lives: &[u64]) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _guard = runtime.enter();
        let (now, mut restarts) = (Instant::now(), Restarts::default());
        let mut told = Vec::new();
        for lived in lives {
            restarts.failed(now, Duration::from_secs(*lived));
            told.push(match restarts.decide(now) {
                Decision::After(pause) => format!("after {:.1}", floor(pause)),
                Decision::Rest(rest) => format!("rest {:.0}", floor(rest)),
            });
        }
        told
    }

    /// Takes the jitter off: the value without it is at least 1 / 1.25 of what was drawn.
    fn floor(pause: Duration) -> f64 {
        let drawn = pause.as_secs_f64();
        let steps = [0.0, 0.25, 0.5, 1.0, 2.0, 30.0, 60.0, 120.0, 240.0, 300.0];
        steps.into_iter().find(|step| (*step..=step * 1.2501).contains(&drawn)).unwrap_or(drawn)
    }

    #[test]
    fn a_server_that_keeps_failing_is_tried_less_and_less_often_and_then_left_alone() {
        let told = pauses(&[0; 12]);
        let expected = [
            "after 0.0",
            "after 0.2",
            "after 0.5",
            "after 1.0",
            "after 2.0",
            "rest 30",
            "rest 60",
            "rest 120",
            "rest 240",
            "rest 300",
            "rest 300",
            "rest 300",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_connection_that_lived_long_makes_the_failures_before_it_forgotten() {
        assert_eq!(pauses(&[0, 0, 0, 31, 0]), ["after 0.0", "after 0.2", "after 0.5", "after 0.0", "after 0.2"]);
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
