//! Steps: the paid or writing actions of a trial, as they are recorded.

use serde::{Deserialize, Serialize};
use wharf_protocol::Usage;

use crate::ids::UnitId;

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
    /// A request to an embedding model.
    Embedding,
}

/// What happens to a step that was interrupted after its intent was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recovery {
    /// Model requests and read-only tools are repeated: at most one extra paid call per step in flight at a crash. Other
    /// tools are indeterminate.
    #[default]
    Repeat,
    /// Nothing is repeated: every interrupted step is indeterminate.
    Indeterminate,
}

/// A step before it is executed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StepRequest {
    /// Who the step belongs to.
    pub owner: StepOwner,
    /// What the step does.
    pub kind: StepKind,
    /// Digest of the whole request. A changed request never gets the result of another one.
    ///
    /// Secrets are redacted before the digest is taken. Results in a recording are redacted, and the requests that quote
    /// them must have the same digest as before.
    pub request: String,
    /// How many equal requests of the owner came before, from 0. A retry of a failed step has the number of that step.
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
    /// How long steps of the owner had been executing when this one ended, in milliseconds. Steps in parallel count once.
    /// `None` in stores of older versions.
    pub clock: Option<u64>,
}

/// What to do with a step.
#[derive(Debug, PartialEq)]
pub enum StepStart {
    /// Execute it: its intent is durable. Pass the number to `finish_step`.
    Execute(i64),
    /// Do not execute it: this is its result.
    Recorded(StepResult),
    /// Do not execute it: it was interrupted, and may have had an effect.
    Indeterminate,
}

/// A step on record.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedStep {
    /// The request.
    pub request: StepRequest,
    /// The result. `None` if the step was interrupted and may have had an effect.
    pub result: Option<StepResult>,
}

impl StepKind {
    /// Returns whether a step of this kind may be executed a second time after it was interrupted.
    pub fn is_repeatable(self, recovery: Recovery) -> bool {
        match (recovery, self) {
            (Recovery::Repeat, Self::Model | Self::ReadOnlyTool | Self::Judge | Self::Embedding) => true,
            (Recovery::Repeat, Self::Tool) | (Recovery::Indeterminate, _) => false,
        }
    }
}
