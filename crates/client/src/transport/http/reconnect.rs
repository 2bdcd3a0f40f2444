//! Delays before an event stream is reopened: they grow while the stream keeps ending, and reconnecting stops at a limit.
//!
//! This file only decides; the caller sleeps.

use std::time::Duration;

use wharf_io::{Backoff, Jitter, jittered};

/// The shortest delay, whatever the server requests.
const MIN_DELAY: Duration = Duration::from_millis(500);
/// The first delay, unless the server requests another.
const DEFAULT_DELAY: Duration = Duration::from_secs(1);
/// The number of reconnects in a row after which the server is assumed to send no notifications.
const NOTIFICATION_RECONNECTS: u32 = 8;
/// The same while a caller waits for the answer: about seven seconds.
const ANSWER_RECONNECTS: u32 = 3;
/// The lifetime after which a stream counts as stable.
const STABLE_AFTER: Duration = Duration::from_secs(30);

/// Decides when to reopen an event stream.
#[derive(Debug)]
pub(crate) struct ReconnectBackoff {
    /// Short-lived streams in a row.
    failures: u32,
    max_reconnects: u32,
}

impl ReconnectBackoff {
    /// The longest delay.
    pub(crate) const MAX_DELAY: Duration = Duration::from_secs(60);

    /// For the notification stream of a session.
    pub(crate) fn for_notifications() -> Self {
        Self { failures: 0, max_reconnects: NOTIFICATION_RECONNECTS }
    }

    /// Without a limit: the delays grow to the maximum, and reconnecting never stops.
    pub(crate) fn unlimited() -> Self {
        Self { failures: 0, max_reconnects: u32::MAX }
    }

    /// For the answer to a call: long enough for a server to restart.
    pub(super) fn for_answer() -> Self {
        Self { failures: 0, max_reconnects: ANSWER_RECONNECTS }
    }

    /// Records that a stream ended or could not be opened. Returns the delay before the next one, or `None` to give up.
    pub(crate) fn next_delay(
        &mut self,
        lived: Duration,
        useful: bool,
        requested: Option<Duration>,
    ) -> Option<Duration> {
        self.failures = if useful || lived >= STABLE_AFTER { 1 } else { self.failures.saturating_add(1) };
        (self.failures <= self.max_reconnects).then(|| jittered(self.delay(requested)))
    }

    fn delay(&self, requested: Option<Duration>) -> Duration {
        let initial = requested.unwrap_or(DEFAULT_DELAY).clamp(MIN_DELAY, Self::MAX_DELAY);
        Backoff { initial, factor: 2.0, max: Self::MAX_DELAY, jitter: Jitter::NONE }.delay(self.failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the delays, without jitter, after streams with these lifetimes and whether each was useful.
    fn delays(streams: &[(u64, bool)], requested: Option<u64>) -> Vec<u64> {
        let mut backoff = ReconnectBackoff::for_notifications();
        let mut delays = Vec::new();
        for (lived, useful) in streams {
            let requested = requested.map(Duration::from_millis);
            let Some(jittered) = backoff.next_delay(Duration::from_secs(*lived), *useful, requested) else { break };
            let delay = backoff.delay(requested);
            assert!((delay..=delay * 5 / 4).contains(&jittered));
            delays.push(u64::try_from(delay.as_millis()).unwrap());
        }
        delays
    }

    #[test]
    fn reconnect_delay_grows_while_the_stream_keeps_ending_and_then_stops() {
        assert_eq!(delays(&[(0, false); 20], None), [1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000]);
    }

    #[test]
    fn a_server_can_request_longer_delays_but_not_zero() {
        assert_eq!(delays(&[(0, false); 3], Some(0)), [500, 1000, 2000]);
        assert_eq!(delays(&[(0, false); 2], Some(20_000)), [20_000, 40_000]);
        assert_eq!(delays(&[(0, false); 2], Some(u64::MAX)), [60_000, 60_000]);
    }

    #[test]
    fn a_useful_or_long_lived_stream_resets_the_delay() {
        assert_eq!(
            delays(&[(0, false), (0, false), (0, true), (0, false), (31, false)], None),
            [1000, 2000, 1000, 2000, 1000]
        );
        assert_eq!(delays(&[(0, true); 40], None).len(), 40);
    }
}
