//! Events of a run: one stream for the terminal, JSON output, traces and telemetry.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use wharf_protocol::{Json, Message, ServerInstructions, Usage};

use crate::{Compaction, Delta, Limit, ModelError, StopReason};

/// Receives the events of a run in order, in the task of the run. Must not block.
pub trait EventSink: Send + Sync {
    /// Handles one event.
    fn event(&self, event: AgentEvent);
}

/// An event of a run. Serialized with its name in the field `type`.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentEvent {
    /// The run started or resumed.
    RunStarted {
        /// Id of the run.
        session_id: String,
        /// Interface of the model, for example `anthropic`.
        interface: String,
        /// Name of the model.
        model: String,
        /// Whether the run resumes from a checkpoint.
        resumed: bool,
    },
    /// A turn started: a model request and the tool calls of its response.
    TurnStarted {
        /// Number of the turn, from 1.
        turn: u32,
        /// Number of tools that the model may call.
        tools: usize,
    },
    /// The instructions of servers in the system prompt, from this turn on. Reported when they change.
    Instructions {
        /// Number of the turn, from 1.
        turn: u32,
        /// The instructions of all servers.
        servers: Vec<ServerInstructions>,
    },
    /// The conversation became too long, and the model reads less of it from this turn on.
    Compacted(Compaction),
    /// A part of a streamed response.
    ModelDelta(Delta),
    /// The complete response, including all parts that were streamed.
    ModelMessage {
        /// The model's message.
        message: Message,
        /// Why the response ended.
        stop: StopReason,
        /// Tokens and cost of the response.
        usage: Usage,
    },
    /// A tool call started.
    ToolStarted {
        /// The model's id for the call.
        id: Arc<str>,
        /// Name of the tool.
        name: Arc<str>,
        /// The arguments as the model wrote them.
        arguments: Json,
    },
    /// A tool call reported progress.
    ToolProgress {
        /// The model's id for the call.
        id: Arc<str>,
        /// Amount of work done.
        progress: f64,
        /// Total amount of work, if known.
        total: Option<f64>,
        /// Description of the progress.
        message: Option<String>,
    },
    /// A tool call finished.
    ToolFinished {
        /// The model's id for the call.
        id: Arc<str>,
        /// Name of the tool.
        name: Arc<str>,
        /// Whether the output is an error.
        is_error: bool,
        /// The output that the model reads.
        output: Json,
        /// Duration in milliseconds.
        millis: u64,
    },
    /// A limit prevented a tool call.
    ToolBlocked {
        /// The model's id for the call.
        id: Arc<str>,
        /// Name of the tool.
        name: Arc<str>,
        /// The arguments as the model wrote them.
        arguments: Json,
        /// The limit.
        limit: Limit,
    },
    /// A request or call failed and is retried. Discard the parts of the response that were streamed so far.
    Retry {
        /// `model`, or the name of the tool.
        what: String,
        /// Number of failed attempts.
        attempt: u32,
        /// Maximum number of attempts, if the next ones fail for the same reason.
        max_attempts: u32,
        /// Why the last attempt failed.
        reason: String,
        /// Delay before the next attempt.
        #[serde(rename = "delay_ms", serialize_with = "millis")]
        delay: Duration,
    },
    /// The run continues although something is not as configured.
    Warning {
        /// Description of the problem.
        #[serde(rename = "words")]
        message: String,
    },
    /// A limit prevented a model request or a tool call.
    LimitReached {
        /// The limit.
        limit: Limit,
    },
    /// The run ended.
    Finished {
        /// Why the run ended; see [`RunEnd::as_str`](crate::RunEnd::as_str).
        stop: &'static str,
        /// The model error, if it ended the run.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<ModelError>,
        /// Number of turns.
        turns: u32,
        /// Total tokens and cost.
        usage: Usage,
    },
}

fn millis<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
