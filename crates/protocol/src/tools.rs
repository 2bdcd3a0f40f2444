//! The interface between an agent and the executor of its tool calls: a fleet's turn, a recording or a test.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Hints, Json, ServerName, ToolOutput};

/// A boxed future that can be sent to another thread.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The tools of one turn. They do not change during the turn.
pub trait Tools: Send + Sync {
    /// Returns the tools that the model may call.
    fn offered(&self) -> &[ToolDefinition];

    /// Returns the name of the tool with which the model finds tools that are not offered at once; `None` if all tools are
    /// offered. Its structured output has the names under `tools`: `{"tools": [{"name": "…"}]}`.
    fn search_tool(&self) -> Option<&str> {
        None
    }

    /// Returns what the servers of these tools say about their use. The agent includes it in the system prompt, marked
    /// as the servers' text.
    fn instructions(&self) -> &[ServerInstructions] {
        &[]
    }

    /// Returns for how long the user has been asked questions so far. Durations of calls exclude this time.
    fn time_asked(&self) -> Duration {
        Duration::ZERO
    }

    /// Executes one call. A tool that fails returns an output for the model to read; an `Err` is for the host to
    /// handle.
    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Result<ToolOutput, CallFailed>>;
}

/// A source of tools for an agent: returns the tools of each turn. They may change between turns, never within one.
pub trait ToolSource: Send + Sync {
    /// Returns the tools of the next turn.
    fn turn(&self) -> Arc<dyn Tools>;
}

impl<F: Fn() -> Arc<dyn Tools> + Send + Sync> ToolSource for F {
    fn turn(&self) -> Arc<dyn Tools> {
        self()
    }
}

/// What models read about one server: its instructions, or a notice of the host about its tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerInstructions {
    /// The server's name.
    pub server: ServerName,
    /// The text, already cut to its maximum length. Unless it is a notice, it is the server's own and is not to be
    /// trusted.
    pub text: Arc<str>,
    /// The notice, if the text is the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<ServerNotice>,
}

/// What the host says about a server that connects after a run has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerNotice {
    /// It is not connected yet, or not connected again.
    Late,
    /// It has connected, and its tools are offered.
    Joined,
}

impl ServerInstructions {
    /// Returns the instructions that a server sent.
    pub fn of_server(server: ServerName, text: Arc<str>) -> Self {
        Self { server, text, notice: None }
    }

    /// Returns a notice of the host. Its text is a predicate of the server.
    pub fn of_host(server: ServerName, notice: ServerNotice) -> Self {
        let text = match notice {
            ServerNotice::Late => "is not connected. Its tools are offered as soon as it is.",
            ServerNotice::Joined => "has connected since this run started. Its tools are offered now.",
        };
        Self { server, text: text.into(), notice: Some(notice) }
    }
}

/// A tool as presented to a model.
#[derive(Clone, Debug)]
pub struct ToolDefinition {
    /// The name that the model calls it by.
    pub name: Arc<str>,
    /// Description for the model.
    pub description: Arc<str>,
    /// JSON Schema of the arguments, in a form that every model API accepts.
    pub input_schema: Json,
    /// Behavior hints of the tool, for ordering and repeating calls.
    pub hints: Hints,
    /// Whether the model may have to search for it.
    pub loading: ToolLoading,
}

/// Whether a tool is offered at once if there are many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolLoading {
    /// The model has to search for it.
    #[default]
    Deferred,
    /// Its server wants it to be offered at once. That is not a promise.
    Requested,
    /// It is always offered: the user wants it, or it is the host's own.
    Always,
}

/// A tool call as the model wrote it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The model's id for the call.
    pub id: Arc<str>,
    /// Name of the called tool.
    pub name: Arc<str>,
    /// Arguments as JSON; normally an object.
    pub arguments: Json,
}

/// A tool call that returned no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {reason}")]
pub struct CallFailed {
    /// Name of the called tool.
    pub name: String,
    /// Why the call failed, in text that a model may read.
    pub reason: String,
    /// Whether the call may have had an effect.
    pub outcome: Outcome,
}

/// Whether a call that failed may have had an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It certainly did not run.
    NotRun,
    /// The server answered, whatever the answer was worth.
    Answered,
    /// Nobody knows.
    Unknown,
}

/// Whether a failed call may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetrySafety {
    /// Safe: the call did not run.
    NotRun,
    /// Safe: the call may have run, and its tool declares itself read-only or idempotent.
    Idempotent,
    /// Not to be sent again: it may have had an effect, the server answered, or it would fail the same way.
    Never,
}

impl RetrySafety {
    /// Whether the call may be sent again.
    pub fn allows_retry(self) -> bool {
        self != Self::Never
    }
}

impl Outcome {
    /// Returns whether a call with this outcome may be sent again, given the hints of its tool.
    ///
    /// Every retry of a tool call in Wharf goes by this rule: a call that may have run is never repeated blindly.
    pub fn retry_safety(self, hints: Option<Hints>) -> RetrySafety {
        match self {
            Self::NotRun => RetrySafety::NotRun,
            Self::Unknown if hints.is_some_and(Hints::safe_to_repeat) => RetrySafety::Idempotent,
            Self::Unknown | Self::Answered => RetrySafety::Never,
        }
    }

    /// In a word or two.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotRun => "not run",
            Self::Answered => "answered",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_may_have_run_is_retried_only_if_its_tool_is_read_only_or_idempotent() {
        let read_only = Hints { read_only: Some(true), ..Hints::default() };
        let idempotent = Hints { idempotent: Some(true), ..Hints::default() };
        for hints in [None, Some(Hints::default())] {
            assert_eq!(Outcome::NotRun.retry_safety(hints), RetrySafety::NotRun);
            assert_eq!(Outcome::Unknown.retry_safety(hints), RetrySafety::Never);
            assert_eq!(Outcome::Answered.retry_safety(hints), RetrySafety::Never);
        }
        for hints in [Some(read_only), Some(idempotent)] {
            assert_eq!(Outcome::NotRun.retry_safety(hints), RetrySafety::NotRun);
            assert_eq!(Outcome::Unknown.retry_safety(hints), RetrySafety::Idempotent);
            assert_eq!(Outcome::Answered.retry_safety(hints), RetrySafety::Never);
        }
    }
}
