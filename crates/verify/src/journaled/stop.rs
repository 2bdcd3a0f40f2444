//! Why a run or a judgment has to end before its next step.

use tokio::sync::watch;
use wharf_agent::{Limit, RunEnd};

use crate::journal::JournalError;

/// Why no further step is executed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StopCause {
    /// The journal refuses the step. The trial ends without a result.
    Journal(JournalError),
    /// An interrupted step may have had an effect.
    Indeterminate(String),
    /// The trial says nothing about the model.
    Invalid(String),
    /// The time limit of the run, in seconds, was reached.
    TimeLimit(u64),
}

/// The cause that ends the steps of one owner. It is set at most once.
pub(crate) struct Stop(watch::Sender<Option<StopCause>>);

impl Default for Stop {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Stop {
    /// Sets the cause. The first one counts, but a refusal of the journal counts more than any other.
    pub(crate) fn set(&self, cause: StopCause) {
        self.0.send_if_modified(|current| {
            let is_journal = |cause: &StopCause| matches!(cause, StopCause::Journal(_));
            let replaces = current.as_ref().is_none_or(|current| is_journal(&cause) && !is_journal(current));
            if replaces {
                *current = Some(cause);
            }
            replaces
        });
    }

    /// Returns the cause, if one is set.
    pub(crate) fn cause(&self) -> Option<StopCause> {
        self.0.borrow().clone()
    }

    /// Waits for a cause. Returns how the run of an agent ends.
    pub(crate) async fn stopped(&self) -> RunEnd {
        let mut changes = self.0.subscribe();
        // It does not fail: the sender is `self`.
        let cause = changes.wait_for(Option::is_some).await.map(|cause| cause.clone()).unwrap_or_default();
        match cause {
            Some(StopCause::TimeLimit(seconds)) => RunEnd::Limit(Limit::Time { seconds }),
            _ => RunEnd::Cancelled,
        }
    }
}
