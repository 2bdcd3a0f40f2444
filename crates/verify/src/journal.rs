//! The journal of a trial: the intent of every paid or writing step before it, and its result after it.

pub(crate) mod pending;
mod request_limits;
mod store_journal;

use wharf_protocol::BoxFuture;

use crate::budget::BudgetExceeded;
use crate::outcome::UnitResult;
use crate::store::StoreError;

pub use crate::step::{StepKind, StepOwner, StepRequest, StepResult, StepStart};
pub use request_limits::{RequestLimits, RequestPermit};
pub use store_journal::{BudgetGuard, Guards, StoreJournal};

/// Why a step must not be executed. The trial ends without a result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum JournalError {
    /// Another worker holds the trial. Nothing more of this worker is written.
    #[error("the lease of the trial was lost")]
    LeaseLost,
    /// The worker is asked to stop, and a step that failed is not retried then.
    #[error("the worker is stopping")]
    Stopping,
    /// A budget is used up.
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
    /// A replayed run differs from its recording.
    #[error("the run differs from its recording: {0}")]
    Diverged(String),
    /// The store failed, so the step would not be on record.
    #[error(transparent)]
    Store(StoreError),
}

/// The journal of one trial.
pub trait Journal: Send + Sync {
    /// Whether every step is on record, so that no server is started and nothing waits before a retry.
    fn is_replay(&self) -> bool {
        false
    }

    /// Waits until a request may be sent to a provider. Before the intent: waiting must not interrupt a step.
    fn permit<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Result<RequestPermit, JournalError>> {
        let _ = provider;
        Box::pin(async { Ok(RequestPermit::default()) })
    }

    /// Records the intent of a step, or returns its recorded result. The intent is durable when this returns, and so are
    /// all results before it.
    fn begin_step<'a>(&'a self, step: &'a StepRequest) -> BoxFuture<'a, Result<StepStart, JournalError>>;

    /// Records the result of a step. It is durable before the next step of the trial begins.
    fn finish_step(&self, step: i64, result: StepResult) -> BoxFuture<'_, Result<(), JournalError>>;

    /// Records the result of a unit. It is durable before the trial is released.
    fn finish_unit<'a>(&'a self, result: &'a UnitResult) -> BoxFuture<'a, Result<(), JournalError>>;

    /// Waits until everything that was recorded is durable.
    fn flush(&self) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async { Ok(()) })
    }
}

impl From<StoreError> for JournalError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::LeaseLost => Self::LeaseLost,
            other => Self::Store(other),
        }
    }
}
