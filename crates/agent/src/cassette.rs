//! Recordings of runs: every model request and every tool call with its result, for replay without a network.
//!
//! A cassette is text with one JSON object per line. The first line is `{"cassette":1,"model":"INTERFACE:NAME"}`. Every
//! other line is an exchange:
//!
//! ```text
//! {"ask":{"from":0,"messages":[…],"offered":[…],"instructions":[…],"options":{…}},"answer":{…}}   or "error":{…} instead of "answer"
//! {"window":200000}
//! {"call":{"id":"1","name":"…","arguments":{…}},"output":{…}}                      or "failed":{…} instead of "output"
//! ```
//!
//! A request contains only the messages that the previous request did not have; `from` is the number of shared
//! messages. A request with `"for":"summary"` is no part of the conversation, and the requests around it share their
//! messages. `window` is the model's context window, or 0, if the run asked for it. The tools and the instructions of servers are omitted if they are unchanged. The recorder removes the secrets that it knows.

mod record;
mod replay;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wharf_protocol::{CallFailed, Json, Message, Outcome, ServerInstructions, ToolCall, ToolDefinition};

use crate::{ModelError, ModelOptions, ModelResponse};

pub use record::Recorder;
pub use replay::{Divergence, InvalidCassette, Replay};

/// Version of the cassette format.
const VERSION: u32 = 1;

/// The first line of a cassette.
#[derive(Serialize, Deserialize)]
struct Header {
    cassette: u32,
    /// The model, `INTERFACE:NAME`. Old cassettes do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
}

/// Every other line: a model request or a tool call, with its result.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Exchange {
    #[serde(rename = "ask", skip_serializing_if = "Option::is_none")]
    request: Option<RecordedRequest>,
    #[serde(rename = "answer", skip_serializing_if = "Option::is_none")]
    response: Option<ModelResponse>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ModelError>,
    /// The model's context window; 0 if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<ToolCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<RecordedFailure>,
}

/// A recorded model request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedRequest {
    /// Number of messages that are the same as in the previous request.
    #[serde(rename = "from")]
    shared: usize,
    /// The other messages.
    messages: Vec<Message>,
    /// The tools, if they differ from those of the previous request.
    #[serde(rename = "offered", default, skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<RecordedTool>>,
    /// The instructions of servers, if they differ from those of the previous request. The first request has none
    /// before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instructions: Option<Vec<ServerInstructions>>,
    options: ModelOptions,
    /// What the request is for, if it is not a turn.
    #[serde(rename = "for", default, skip_serializing_if = "Option::is_none")]
    purpose: Option<RecordedPurpose>,
}

/// The purpose of a request that is not a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RecordedPurpose {
    Summary,
}

/// A tool as presented to the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct RecordedTool {
    name: Arc<str>,
    description: Arc<str>,
    input_schema: Json,
}

/// A tool call that returned no result.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct RecordedFailure {
    reason: String,
    outcome: Outcome,
}

impl From<&ToolDefinition> for RecordedTool {
    fn from(tool: &ToolDefinition) -> Self {
        let ToolDefinition { name, description, input_schema, .. } = tool.clone();
        Self { name, description, input_schema }
    }
}

impl From<&CallFailed> for RecordedFailure {
    fn from(failed: &CallFailed) -> Self {
        Self { reason: failed.reason.clone(), outcome: failed.outcome }
    }
}
