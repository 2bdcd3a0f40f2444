//! What happens in a run, as it happens: one stream for the terminal, for JSON, for traces and for telemetry.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use wharf_protocol::{Json, Message, Usage};

use crate::{Limit, ModelError, StopReason};

/// Hears what happens, in order, in the task it happens in; must not block.
pub trait EventSink: Send + Sync {
    /// Something happened.
    fn event(&self, event: AgentEvent);
}

/// One thing that happened.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentEvent {
    /// The run began, or goes on.
    RunStarted {
        /// Its id.
        session_id: String,
        /// The interface of the model.
        interface: String,
        /// The model.
        model: String,
        /// Whether it goes on from a checkpoint.
        resumed: bool,
    },
    /// A turn began.
    TurnStarted {
        /// Which, from 1.
        turn: u32,
        /// How many tools the model may choose from.
        tools: usize,
    },
    /// A piece of the answer.
    ModelDelta(Delta),
    /// The whole answer; whatever was told of it before is in here.
    ModelMessage {
        /// The message.
        message: Message,
        /// Why it ends there.
        stop: StopReason,
        /// What it cost.
        usage: Usage,
    },
    /// A tool is about to be called.
    ToolStarted {
        /// The model's id for the call.
        id: Arc<str>,
        /// The tool.
        name: Arc<str>,
        /// The arguments as the model wrote them.
        arguments: Json,
    },
    /// A call has come further.
    ToolProgress {
        /// The model's id for the call.
        id: Arc<str>,
        /// How much is done.
        progress: f64,
        /// Of how much, if that is known.
        total: Option<f64>,
        /// In words.
        message: Option<String>,
    },
    /// A call has ended.
    ToolFinished {
        /// The model's id for the call.
        id: Arc<str>,
        /// The tool.
        name: Arc<str>,
        /// Whether the model is shown an error.
        is_error: bool,
        /// What the model is shown.
        output: Json,
        /// How long it took.
        millis: u64,
    },
    /// Something failed and is tried again. What was told of the answer so far is void.
    Retry {
        /// What failed: the model, or a tool.
        what: String,
        /// How often it has been tried.
        attempt: u32,
        /// Why.
        reason: String,
        /// The pause before the next attempt.
        #[serde(rename = "delay_ms", serialize_with = "millis")]
        delay: Duration,
    },
    /// Something is not as it was asked for, and the run goes on.
    Warning {
        /// In words.
        words: String,
    },
    /// A limit kept something from happening.
    LimitReached {
        /// Which.
        limit: Limit,
    },
    /// The run is over.
    Finished {
        /// Why.
        stop: &'static str,
        /// The model's failure, if that is why.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<ModelError>,
        /// How many turns it had.
        turns: u32,
        /// What it cost.
        usage: Usage,
    },
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Delta {
    /// Of its text.
    Text(String),
    /// Of what the model thinks.
    Thinking(String),
    /// A call begins.
    ToolUse {
        /// The model's id for it.
        id: Arc<str>,
        /// The tool.
        name: Arc<str>,
    },
    /// Of the arguments of the call that began last.
    Arguments(String),
}

fn millis<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
