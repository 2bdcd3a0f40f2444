//! Decides when a server that failed is connected again. The connection task does the waiting.

use std::time::Duration;

use wharf_client::{CallError, CallErrorKind, ConnectErrorKind};
use wharf_io::{Backoff, Jitter, SpawnError, jittered};

use super::status::ServerState;

/// A connection that lived this long resets the count of failures.
pub(super) const STABLE: Duration = Duration::from_secs(30);

/// When servers that failed are connected again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconnection {
    /// The number of retries in a row before a server counts as failed.
    pub attempts: u32,
    /// The first delay; it doubles with each retry.
    pub first: Duration,
    /// The maximum delay.
    pub longest: Duration,
    /// The delay before the next attempt of a server that counts as failed; `None` means never.
    pub rest: Option<Duration>,
}

impl Default for Reconnection {
    fn default() -> Self {
        Self {
            attempts: 5,
            first: Duration::from_secs(1),
            longest: Duration::from_secs(30),
            rest: Some(Duration::from_secs(5 * 60)),
        }
    }
}

impl Reconnection {
    /// No retries, for programs that run once.
    pub const NONE: Self = Self { attempts: 0, first: Duration::ZERO, longest: Duration::ZERO, rest: None };

    /// Returns the state after a number of failures in a row, and the delay of the next attempt.
    pub(super) fn after(&self, failures: u32, error: &CallError) -> (ServerState, Option<Duration>) {
        match FailureClass::of(error) {
            FailureClass::Auth => (ServerState::NeedsAuth, None),
            FailureClass::Permanent => (ServerState::Failed, None),
            FailureClass::Transient { not_before } if self.attempts > 0 && failures <= self.attempts => {
                let backoff = Backoff { initial: self.first, factor: 2.0, max: self.longest, jitter: Jitter::LONGER };
                // The first retry has no delay: most servers that die once are back at once.
                let pause = if failures == 0 { Duration::ZERO } else { backoff.delay(failures) };
                (ServerState::Pending, Some(pause.max(not_before)))
            }
            FailureClass::Transient { not_before } => {
                (ServerState::Failed, self.rest.map(|rest| jittered(rest).max(not_before)))
            }
        }
    }
}

/// The classes of failures, by what the next attempt needs.
enum FailureClass {
    /// A sign-in.
    Auth,
    /// A changed configuration.
    Permanent,
    /// Time.
    Transient { not_before: Duration },
}

impl FailureClass {
    fn of(error: &CallError) -> Self {
        let transient = Self::Transient { not_before: Duration::ZERO };
        match &error.kind {
            CallErrorKind::Connect(kind) => Self::of_connect_error(kind),
            CallErrorKind::Http(status) => Self::of_status(status.status, status.retry_after),
            CallErrorKind::Unsupported(_) | CallErrorKind::Malformed(_) => Self::Permanent,
            _ => transient,
        }
    }

    fn of_connect_error(kind: &ConnectErrorKind) -> Self {
        match kind {
            ConnectErrorKind::Auth(_) => Self::Auth,
            ConnectErrorKind::Http(status) => Self::of_status(status.status, status.retry_after),
            ConnectErrorKind::Spawn(error) => match **error {
                SpawnError::Exhausted(_) => Self::Transient { not_before: Duration::ZERO },
                _ => Self::Permanent,
            },
            ConnectErrorKind::Unusable(_) | ConnectErrorKind::Untrusted(_) | ConnectErrorKind::Refused(_) => {
                Self::Permanent
            }
            ConnectErrorKind::Resting { wait, .. } => Self::Transient { not_before: *wait },
            ConnectErrorKind::Transport(_)
            | ConnectErrorKind::Ended(_)
            | ConnectErrorKind::Timeout(_)
            | ConnectErrorKind::Closed => Self::Transient { not_before: Duration::ZERO },
        }
    }

    fn of_status(status: u16, retry_after: Option<Duration>) -> Self {
        match status {
            408 | 429 | 500.. => Self::Transient { not_before: retry_after.unwrap_or_default() },
            _ => Self::Permanent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use wharf_client::{AuthRequired, Evidence, HttpStatus};

    fn error(kind: ConnectErrorKind) -> CallError {
        let server = "s".parse().expect("a name");
        CallError { server, kind: CallErrorKind::Connect(kind), evidence: Evidence::default() }
    }

    fn decision(failures: u32, kind: ConnectErrorKind) -> String {
        let (state, pause) = Reconnection::default().after(failures, &error(kind));
        // The delay without its jitter, which adds up to a quarter.
        let pause = pause.map(|pause| (1..=400).rev().find(|n| pause >= Duration::from_secs(*n)).unwrap_or(0));
        format!("{state} {pause:?}")
    }

    fn http(status: u16, retry_after: Option<u64>) -> ConnectErrorKind {
        let retry_after = retry_after.map(Duration::from_secs);
        ConnectErrorKind::Http(HttpStatus { status, body: String::new(), retry_after })
    }

    #[test]
    fn a_permanent_failure_is_not_retried() {
        let not_found = ConnectErrorKind::Spawn(Arc::new(SpawnError::NotFound("npx".into())));
        assert_eq!(decision(1, not_found), "failed None");
        assert_eq!(decision(1, ConnectErrorKind::Refused("no".into())), "failed None");
        assert_eq!(decision(1, http(404, None)), "failed None");
        assert_eq!(decision(1, http(403, None)), "failed None");
        let auth = ConnectErrorKind::Auth(AuthRequired { status: 401, challenge: None, zone: None, reason: None });
        assert_eq!(decision(1, auth), "needs-auth None");
    }

    #[test]
    fn a_transient_failure_is_retried_with_growing_delays_and_then_counts_as_failed() {
        let refused = || ConnectErrorKind::Transport("connection refused".into());
        let bounds = |failures| Reconnection::default().after(failures, &error(refused()));
        assert_eq!(bounds(0), (ServerState::Pending, Some(Duration::ZERO)));
        for (failures, least) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16)] {
            let (state, pause) = bounds(failures);
            let pause = pause.expect("a pause").as_secs_f64();
            let least = f64::from(least);
            assert!(state == ServerState::Pending && (least..=least * 1.25).contains(&pause), "{failures}: {pause}");
        }
        let (state, pause) = bounds(6);
        assert!(state == ServerState::Failed && pause.expect("a rest") >= Duration::from_secs(300), "{pause:?}");
    }

    #[test]
    fn retry_after_sets_the_minimum_delay() {
        assert_eq!(decision(1, http(503, Some(90))), "pending Some(90)");
        assert_eq!(decision(6, http(429, Some(400))), "failed Some(400)");
    }

    #[test]
    fn without_reconnection_every_failure_is_final() {
        let refused = error(ConnectErrorKind::Transport("connection refused".into()));
        assert_eq!(Reconnection::NONE.after(1, &refused), (ServerState::Failed, None));
        assert_eq!(
            Reconnection::NONE.after(0, &refused),
            (ServerState::Failed, None),
            "however long the connection lived"
        );
    }
}
