//! A part of a streamed response.

use std::sync::Arc;

use serde::Serialize;

/// A part of a streamed response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Delta {
    /// A part of the text.
    Text(String),
    /// A part of the reasoning.
    Thinking(String),
    /// A tool call starts.
    ToolUse {
        /// The model's id for the call.
        id: Arc<str>,
        /// Name of the tool.
        name: Arc<str>,
    },
    /// A part of the arguments of the call that started last.
    Arguments(String),
}
