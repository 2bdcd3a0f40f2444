//! The answer of a trial, shared by all judges.

use wharf_agent::{AgentResult, RunEnd, TraceMessage};
use wharf_protocol::Usage;

use crate::journaled::{StopCause, Totals};
use crate::judge_prompt::trace_text;

/// The answer of a model to a question.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The final answer.
    pub(crate) response: Option<String>,
    /// The messages of the model and the tools.
    pub(crate) trace: Vec<TraceMessage>,
    /// Why the run ended.
    pub(crate) end: RunEnd,
    /// The limits that were reached, as text.
    pub(crate) limits: Option<String>,
    pub(crate) turns: u32,
    pub(crate) tool_calls: usize,
    pub(crate) usage: Usage,
    pub(crate) actual_model: Option<String>,
    /// The time and the retries of its steps.
    pub(crate) totals: Totals,
    /// Why the trial says nothing about the model.
    pub(crate) invalid: Option<String>,
    /// Why it is unknown whether the trial had an effect.
    pub(crate) indeterminate: Option<String>,
}

impl Answer {
    /// Builds the answer from the result of a run. The text form of the trace is not used.
    pub(super) fn new(result: AgentResult, totals: Totals, cause: Option<StopCause>) -> Self {
        let limits: Vec<String> = result.limits.iter().map(|limit| format!("{limit} was reached")).collect();
        let mut invalid = totals.denied.clone();
        let mut indeterminate = None;
        match cause {
            Some(StopCause::Invalid(reason)) => invalid = Some(reason),
            Some(StopCause::Indeterminate(reason)) => indeterminate = Some(reason),
            Some(StopCause::TimeLimit(_) | StopCause::Journal(_)) | None => {}
        }
        Self {
            response: result.final_response,
            trace: result.trace_messages,
            end: result.stop,
            limits: (!limits.is_empty()).then(|| limits.join("; ")),
            turns: result.turns,
            tool_calls: result.metrics.tool_calls,
            usage: result.usage,
            actual_model: result.actual_model,
            totals,
            invalid,
            indeterminate,
        }
    }

    /// Returns what a judge evaluates: the whole trace, or the final response only.
    pub(super) fn judged_text(&self, full_trace: bool) -> String {
        if full_trace { trace_text(&self.trace) } else { self.response.clone().unwrap_or_default() }
    }
}
