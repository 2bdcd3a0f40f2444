//! Why a run ended.

use serde::{Deserialize, Serialize};

use crate::{Limit, ModelError};

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "why", content = "what", rename_all = "snake_case")]
pub enum RunEnd {
    /// The model gave its final answer.
    Completed,
    /// The model or its provider refused to continue.
    Refused,
    /// The answer reached its maximum length and is incomplete.
    Truncated,
    /// A limit was reached.
    Limit(Limit),
    /// The run was canceled.
    Cancelled,
    /// The model request failed, after all retries.
    ModelFailed(ModelError),
    /// A tool call failed, and `on_failure: raise` ended the run.
    ToolFailed(String),
    /// The run could not be saved, so it ended before its next step.
    CheckpointFailed(String),
}

impl RunEnd {
    /// Returns the name of the reason, as in JSON.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Refused => "refused",
            Self::Truncated => "truncated",
            Self::Limit(_) => "limit",
            Self::Cancelled => "cancelled",
            Self::ModelFailed(_) => "model_failed",
            Self::ToolFailed(_) => "tool_failed",
            Self::CheckpointFailed(_) => "checkpoint_failed",
        }
    }

    /// Describes why the run ended, for messages to the model.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Completed => "the run is complete".to_owned(),
            Self::Refused => "the model refused to continue".to_owned(),
            Self::Truncated => "the answer reached its maximum length".to_owned(),
            Self::Limit(limit) => format!("{limit} was reached"),
            Self::Cancelled => "the run was canceled".to_owned(),
            Self::ModelFailed(error) => format!("the model request failed ({error})"),
            Self::ToolFailed(reason) => format!("a tool call failed ({reason})"),
            Self::CheckpointFailed(reason) => format!("the run could not be saved ({reason})"),
        }
    }
}
