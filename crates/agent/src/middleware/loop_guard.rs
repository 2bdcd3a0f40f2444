//! Stops a model that repeats the same call.

use std::sync::{Mutex, PoisonError};

use wharf_protocol::{BoxFuture, CallFailed, ToolCall, ToolOutput};

use super::{NextTool, ToolLayer};

/// Limits the number of identical calls in a row. A further call returns an error to the model instead of running.
#[derive(Debug)]
pub struct LoopGuard {
    max: u32,
    last: Mutex<Option<(ToolCall, u32)>>,
}

impl LoopGuard {
    /// Allows up to `max` identical calls in a row.
    pub fn new(max: u32) -> Self {
        Self { max, last: Mutex::new(None) }
    }

    /// Counts the identical calls in a row, including this one.
    fn count(&self, call: &ToolCall) -> u32 {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *last {
            Some((before, count)) if before.name == call.name && before.arguments == call.arguments => {
                *count = count.saturating_add(1);
                *count
            }
            other => {
                *other = Some((call.clone(), 1));
                1
            }
        }
    }
}

impl ToolLayer for LoopGuard {
    fn handle<'a>(&'a self, call: &'a ToolCall, next: NextTool<'a>) -> BoxFuture<'a, Result<ToolOutput, CallFailed>> {
        if self.count(call) <= self.max {
            return next.call(call);
        }
        let message = format!(
            "This tool was not called: the same call was made {} times in a row. Make a different call, or answer.",
            self.max
        );
        Box::pin(std::future::ready(Ok(ToolOutput::error(message))))
    }
}
