//! The answer of a trial, shared by all judges.

use wharf_agent::{AgentResult, RunEnd, TraceMessage};
use wharf_protocol::Usage;

use super::conversation::{Conversation, Stopped};
use crate::benchmark::Question;
use crate::journaled::{StopCause, Totals};
use crate::judge_prompt::{conversation_text, trace_text};

/// The answer of a model to a question.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// What the model was asked: the text of the question, or the messages of a scenario.
    pub(crate) asked: String,
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
    /// The turns of a scenario.
    pub(crate) conversation: Option<Conversation>,
}

impl Answer {
    /// Builds the answer from the result of a run. The text form of the trace is not used.
    pub(super) fn new(question: &Question, result: AgentResult, totals: Totals, cause: Option<StopCause>) -> Self {
        let limits: Vec<String> = result.limits.iter().map(|limit| format!("{limit} was reached")).collect();
        let mut invalid = totals.denied.clone();
        let mut indeterminate = None;
        match cause {
            Some(StopCause::Invalid(reason)) => invalid = Some(reason),
            Some(StopCause::Indeterminate(reason)) => indeterminate = Some(reason),
            Some(StopCause::TimeLimit(_) | StopCause::Journal(_)) | None => {}
        }
        Self {
            asked: question.question.clone(),
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
            conversation: None,
        }
    }

    /// Adds the turns of a scenario, and what ended them.
    #[must_use]
    pub(super) fn with_conversation(mut self, conversation: Conversation) -> Self {
        let prompts: Vec<&str> = conversation.turns.iter().map(|turn| turn.prompt.as_str()).collect();
        self.asked = prompts.join("\n\n");
        let limits = [self.limits.take(), conversation.limit()];
        let limits: Vec<String> = limits.into_iter().flatten().collect();
        self.limits = (!limits.is_empty()).then(|| limits.join("; "));
        match conversation.stopped.as_ref() {
            Some(Stopped::Invalid(reason)) => drop(self.invalid.get_or_insert_with(|| reason.clone())),
            Some(Stopped::Indeterminate(reason)) => drop(self.indeterminate.get_or_insert_with(|| reason.clone())),
            Some(Stopped::Finding(_)) | None => {}
        }
        self.conversation = Some(conversation);
        self
    }

    /// Returns what a judge evaluates: the whole trace, or the final response only. Of a scenario it is the whole
    /// conversation, with or without the tool calls.
    pub(super) fn judged_text(&self, full_trace: bool) -> String {
        match &self.conversation {
            Some(conversation) => conversation_text(&conversation.spoken(&self.trace, full_trace)),
            None if full_trace => trace_text(&self.trace),
            None => self.response.clone().unwrap_or_default(),
        }
    }
}
