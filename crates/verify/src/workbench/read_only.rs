//! The tools of an investigation: those of the trial that only read. A judge looks and changes nothing.

use std::sync::Arc;
use std::time::Duration;

use wharf_protocol::{
    BoxFuture, CallFailed, ServerInstructions, ToolCall, ToolDefinition, ToolOutput, ToolSource, Tools,
};

/// The tools of a source that only read.
pub(crate) struct ReadOnlyTools(pub(crate) Arc<dyn ToolSource>);

/// The tools of one turn that only read.
struct ReadOnlyTurn {
    turn: Arc<dyn Tools>,
    offered: Vec<ToolDefinition>,
}

impl ToolSource for ReadOnlyTools {
    fn turn(&self) -> Arc<dyn Tools> {
        let turn = self.0.turn();
        let offered = turn.offered().iter().filter(|tool| tool.hints.read_only == Some(true)).cloned().collect();
        Arc::new(ReadOnlyTurn { turn, offered })
    }
}

impl Tools for ReadOnlyTurn {
    fn offered(&self) -> &[ToolDefinition] {
        &self.offered
    }

    fn instructions(&self) -> &[ServerInstructions] {
        self.turn.instructions()
    }

    fn time_asked(&self) -> Duration {
        self.turn.time_asked()
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Result<ToolOutput, CallFailed>> {
        if self.offered.iter().any(|tool| tool.name == call.name) {
            return self.turn.call(call);
        }
        // The model reads it and goes on.
        let message = format!("Unknown tool {}.", call.name);
        Box::pin(std::future::ready(Ok(ToolOutput::error(message))))
    }
}
