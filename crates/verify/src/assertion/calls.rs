//! The tool calls of a trace, with their tools and results.

use serde_json::Value;

use super::{ToolPattern, TraceFacts};
use crate::tool_set::OfferedTool;
use crate::trace_calls::{TracedCall, traced_calls};

/// A tool call of a trace.
pub(super) struct Call<'a> {
    /// The name that the model used.
    pub(super) name: &'a str,
    /// The tool, if it was offered under that name.
    tool: Option<&'a OfferedTool>,
    /// Whether the offered tools are on record.
    are_tools_known: bool,
    /// The arguments; `null` if they are not JSON.
    pub(super) arguments: Value,
    /// `None` if the trace has no result of the call.
    pub(super) result: Option<CallOutput<'a>>,
}

/// The result of a call.
pub(super) struct CallOutput<'a> {
    pub(super) is_error: bool,
    pub(super) text: &'a str,
}

impl Call<'_> {
    pub(super) fn is_of(&self, pattern: &ToolPattern) -> bool {
        match self.tool {
            Some(tool) => pattern.fits(tool),
            None if self.are_tools_known => pattern.fits_name(self.name),
            None => pattern.fits_recorded_name(self.name),
        }
    }

    pub(super) fn succeeded(&self) -> bool {
        self.result.as_ref().is_some_and(|result| !result.is_error)
    }
}

/// Returns the calls of a trace in order.
pub(super) fn calls<'a>(facts: &TraceFacts<'a>) -> Vec<Call<'a>> {
    let read = |TracedCall { call, result }: TracedCall<'a>| {
        let message = result.and_then(|index| facts.messages.get(index));
        let is_error = message.and_then(|message| message.tool_result.as_ref()).is_some_and(|result| result.is_error);
        Call {
            name: &call.name,
            tool: facts.tools.and_then(|tools| tools.get(&call.name)),
            are_tools_known: facts.tools.is_some(),
            arguments: call.input.to_value().unwrap_or_default(),
            result: message.map(|message| CallOutput { is_error, text: &message.content }),
        }
    };
    traced_calls(facts.messages).into_iter().map(read).collect()
}

/// Writes a number of calls.
pub(super) fn number(calls: usize) -> String {
    if calls == 1 { "1 call".to_owned() } else { format!("{calls} calls") }
}
