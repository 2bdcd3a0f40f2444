//! Assertions on the trace of a run: which tools were called, how, and how often. Pure functions, no I/O.

mod arguments;
mod calls;
mod check;
pub(crate) mod notation;
mod raw;
mod tool_pattern;

use std::fmt;

use serde::{Deserialize, Serialize};
use wharf_agent::TraceMessage;

use crate::expression::Expression;
use crate::tool_set::ToolSet;
use raw::RawAssertion;

pub use arguments::ArgumentMatch;
pub use raw::InvalidAssertion;
pub use tool_pattern::ToolPattern;

/// One assertion on a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawAssertion", into = "RawAssertion")]
pub enum Assertion {
    /// At least one call of the tool has these arguments.
    Called {
        /// The tool.
        tool: ToolPattern,
        /// The arguments that one call must have.
        arguments: ArgumentMatch,
    },
    /// No call of the tool has these arguments.
    NotCalled {
        /// The tool.
        tool: ToolPattern,
        /// The arguments that no call may have.
        arguments: ArgumentMatch,
    },
    /// The model made at most this many tool calls.
    MaxCalls(usize),
    /// The model made at least this many tool calls.
    MinCalls(usize),
    /// The number of calls of a tool is in a range.
    Count {
        /// The tool.
        tool: ToolPattern,
        /// The minimum number.
        at_least: Option<usize>,
        /// The maximum number.
        at_most: Option<usize>,
    },
    /// The tools were called in this order.
    Order {
        /// The tools.
        tools: Vec<ToolPattern>,
        /// Whether no other call may come in between.
        strict: bool,
    },
    /// The share of calls without an error is high enough. Holds if there was no call.
    SuccessRate {
        /// The tool.
        tool: ToolPattern,
        /// The minimum share, from 0 to 1.
        at_least: f64,
    },
    /// At least one output of the tool matches.
    OutputMatches {
        /// The tool.
        tool: ToolPattern,
        /// What the output must contain.
        text: OutputText,
    },
    /// The model did not make many more calls than necessary: the optimal number divided by the number of calls.
    PathEfficiency {
        /// The number of calls that suffice.
        optimal: usize,
        /// The minimum efficiency, from 0 to 1.
        at_least: f64,
    },
}

/// What an output must contain.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputText {
    /// A match of an expression.
    Regex(Expression),
    /// A text.
    Contains(String),
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
    /// The path efficiency, from 0 to 1, if the assertion is about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_efficiency: Option<f64>,
}

/// The facts that assertions are checked against.
#[derive(Clone, Copy, Debug)]
pub struct TraceFacts<'a> {
    /// The messages of the model and the tools.
    pub messages: &'a [TraceMessage],
    /// The tools that were offered; they resolve the names in a trace to servers and tools. `None` if they are not on
    /// record, as for a prepared trace.
    pub tools: Option<&'a ToolSet>,
}

impl Assertion {
    /// Checks the assertion.
    pub fn check(&self, facts: &TraceFacts<'_>) -> AssertionResult {
        let reason = check::check(self, facts).err();
        let path_efficiency = check::measured_efficiency(self, facts);
        AssertionResult { assertion: self.to_string(), passed: reason.is_none(), reason, path_efficiency }
    }

    /// Returns why nothing is known about a tool of the assertion, if it was neither offered nor called.
    pub(crate) fn unknown_tool(&self, facts: &TraceFacts<'_>) -> Option<String> {
        check::expect_known_tools(self, facts).err()
    }

    /// Returns the tools that the assertion names.
    pub fn tools(&self) -> &[ToolPattern] {
        match self {
            Self::Called { tool, .. }
            | Self::NotCalled { tool, .. }
            | Self::Count { tool, .. }
            | Self::SuccessRate { tool, .. }
            | Self::OutputMatches { tool, .. } => std::slice::from_ref(tool),
            Self::Order { tools, .. } => tools,
            Self::MaxCalls(_) | Self::MinCalls(_) | Self::PathEfficiency { .. } => &[],
        }
    }
}

impl fmt::Display for Assertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Called { tool, arguments } => write!(f, "called {tool}{arguments}"),
            Self::NotCalled { tool, arguments } => write!(f, "not called {tool}{arguments}"),
            Self::MaxCalls(max) => write!(f, "at most {}", calls::number(*max)),
            Self::MinCalls(min) => write!(f, "at least {}", calls::number(*min)),
            Self::Count { tool, at_least, at_most } => match (at_least, at_most) {
                (Some(min), Some(max)) if min == max => write!(f, "exactly {} of {tool}", calls::number(*min)),
                (Some(min), Some(max)) => write!(f, "from {min} to {} of {tool}", calls::number(*max)),
                (Some(min), None) => write!(f, "at least {} of {tool}", calls::number(*min)),
                (None, Some(max)) => write!(f, "at most {} of {tool}", calls::number(*max)),
                (None, None) => write!(f, "any number of calls of {tool}"),
            },
            Self::Order { tools, strict } => {
                let names: Vec<String> = tools.iter().map(ToString::to_string).collect();
                let between = if *strict { ", with no other call in between" } else { "" };
                write!(f, "called in order {}{between}", names.join(", "))
            }
            Self::SuccessRate { tool, at_least } => write!(f, "success rate of {tool} at least {at_least}"),
            Self::OutputMatches { tool, text: OutputText::Regex(regex) } => {
                write!(f, "an output of {tool} matches {}", crate::problem::quoted(regex.as_str()))
            }
            Self::OutputMatches { tool, text: OutputText::Contains(text) } => {
                write!(f, "an output of {tool} contains {}", crate::problem::quoted(text))
            }
            Self::PathEfficiency { optimal, at_least } => {
                write!(f, "path efficiency at least {at_least} with {} as the optimum", calls::number(*optimal))
            }
        }
    }
}
