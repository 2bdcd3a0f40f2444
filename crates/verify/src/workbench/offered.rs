//! The tools of one trial, compared with the plan in every turn.

use std::sync::{Arc, Mutex, PoisonError};

use wharf_protocol::{
    BoxFuture, CallFailed, Outcome, ServerInstructions, ToolCall, ToolDefinition, ToolOutput, ToolSource, Tools,
};

use crate::journaled::RequestContext;
use crate::tool_set::{PlannedTools, ToolSet};

/// The tools of a trial.
pub(crate) struct OfferedTools {
    source: Arc<dyn ToolSource>,
    /// Digest of the planned tools.
    planned: String,
    /// Whether tools are planned.
    has_tools: bool,
    /// Whether servers offer the tools, which may differ from the planned ones.
    is_live: bool,
    /// Why the tools cannot be used at all.
    problem: Option<String>,
    /// The difference between the last turn and the plan.
    difference: Mutex<Option<String>>,
}

/// The planned tools without servers: for replays, and for trials that end before their first request.
struct ClosedTools {
    tools: Vec<ToolDefinition>,
    instructions: Vec<ServerInstructions>,
}

impl OfferedTools {
    /// Offers what servers offer, and compares it with the plan.
    pub(super) fn live(source: Arc<dyn ToolSource>, planned: &PlannedTools) -> Self {
        let has_tools = !planned.tools.tools.is_empty();
        let planned = planned.digest.clone();
        Self { source, planned, has_tools, is_live: true, problem: None, difference: Mutex::default() }
    }

    /// Offers what was planned. No call is executed.
    pub(super) fn planned(planned: &PlannedTools) -> Self {
        let tools =
            ClosedTools { tools: planned.tools.definitions(), instructions: planned.tools.instructions.clone() };
        let tools: Arc<dyn Tools> = Arc::new(tools);
        Self { is_live: false, ..Self::live(Arc::new(move || Arc::clone(&tools)), planned) }
    }

    /// Sets why the tools cannot be used.
    pub(super) fn with_problem(mut self, problem: String) -> Self {
        self.problem = Some(problem);
        self
    }
}

impl ToolSource for OfferedTools {
    fn turn(&self) -> Arc<dyn Tools> {
        let turn = self.source.turn();
        if !self.is_live {
            return turn;
        }
        let offered = ToolSet::digest_of_turn(turn.offered(), turn.instructions());
        let difference = (offered != self.planned).then(|| {
            let count = turn.offered().len();
            format!(
                "the model is not offered the planned tools: the {count} tools of this turn have the digest {offered}"
            )
        });
        *self.difference.lock().unwrap_or_else(PoisonError::into_inner) = difference;
        turn
    }
}

impl RequestContext for OfferedTools {
    fn tool_set(&self) -> &str {
        &self.planned
    }

    fn has_tools(&self) -> bool {
        self.has_tools
    }

    fn problem(&self) -> Option<String> {
        let difference = || self.difference.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.problem.clone().or_else(difference)
    }
}

impl Tools for ClosedTools {
    fn offered(&self) -> &[ToolDefinition] {
        &self.tools
    }

    fn instructions(&self) -> &[ServerInstructions] {
        &self.instructions
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Result<ToolOutput, CallFailed>> {
        let (name, reason) = (call.name.to_string(), "no servers are open".to_owned());
        Box::pin(std::future::ready(Err(CallFailed { name, reason, outcome: Outcome::NotRun })))
    }
}
