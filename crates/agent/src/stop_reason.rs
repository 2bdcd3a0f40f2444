//! Why a model's response ended.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Why a response ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The answer is complete.
    EndTurn,
    /// The model requests tool calls.
    ToolUse,
    /// The response reached its maximum length.
    MaxTokens,
    /// The model or the provider refuses to continue.
    Refusal,
    /// Another reason, in the provider's own term.
    #[serde(untagged)]
    Other(Arc<str>),
}

impl StopReason {
    /// Returns the reason in snake case, as in JSON.
    pub fn as_str(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::Refusal => "refusal",
            Self::Other(reason) => reason,
        }
    }
}
