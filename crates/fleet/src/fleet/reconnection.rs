//! When a server that failed is tried again. Deciding only; the connection waits.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use wharf_client::{CallError, CallErrorKind, ConnectErrorKind};
use wharf_io::SpawnError;

use super::ServerState;

/// A connection that lived this long was a good one: the failures before it are forgotten.
pub(super) const STABLE: Duration = Duration::from_secs(30);

/// How stubborn a fleet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconnection {
    /// How often in a row a server is tried again before it counts as failed.
    pub attempts: u32,
    /// The first pause; it doubles from there.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
    /// How long a server that counts as failed is left alone before it is tried once more; `None` means for good.
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
    /// For programs that want one answer and end: nothing is tried again.
    pub const NONE: Self = Self { attempts: 0, first: Duration::ZERO, longest: Duration::ZERO, rest: None };

    /// What becomes of a server that has failed so often in a row, the last time like this.
    pub(super) fn after(&self, failures: u32, error: &CallError) -> (ServerState, Option<Duration>) {
        match Failing::of(error) {
            Failing::ByAuth => (ServerState::NeedsAuth, None),
            Failing::ForGood => (ServerState::Failed, None),
            Failing::ForNow { not_before } if self.attempts > 0 && failures <= self.attempts => {
                let doubled = self.first.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1)));
                // The first pause of all is none: most servers that die once are there again at once.
                let pause = if failures == 0 { Duration::ZERO } else { doubled.min(self.longest) };
                (ServerState::Pending, Some(spread(pause).max(not_before)))
            }
            Failing::ForNow { not_before } => (ServerState::Failed, self.rest.map(|rest| spread(rest).max(not_before))),
        }
    }
}

/// What a failure means for the next attempt.
enum Failing {
    /// Somebody has to sign in.
    ByAuth,
    /// Somebody has to change something.
    ForGood,
    /// It may well work later.
    ForNow { not_before: Duration },
}

impl Failing {
    fn of(error: &CallError) -> Self {
        let now = Self::ForNow { not_before: Duration::ZERO };
        match &error.kind {
            CallErrorKind::Connect(kind) => Self::of_connecting(kind),
            CallErrorKind::Http(status) => Self::of_status(status.status, status.retry_after),
            CallErrorKind::Unsupported(_) | CallErrorKind::Malformed(_) => Self::ForGood,
            _ => now,
        }
    }

    fn of_connecting(kind: &ConnectErrorKind) -> Self {
        match kind {
            ConnectErrorKind::Auth(_) => Self::ByAuth,
            ConnectErrorKind::Http(status) => Self::of_status(status.status, status.retry_after),
            ConnectErrorKind::Spawn(error) => match **error {
                SpawnError::Exhausted(_) => Self::ForNow { not_before: Duration::ZERO },
                _ => Self::ForGood,
            },
            ConnectErrorKind::Unusable(_) | ConnectErrorKind::Untrusted(_) | ConnectErrorKind::Refused(_) => {
                Self::ForGood
            }
            ConnectErrorKind::Resting { wait, .. } => Self::ForNow { not_before: *wait },
            ConnectErrorKind::Transport(_)
            | ConnectErrorKind::Ended(_)
            | ConnectErrorKind::Timeout(_)
            | ConnectErrorKind::Closed => Self::ForNow { not_before: Duration::ZERO },
        }
    }

    fn of_status(status: u16, retry_after: Option<Duration>) -> Self {
        match status {
            408 | 429 | 500.. => Self::ForNow { not_before: retry_after.unwrap_or_default() },
            _ => Self::ForGood,
        }
    }
}

/// Up to a quarter more, so that the servers of one host do not come back in step.
fn spread(pause: Duration) -> Duration {
    let dice = RandomState::new().hash_one(0_u8) % 1000;
    pause + pause.mul_f64(f64::from(u32::try_from(dice).unwrap_or(0)) / 4000.0)
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

    fn verdict(failures: u32, kind: ConnectErrorKind) -> String {
        let (state, pause) = Reconnection::default().after(failures, &error(kind));
        // The pause without its jitter, which adds up to a quarter.
        let pause = pause.map(|pause| (1..=400).rev().find(|n| pause >= Duration::from_secs(*n)).unwrap_or(0));
        format!("{state} {pause:?}")
    }

    fn http(status: u16, retry_after: Option<u64>) -> ConnectErrorKind {
        let retry_after = retry_after.map(Duration::from_secs);
        ConnectErrorKind::Http(HttpStatus { status, body: String::new(), retry_after })
    }

    #[test]
    fn what_somebody_has_to_mend_is_not_tried_again() {
        let not_found = ConnectErrorKind::Spawn(Arc::new(SpawnError::NotFound("npx".into())));
        assert_eq!(verdict(1, not_found), "failed None");
        assert_eq!(verdict(1, ConnectErrorKind::Refused("no".into())), "failed None");
        assert_eq!(verdict(1, http(404, None)), "failed None");
        assert_eq!(verdict(1, http(403, None)), "failed None");
        let auth = ConnectErrorKind::Auth(AuthRequired { status: 401, challenge: None, reason: None });
        assert_eq!(verdict(1, auth), "needs-auth None");
    }

    #[test]
    fn what_may_pass_is_tried_less_and_less_often_and_then_left_alone() {
        let refused = || ConnectErrorKind::Transport("connection refused".into());
        let bounds = |failures| Reconnection::default().after(failures, &error(refused()));
        assert_eq!(bounds(0), (ServerState::Pending, Some(Duration::ZERO)));
        for (failures, least) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16)] {
            let (state, pause) = bounds(failures);
            let (pause, least) = (pause.expect("a pause").as_secs_f64(), f64::from(least));
            assert!(state == ServerState::Pending && (least..=least * 1.25).contains(&pause), "{failures}: {pause}");
        }
        let (state, pause) = bounds(6);
        assert!(state == ServerState::Failed && pause.expect("a rest") >= Duration::from_secs(300), "{pause:?}");
    }

    #[test]
    fn a_server_that_says_when_is_believed() {
        assert_eq!(verdict(1, http(503, Some(90))), "pending Some(90)");
        assert_eq!(verdict(6, http(429, Some(400))), "failed Some(400)");
    }

    #[test]
    fn a_program_that_wants_one_answer_gets_it() {
        let refused = error(ConnectErrorKind::Transport("connection refused".into()));
        assert_eq!(Reconnection::NONE.after(1, &refused), (ServerState::Failed, None));
        assert_eq!(Reconnection::NONE.after(0, &refused), (ServerState::Failed, None), "however long it had lived");
    }
}
