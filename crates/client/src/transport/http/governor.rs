//! How often a stream that keeps ending is opened again: after growing pauses with some chance in them, and not for ever.
//!
//! Deciding only; whoever listens waits.

use std::time::Duration;

use wharf_io::{Backoff, Jitter, jittered};

/// The shortest pause, whatever the server asks for.
const SHORTEST: Duration = Duration::from_millis(500);
/// The pause after the first end, if the server asks for nothing.
const FIRST: Duration = Duration::from_secs(1);
/// Ends in a row after which the server is believed to have nothing to say.
const PATIENCE: u32 = 8;
/// The same where somebody waits: after some seven seconds.
const HASTE: u32 = 3;
/// A stream that lived this long was a good one.
const STABLE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Governor {
    ends: u32,
    patience: u32,
}

impl Governor {
    /// The longest pause.
    pub(crate) const LONGEST: Duration = Duration::from_secs(60);

    /// For a stream that nobody waits for.
    pub(crate) fn patient() -> Self {
        Self { ends: 0, patience: PATIENCE }
    }

    /// For a stream that matters for as long as there is a server: it is asked for less and less often, and for ever.
    pub(crate) fn tireless() -> Self {
        Self { ends: 0, patience: u32::MAX }
    }

    /// For an answer that somebody waits for: a server that is gone is not waited for longer than it takes to start again.
    pub(super) fn hasty() -> Self {
        Self { ends: 0, patience: HASTE }
    }

    /// A stream has ended, or could not be opened. How long to wait before the next, or `None` to give up.
    pub(crate) fn ended(&mut self, lived: Duration, useful: bool, wish: Option<Duration>) -> Option<Duration> {
        self.ends = if useful || lived >= STABLE { 1 } else { self.ends.saturating_add(1) };
        (self.ends <= self.patience).then(|| jittered(self.pause(wish)))
    }

    fn pause(&self, wish: Option<Duration>) -> Duration {
        let initial = wish.unwrap_or(FIRST).clamp(SHORTEST, Self::LONGEST);
        Backoff { initial, factor: 2.0, max: Self::LONGEST, jitter: Jitter::NONE }.delay(self.ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(ends: &[(u64, bool)], wish: Option<u64>) -> Vec<u64> {
        let mut governor = Governor::patient();
        let mut told = Vec::new();
        for (lived, useful) in ends {
            let wish = wish.map(Duration::from_millis);
            let Some(jittered) = governor.ended(Duration::from_secs(*lived), *useful, wish) else { break };
            let pause = governor.pause(wish);
            assert!((pause..=pause * 5 / 4).contains(&jittered));
            told.push(u64::try_from(pause.as_millis()).unwrap());
        }
        told
    }

    #[test]
    fn a_stream_that_keeps_ending_is_opened_less_and_less_often_and_then_not_at_all() {
        assert_eq!(pauses(&[(0, false); 20], None), [1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000]);
    }

    #[test]
    fn a_server_may_ask_for_longer_pauses_but_not_for_none() {
        assert_eq!(pauses(&[(0, false); 3], Some(0)), [500, 1000, 2000]);
        assert_eq!(pauses(&[(0, false); 2], Some(20_000)), [20_000, 40_000]);
        assert_eq!(pauses(&[(0, false); 2], Some(u64::MAX)), [60_000, 60_000]);
    }

    #[test]
    fn a_stream_that_was_of_use_or_lived_long_starts_the_count_anew() {
        assert_eq!(
            pauses(&[(0, false), (0, false), (0, true), (0, false), (31, false)], None),
            [1000, 2000, 1000, 2000, 1000]
        );
        assert_eq!(pauses(&[(0, true); 40], None).len(), 40);
    }
}
