//! Assertions on the trace of a run: which tools were called, how, and how often. Pure functions, no I/O.

use serde::{Deserialize, Serialize};
use wharf_agent::TraceMessage;

use crate::tool_set::ToolSet;

/// One assertion on a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assertion {
    /// The maximum number of tool calls.
    pub max_calls: usize,
}

/// The result of an assertion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssertionResult {
    /// The assertion in a short form, for example `called get_current_time`.
    pub assertion: String,
    /// Whether it holds.
    pub passed: bool,
    /// What was found instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The facts that assertions are checked against.
#[derive(Clone, Copy, Debug)]
pub struct TraceFacts<'a> {
    /// The messages of the model and the tools.
    pub messages: &'a [TraceMessage],
    /// The tools that were offered; they resolve the names in a trace to servers and tools.
    pub tools: &'a ToolSet,
}

impl Assertion {
    /// Checks the assertion.
    pub fn check(&self, facts: &TraceFacts<'_>) -> AssertionResult {
        let calls = facts.messages.iter().map(|message| message.tool_calls.len()).sum::<usize>();
        AssertionResult {
            assertion: format!("at most {} calls", self.max_calls),
            passed: calls <= self.max_calls,
            reason: None,
        }
    }
}
