//! The time limit of a whole call, over all its rounds, polls and repetitions.

use std::time::Duration;

use super::Live;
use crate::wire::{Limits, WireHandle};
use crate::{CallErrorKind, Deadline};

/// The time that a request has in all. The clock stops while the host answers the server.
pub(super) struct Budget {
    handle: WireHandle,
    limits: Limits,
    started_at: Duration,
}

impl Budget {
    pub(super) fn new(live: &Live, limits: Limits) -> Self {
        Self { handle: live.wire.handle(), limits, started_at: live.wire.running_time() }
    }

    /// Reports the total limit in a timeout, even if only the remainder of it was set for the last request.
    pub(super) fn exceeded(&self, kind: CallErrorKind) -> CallErrorKind {
        match (kind, self.limits.total) {
            (CallErrorKind::Timeout { deadline: deadline @ Deadline::Total, .. }, Some(after)) => {
                CallErrorKind::Timeout { deadline, after }
            }
            (kind, _) => kind,
        }
    }

    /// Runs `work` within the remaining time.
    pub(super) async fn within<T>(&self, work: impl Future<Output = T>) -> Result<T, CallErrorKind> {
        let Some(left) = self.left()?.total else { return Ok(work.await) };
        let after = self.limits.total.unwrap_or(left);
        let timeout = |_| CallErrorKind::Timeout { deadline: Deadline::Total, after };
        tokio::time::timeout(left, work).await.map_err(timeout)
    }

    /// Returns the limits of the next round.
    pub(super) fn left(&self) -> Result<Limits, CallErrorKind> {
        let Some(total) = self.limits.total else { return Ok(self.limits) };
        let left = total.saturating_sub(self.handle.running_time().saturating_sub(self.started_at));
        if left.is_zero() {
            return Err(CallErrorKind::Timeout { deadline: Deadline::Total, after: total });
        }
        Ok(Limits { total: Some(left), ..self.limits })
    }
}
