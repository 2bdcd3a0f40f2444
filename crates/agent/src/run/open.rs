//! Calls that a model has made and that are not in the conversation yet.

use serde::{Deserialize, Serialize};
use wharf_protocol::{CallFailed, Hints, Json, ToolCall, ToolOutput};

use super::unanswered;
use crate::{Limit, RunEnd};

/// A call that has to be answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Open {
    pub(super) call: ToolCall,
    /// Whether it only reads, and can be made beside others.
    reads: bool,
    /// Whether it may be made twice.
    repeatable: bool,
    pub(super) stage: Stage,
}

/// How far a call is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    Waiting,
    /// It is being made; what it does may have been done.
    Begun,
    /// What the model will be shown.
    Ended(Json),
}

impl Open {
    pub(super) fn new(call: ToolCall, hints: impl Fn(&str) -> Option<Hints>) -> Self {
        let hints = hints(&call.name);
        let reads = hints.is_some_and(|hints| hints.read_only == Some(true));
        let repeatable = hints.is_some_and(Hints::safe_to_repeat);
        Self { call, reads, repeatable, stage: Stage::Waiting }
    }

    pub(super) fn block(&mut self, limit: &Limit) {
        self.close(ToolOutput::error(format!("This tool was not called: {limit} is reached.")));
    }

    pub(super) fn end(&mut self, result: Result<ToolOutput, CallFailed>) {
        self.close(result.unwrap_or_else(|failed| ToolOutput::error(unanswered(&failed))));
    }

    /// Makes the best of a call whose process has gone.
    pub(super) fn recover(&mut self) {
        match self.stage {
            Stage::Begun if self.repeatable => self.stage = Stage::Waiting,
            Stage::Begun => self.close(ToolOutput::error(
                "The run was interrupted while this call was under way. Nobody knows whether it had an effect; it was not \
                 made again.",
            )),
            Stage::Waiting | Stage::Ended(_) => {}
        }
    }

    /// Makes the best of a call that nobody waits for any more.
    pub(super) fn give_up(&mut self, stop: &RunEnd) {
        let words = match self.stage {
            Stage::Ended(_) => return,
            Stage::Waiting => format!("This tool was not called: {}.", stop.because()),
            Stage::Begun => {
                format!("The call was given up: {}. Nobody knows whether it had an effect.", stop.because())
            }
        };
        self.close(ToolOutput::error(words));
    }

    fn close(&mut self, output: ToolOutput) {
        self.stage = Stage::Ended(output.raw);
    }
}

/// The calls that can be made now, marked as begun: those that only read together, any other alone, each in its place.
pub(super) fn next(open: &mut [Open]) -> Vec<(usize, ToolCall)> {
    if open.iter().any(|open| matches!(open.stage, Stage::Begun)) {
        return Vec::new();
    }
    let waiting: Vec<usize> = (0..open.len()).filter(|place| matches!(open[*place].stage, Stage::Waiting)).collect();
    let Some(first) = waiting.first() else { return Vec::new() };
    let together = if open[*first].reads { waiting.iter().take_while(|place| open[**place].reads).count() } else { 1 };
    let begin = |place: &usize| {
        open[*place].stage = Stage::Begun;
        (*place, open[*place].call.clone())
    };
    waiting[..together].iter().map(begin).collect()
}
