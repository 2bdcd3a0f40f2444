//! Calls of the model whose results are not in the conversation yet.

use serde::{Deserialize, Serialize};
use wharf_protocol::{CallFailed, Hints, Json, Outcome, ToolCall, ToolOutput};

use super::failure_text;
use crate::{Limit, RunEnd};

/// A tool call that needs a result.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the format of checkpoints")]
pub(super) struct PendingCall {
    pub(super) call: ToolCall,
    /// Whether the tool is read-only, so that the call can run concurrently with others.
    #[serde(rename = "reads")]
    read_only: bool,
    /// Whether the call may be repeated.
    repeatable: bool,
    /// Whether the tool is not called at all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) blocked: bool,
    /// Whether the call was sent by an earlier process, which did not record its result.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
    #[serde(rename = "stage")]
    pub(super) state: CallState,
}

/// The state of a pending call.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CallState {
    Waiting,
    /// The call was sent and may have had an effect.
    #[serde(rename = "begun")]
    Started,
    /// The result for the model.
    #[serde(rename = "ended")]
    Finished(Json),
}

impl PendingCall {
    pub(super) fn new(call: ToolCall, hints: impl Fn(&str) -> Option<Hints>) -> Self {
        let hints = hints(&call.name);
        let read_only = hints.is_some_and(|hints| hints.read_only == Some(true));
        // A process that ended during the call leaves its outcome unknown.
        let repeatable = Outcome::Unknown.retry_safety(hints).allows_retry();
        Self { call, read_only, repeatable, blocked: false, interrupted: false, state: CallState::Waiting }
    }

    pub(super) fn reject(&mut self, limit: &Limit) {
        self.blocked = true;
        self.set_result(ToolOutput::error(format!("This tool was not called: {limit} was reached.")));
    }

    pub(super) fn finish(&mut self, result: Result<ToolOutput, CallFailed>) {
        self.set_result(result.unwrap_or_else(|failed| ToolOutput::error(failure_text(&failed))));
    }

    /// Prepares a call of an earlier process for resuming.
    pub(super) fn recover(&mut self) {
        match self.state {
            CallState::Started if self.repeatable => {
                self.interrupted = true;
                self.state = CallState::Waiting;
            }
            CallState::Started => self.do_not_repeat(),
            CallState::Waiting | CallState::Finished(_) => {}
        }
    }

    /// Judges a call that waits by the tool of today.
    pub(super) fn recheck(&mut self, hints: impl Fn(&str) -> Option<Hints>) {
        if !matches!(self.state, CallState::Waiting) {
            return;
        }
        let fresh = Self::new(self.call.clone(), hints);
        self.read_only = fresh.read_only;
        self.repeatable = fresh.repeatable;
        if self.interrupted && !self.repeatable {
            self.do_not_repeat();
        }
    }

    fn do_not_repeat(&mut self) {
        self.set_result(ToolOutput::error(
            "The run was interrupted during this call. It is unknown whether the call had an effect. It was not repeated.",
        ));
    }

    /// Gives a call a result that states why the run ended.
    pub(super) fn abandon(&mut self, stop: &RunEnd) {
        let text = match self.state {
            CallState::Finished(_) => return,
            CallState::Waiting => {
                self.blocked = true;
                format!("This tool was not called: {}.", stop.reason())
            }
            CallState::Started => {
                format!("The call was canceled: {}. It is unknown whether it had an effect.", stop.reason())
            }
        };
        self.set_result(ToolOutput::error(text));
    }

    fn set_result(&mut self, output: ToolOutput) {
        self.state = CallState::Finished(output.raw);
    }
}

/// Returns the calls that can run now, with their indexes, and marks them as started: consecutive read-only calls
/// together, any other call alone.
pub(super) fn next_batch(pending: &mut [PendingCall]) -> Vec<(usize, ToolCall)> {
    if pending.iter().any(|call| matches!(call.state, CallState::Started)) {
        return Vec::new();
    }
    let waiting: Vec<usize> =
        (0..pending.len()).filter(|index| matches!(pending[*index].state, CallState::Waiting)).collect();
    let Some(first) = waiting.first() else { return Vec::new() };
    let count = if pending[*first].read_only {
        waiting.iter().take_while(|index| pending[**index].read_only).count()
    } else {
        1
    };
    let start = |index: &usize| {
        pending[*index].state = CallState::Started;
        (*index, pending[*index].call.clone())
    };
    waiting[..count].iter().map(start).collect()
}
