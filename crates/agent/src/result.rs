//! What came of a run.

use serde::{Deserialize, Serialize};
use wharf_protocol::Usage;

use crate::{Limit, Metrics, ModelError, Run, StopReason, TraceMessage, raw_trace, trace_messages};

/// Everything there is to know of a run that is over.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgentResult {
    /// The answer, where there is one. Nothing is ever made up in its place.
    pub final_response: Option<String>,
    /// The conversation as text, for people. It is made of `trace_messages` and never read back.
    pub raw_trace: String,
    /// What the model and the tools said: the truth.
    pub trace_messages: Vec<TraceMessage>,
    /// What it cost, all together.
    pub usage: Usage,
    /// How often the model answered.
    pub turns: u32,
    /// Whether a limit of any kind kept something from happening.
    pub limit_reached: bool,
    /// Which limits.
    pub limits: Vec<Limit>,
    /// Whether that was the limit of time.
    pub timeout_reached: bool,
    /// The run's id.
    pub session_id: String,
    /// The model that answered, by its own account.
    pub actual_model: Option<String>,
    /// Why the run is over.
    pub stop: RunEnd,
    /// Why the last answer ended where it did.
    pub stop_reason: Option<StopReason>,
    /// How the servers were doing, for runs that have some.
    pub servers: Vec<ServerSummary>,
    /// What the tools were used for.
    pub metrics: Metrics,
}

/// Why a run is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "why", content = "what", rename_all = "snake_case")]
pub enum RunEnd {
    /// The model has answered.
    Completed,
    /// The model, or its provider, will not answer.
    Refused,
    /// The answer was too long, and is cut.
    Truncated,
    /// A limit was reached.
    Limit(Limit),
    /// Somebody ended it.
    Cancelled,
    /// The model failed, and failed again.
    ModelFailed(ModelError),
    /// A tool failed, and that was to end the run.
    ToolFailed(String),
}

/// How a server was doing when a run was over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerSummary {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: String,
    /// Why it is in that state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many tools it has.
    pub tools: usize,
}

impl RunEnd {
    /// In a word.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Refused => "refused",
            Self::Truncated => "truncated",
            Self::Limit(_) => "limit",
            Self::Cancelled => "cancelled",
            Self::ModelFailed(_) => "model_failed",
            Self::ToolFailed(_) => "tool_failed",
        }
    }

    /// To follow a colon.
    pub(crate) fn because(&self) -> String {
        match self {
            Self::Completed => "the run is over".to_owned(),
            Self::Refused => "the model will not go on".to_owned(),
            Self::Truncated => "the answer was cut".to_owned(),
            Self::Limit(limit) => format!("{limit} is reached"),
            Self::Cancelled => "the run was ended".to_owned(),
            Self::ModelFailed(error) => format!("the model failed ({error})"),
            Self::ToolFailed(reason) => format!("a tool failed ({reason})"),
        }
    }
}

impl AgentResult {
    /// What has come of a run; one that is not over counts as ended by somebody.
    pub fn of(run: &Run) -> Self {
        let trace_messages = trace_messages(run.said());
        let final_response = run.final_response();
        let stop = run.stop().cloned().unwrap_or(RunEnd::Cancelled);
        Self {
            raw_trace: raw_trace(run.said(), &stop, final_response.is_some()),
            metrics: Metrics::of(run.said()),
            final_response,
            trace_messages,
            usage: run.usage(),
            turns: run.turns(),
            limit_reached: !run.reached().is_empty(),
            timeout_reached: run.reached().iter().any(|limit| matches!(limit, Limit::Time { .. })),
            limits: run.reached().to_vec(),
            session_id: run.session_id().to_owned(),
            actual_model: run.model().map(str::to_owned),
            stop,
            stop_reason: run.stop_reason().cloned(),
            servers: Vec::new(),
        }
    }
}
