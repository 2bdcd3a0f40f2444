//! Recordings of runs: every question and every call with what came of it, in a file that runs without a network.
//!
//! A cassette is text, one JSON object a line. The first says what it is, `{"cassette":1}`; every other one is an exchange:
//!
//! ```text
//! {"ask":{"from":0,"messages":[…],"offered":[…],"options":{…}},"answer":{…}}     or "error":{…} instead of the answer
//! {"call":{"id":"1","name":"…","arguments":{…}},"output":{…}}                      or "failed":{…} instead of the output
//! ```
//!
//! A question holds only the messages that were not in the one before (`from` says how many were), and the tools only
//! where they are others. Secrets that the recorder is told of are not written.

mod record;
mod replay;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wharf_protocol::{CallFailed, Json, Message, Outcome, ToolCall, ToolDefinition};

use crate::{ModelError, ModelOptions, ModelResponse};

pub use record::Recorder;
pub use replay::{Divergence, InvalidCassette, Replay};

/// The form of cassettes.
const VERSION: u32 = 1;

/// The first line.
#[derive(Serialize, Deserialize)]
struct Header {
    cassette: u32,
}

/// Every other line.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Exchange {
    #[serde(skip_serializing_if = "Option::is_none")]
    ask: Option<Asked>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<ModelResponse>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ModelError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<ToolCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<Failed>,
}

/// A question.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// How many messages are those of the question before.
    from: usize,
    /// The others.
    messages: Vec<Message>,
    /// The tools, where they are not those of the question before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    offered: Option<Vec<Shown>>,
    options: ModelOptions,
}

/// A tool as a model was shown it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Shown {
    name: Arc<str>,
    description: Arc<str>,
    input_schema: Json,
}

/// A call without an answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Failed {
    reason: String,
    outcome: Outcome,
}

impl From<&ToolDefinition> for Shown {
    fn from(offered: &ToolDefinition) -> Self {
        let ToolDefinition { name, description, input_schema, .. } = offered.clone();
        Self { name, description, input_schema }
    }
}

impl From<&CallFailed> for Failed {
    fn from(failed: &CallFailed) -> Self {
        Self { reason: failed.reason.clone(), outcome: failed.outcome }
    }
}
