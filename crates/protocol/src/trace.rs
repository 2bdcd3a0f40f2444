//! What happened, for whoever has to know exactly: everything that changed what the model saw is in here.

use std::sync::Arc;

use serde::Serialize;

use crate::{Json, Outcome, ServerName};

/// Hears what happens, in order, in the task it happens in; must not block.
pub trait TraceSink: Send + Sync {
    /// Something happened.
    fn record(&self, event: TraceEvent);
}

/// One thing that happened.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum TraceEvent {
    /// A call began.
    ToolStarted {
        /// The model's id for the call.
        id: Arc<str>,
        /// The name the model called.
        name: Arc<str>,
        /// The arguments as the model wrote them.
        arguments: Json,
    },
    /// A call has come further.
    ToolProgress {
        /// The model's id for the call.
        id: Arc<str>,
        /// How much is done.
        progress: f64,
        /// Of how much, if that is known.
        total: Option<f64>,
        /// In words.
        message: Option<String>,
    },
    /// A call has ended.
    ToolFinished(Box<ToolTrace>),
}

/// The whole story of one call.
#[derive(Clone, Debug, Serialize)]
pub struct ToolTrace {
    /// The model's id for the call.
    pub id: Arc<str>,
    /// The name the model called.
    pub name: Arc<str>,
    /// The server, for a tool that lives on one.
    pub server: Option<ServerName>,
    /// The tool's own name, if there is such a tool.
    pub tool: Option<Arc<str>>,
    /// The arguments that were sent, where they are not what the model wrote, and without those the configuration sets.
    pub sent: Option<Json>,
    /// What was decided and changed on the way, in order.
    pub steps: Vec<TraceStep>,
    /// What the model is shown, `None` where there is no answer.
    pub output: Option<Json>,
    /// Whether what it is shown is an error.
    pub is_error: bool,
    /// Why there is no answer, where there is none.
    pub failed: Option<TraceFailure>,
    /// How long it took, in milliseconds, with hooks and questions.
    pub millis: u64,
}

/// A call without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceFailure {
    /// Why.
    pub reason: String,
    /// Whether it may have run.
    pub outcome: Outcome,
}

/// A decision or a change on the way of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum TraceStep {
    /// There is no such tool.
    NotOffered,
    /// The arguments did not fit the schema, and the tool was not called.
    Misfit {
        /// Where and why.
        fault: String,
    },
    /// The arguments did not fit the schema as they were written; mended ones were used.
    Repaired,
    /// The arguments could not be checked: the tool's schema cannot be used.
    Unchecked {
        /// Why.
        reason: String,
    },
    /// The configuration set arguments that the model does not see.
    Bound {
        /// Their names.
        names: Vec<String>,
    },
    /// The tool has changed on its server since the turn began.
    Drifted {
        /// What has changed.
        what: String,
        /// Whether the call was made all the same.
        called: bool,
    },
    /// A hook replaced the arguments.
    Rewritten {
        /// Which hook.
        by: String,
    },
    /// A hook kept the tool from being called.
    Blocked {
        /// Which hook.
        by: String,
        /// Why.
        reason: String,
    },
    /// The policy let it pass.
    Allowed {
        /// Which rule.
        by: String,
    },
    /// The policy forbade it.
    Denied {
        /// Which rule.
        by: String,
    },
    /// Somebody was asked.
    Asked {
        /// Which rule wanted that.
        by: String,
        /// Whether they said yes.
        approved: bool,
        /// What they said.
        words: Option<String>,
    },
    /// The structured result does not fit the schema that the tool declares for it.
    OutputMisfit {
        /// Where and why.
        fault: String,
    },
    /// The output was too long and was cut.
    Cut {
        /// How many characters it had.
        from: usize,
        /// How many are left.
        to: usize,
        /// Where the whole of it can be read, if it was kept.
        kept_as: Option<String>,
    },
    /// A hook added words to the output.
    Annotated {
        /// Which hook.
        by: String,
        /// The words.
        words: String,
    },
    /// A hook replaced the output.
    Replaced {
        /// Which hook.
        by: String,
    },
    /// A hook could not do its work, and the call went on without it.
    HookFailed {
        /// Which hook.
        by: String,
        /// Why.
        reason: String,
    },
}
