//! The result of a run.

use serde::Serialize;
use wharf_protocol::Usage;

use crate::{
    Compaction, InstructionsTrace, Limit, Metrics, Run, RunEnd, StopReason, TraceMessage, raw_trace, trace_messages,
};

/// The result of a run, complete or partial.
///
/// It is built from the messages of the run, so it is available for runs that reached a limit, failed or were canceled.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgentResult {
    /// The final answer. `None` if the run ended without one; no text is invented in its place.
    pub final_response: Option<String>,
    /// The conversation as text for reading. Generated from `trace_messages` and never parsed.
    pub raw_trace: String,
    /// The messages of the model and the tools: the authoritative trace.
    pub trace_messages: Vec<TraceMessage>,
    /// The instructions of servers that the model read: those of the first request, and every change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<InstructionsTrace>,
    /// What the model read instead of the whole conversation: every change, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compactions: Vec<Compaction>,
    /// Total tokens and cost.
    pub usage: Usage,
    /// Number of model responses.
    pub turns: u32,
    /// Whether any limit was reached.
    pub limit_reached: bool,
    /// The limits that were reached, in order.
    pub limits: Vec<Limit>,
    /// Whether the time limit was reached.
    pub timeout_reached: bool,
    /// Id of the run.
    pub session_id: String,
    /// The model that responded last, according to its provider.
    pub actual_model: Option<String>,
    /// Why the run ended.
    pub stop: RunEnd,
    /// Why the last response ended.
    pub stop_reason: Option<StopReason>,
    /// The servers at the end of the run. Filled in by hosts that have servers.
    pub servers: Vec<ServerSummary>,
    /// Statistics of tool usage.
    pub metrics: Metrics,
}

/// A server's state at the end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerSummary {
    /// Name of the server.
    pub name: String,
    /// Connection state, for example `ready`.
    pub state: String,
    /// Why the server is in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of its tools.
    pub tools: usize,
}

impl AgentResult {
    /// Builds the result of a run. A run that has not ended counts as canceled.
    pub fn from_run(run: &Run) -> Self {
        let trace_messages = trace_messages(run.new_messages());
        let final_response = run.final_response();
        let stop = run.stop().cloned().unwrap_or(RunEnd::Cancelled);
        Self {
            raw_trace: raw_trace(run.new_messages(), &stop, final_response.is_some()),
            metrics: Metrics::from_run(run),
            final_response,
            trace_messages,
            instructions: run.instructions().to_vec(),
            compactions: run.compactions().to_vec(),
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
