//! The trace of tool calls. It records everything that changed what the model saw.

use std::sync::Arc;

use serde::Serialize;

use crate::{Json, Outcome, ServerName};

/// Receives trace events in order, in the task of the call. Must not block.
pub trait TraceSink: Send + Sync {
    /// Records one event.
    fn record(&self, event: TraceEvent);
}

/// A trace event of a tool call.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum TraceEvent {
    /// A call started.
    ToolStarted {
        /// The model's id for the call.
        id: Arc<str>,
        /// Name of the called tool.
        name: Arc<str>,
        /// The arguments as the model wrote them.
        arguments: Json,
    },
    /// A call reported progress.
    ToolProgress {
        /// The model's id for the call.
        id: Arc<str>,
        /// Amount of work done.
        progress: f64,
        /// Total amount of work, if known.
        total: Option<f64>,
        /// Description of the progress.
        message: Option<String>,
    },
    /// A call finished.
    ToolFinished(Box<ToolTrace>),
}

/// The complete trace of one call.
#[derive(Clone, Debug, Serialize)]
pub struct ToolTrace {
    /// The model's id for the call.
    pub id: Arc<str>,
    /// Name of the called tool.
    pub name: Arc<str>,
    /// The tool's server, if it has one.
    pub server: Option<ServerName>,
    /// The tool's name on its server, if the tool exists.
    pub tool: Option<Arc<str>>,
    /// The arguments that were sent, if they differ from the model's. Arguments set by the configuration are omitted.
    pub sent: Option<Json>,
    /// Decisions and changes during the call, in order.
    pub steps: Vec<TraceStep>,
    /// The output for the model. `None` if the call failed.
    pub output: Option<Json>,
    /// Whether the output is an error.
    pub is_error: bool,
    /// Why the call failed, if it did.
    pub failed: Option<TraceFailure>,
    /// Duration in milliseconds, including hooks, without the time in which the user was asked questions.
    pub millis: u64,
}

impl ToolTrace {
    /// Whether the tool was not called: a hook, the policy or the user refused the call, the tool does not exist or has
    /// changed, its arguments are invalid, or its server could not be reached.
    pub fn is_refused(&self) -> bool {
        if self.is_not_run() {
            return true;
        }
        let is_impossible = |step: &TraceStep| {
            matches!(
                step,
                TraceStep::NotOffered
                    | TraceStep::ServerDown { .. }
                    | TraceStep::Misfit { .. }
                    | TraceStep::Drifted { called: false, .. }
            )
        };
        if self.steps.iter().any(is_impossible) {
            return true;
        }
        for step in &self.steps {
            match step {
                TraceStep::Denied { .. } | TraceStep::Asked { approved: false, .. } | TraceStep::Blocked { .. } => {
                    return true;
                }
                // A hook that blocks later withholds the output.
                TraceStep::Allowed { .. } | TraceStep::Asked { approved: true, .. } => return false,
                _ => {}
            }
        }
        false
    }

    /// Whether the call failed before it ran.
    pub fn is_not_run(&self) -> bool {
        self.failed.as_ref().is_some_and(|failed| failed.outcome == Outcome::NotRun)
    }
}

/// Why a call returned no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceFailure {
    /// Why the call failed.
    pub reason: String,
    /// Whether the call may have had an effect.
    pub outcome: Outcome,
}

/// A decision or change during a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum TraceStep {
    /// The tool does not exist.
    NotOffered,
    /// The tool's server is not connected. The tool was not called.
    ServerDown {
        /// The server's name.
        server: ServerName,
        /// Why it is not connected.
        reason: String,
    },
    /// The arguments do not match the schema, or were not checked in time. The tool was not called.
    Misfit {
        /// The path of the mismatch and the reason.
        fault: String,
    },
    /// The arguments did not match the schema and were repaired.
    Repaired,
    /// The arguments were not checked, because the tool's schema is unusable.
    Unchecked {
        /// Why the schema is unusable.
        reason: String,
    },
    /// The configuration set arguments that are hidden from the model.
    Bound {
        /// Names of the arguments.
        names: Vec<String>,
    },
    /// The tool changed on its server after the turn started.
    Drifted {
        /// The change.
        what: String,
        /// Whether the tool was called anyway.
        called: bool,
    },
    /// A hook replaced the arguments.
    Rewritten {
        /// Name of the hook.
        by: String,
    },
    /// A hook blocked the call.
    Blocked {
        /// Name of the hook.
        by: String,
        /// The hook's reason.
        reason: String,
    },
    /// The policy allowed the call.
    Allowed {
        /// Name of the rule.
        by: String,
    },
    /// The policy denied the call.
    Denied {
        /// Name of the rule.
        by: String,
    },
    /// The user was asked for approval.
    Asked {
        /// Name of the rule that requires approval.
        by: String,
        /// Whether the user approved the call.
        approved: bool,
        /// The user's comment.
        words: Option<String>,
    },
    /// The structured result does not match the tool's output schema.
    OutputMisfit {
        /// The path of the mismatch and the reason.
        fault: String,
    },
    /// The output takes much of a model's context.
    LargeOutput {
        /// Estimated number of tokens, before it was shortened.
        tokens: usize,
    },
    /// The output was too long and was shortened.
    Cut {
        /// Original length in characters.
        from: usize,
        /// Remaining length in characters.
        to: usize,
        /// Where the full output can be read, if it was stored.
        kept_as: Option<String>,
    },
    /// A hook added text to the output.
    Annotated {
        /// Name of the hook.
        by: String,
        /// The added text.
        words: String,
    },
    /// A hook replaced the output.
    Replaced {
        /// Name of the hook.
        by: String,
    },
    /// A hook failed. The call continued without it.
    HookFailed {
        /// Name of the hook.
        by: String,
        /// Why the hook failed.
        reason: String,
    },
}
