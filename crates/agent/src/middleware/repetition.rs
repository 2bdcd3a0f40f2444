//! Stops a model that makes the same call again and again.

use std::sync::{Mutex, PoisonError};

use wharf_protocol::{BoxFuture, CallFailed, ToolCall, ToolOutput};

use super::{NextTool, ToolLayer};

/// Lets the same call be made only so often in a row; one more is answered with words instead.
#[derive(Debug)]
pub struct LoopGuard {
    most: u32,
    last: Mutex<Option<(ToolCall, u32)>>,
}

impl LoopGuard {
    /// So often in a row.
    pub fn new(most: u32) -> Self {
        Self { most, last: Mutex::new(None) }
    }

    /// How often this call has been made in a row, with this time.
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
        if self.count(call) <= self.most {
            return next.call(call);
        }
        let words = format!(
            "This tool was not called: the very same call has been made {} times in a row. Do something else, or answer.",
            self.most
        );
        Box::pin(std::future::ready(Ok(ToolOutput::error(words))))
    }
}
