//! The journal of a trial: the intent of every paid or writing step before it, and its result after it.

use serde::{Deserialize, Serialize};
use wharf_protocol::{BoxFuture, Usage};

use crate::ids::UnitId;
use crate::outcome::UnitResult;
use crate::store::StoreError;

/// Who a step belongs to. The answer is shared by all units of a trial; judging is not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StepOwner {
    /// The answer of the trial.
    Trial,
    /// The judging of one unit.
    Unit(UnitId),
}

/// What a step does, and so whether it may be repeated after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// A model request. It costs money and changes nothing.
    Model,
    /// A call of a tool that is safe to repeat.
    ReadOnlyTool,
    /// A call of any other tool.
    Tool,
    /// A request to a judge.
    Judge,
}

/// A step before it is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepRequest {
    /// Who the step belongs to.
    pub owner: StepOwner,
    /// What the step does.
    pub kind: StepKind,
    /// Digest of the whole request. A changed request never gets the result of another one.
    pub request: String,
    /// How many equal requests of the owner came before, from 0.
    pub occurrence: u32,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepResult {
    /// The result as JSON. A recorded result is returned instead of executing the step again, except for failures.
    pub body: String,
    /// Whether the step failed in a way that executing it again may fix. Such a result is counted, and never reused.
    pub failed: bool,
    /// Tokens and cost.
    pub usage: Usage,
    /// Duration in milliseconds.
    pub millis: u64,
}

/// What to do with a step.
#[derive(Debug)]
pub enum StepStart {
    /// Execute it: its intent is durable. Pass the number to [`Journal::finish_step`].
    Execute(i64),
    /// Do not execute it: this is its result.
    Recorded(StepResult),
    /// Do not execute it: it was interrupted, and may have had an effect.
    Indeterminate,
}

/// Why a step must not be executed. The trial ends without a result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum JournalError {
    /// Another worker holds the trial. Nothing more of this worker is written.
    #[error("the lease of the trial was lost")]
    LeaseLost,
    /// A budget is used up.
    #[error("{0}")]
    Budget(String),
    /// A replayed run differs from its recording.
    #[error("the run differs from its recording: {0}")]
    Diverged(String),
    /// The store failed, so the step would not be on record.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The journal of one trial.
pub trait Journal: Send + Sync {
    /// Whether every step is on record, so that no server is started and nothing waits before a retry.
    fn is_replay(&self) -> bool {
        false
    }

    /// Records the intent of a step, or returns its recorded result. The intent is durable when this returns.
    fn begin_step<'a>(&'a self, step: &'a StepRequest) -> BoxFuture<'a, Result<StepStart, JournalError>>;

    /// Records the result of a step.
    fn finish_step(&self, step: i64, result: StepResult) -> BoxFuture<'_, Result<(), JournalError>>;

    /// Records the result of a unit.
    fn finish_unit<'a>(&'a self, result: &'a UnitResult) -> BoxFuture<'a, Result<(), JournalError>>;
}
