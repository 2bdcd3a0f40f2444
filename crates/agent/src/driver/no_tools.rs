//! An agent without tools.

use std::sync::Arc;

use wharf_protocol::{BoxFuture, CallFailed, ToolCall, ToolDefinition, ToolOutput, ToolSource, Tools};

/// An empty set of tools, for models without tools.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTools;

impl Tools for NoTools {
    fn offered(&self) -> &[ToolDefinition] {
        &[]
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Result<ToolOutput, CallFailed>> {
        let message = format!("Unknown tool {}.", call.name);
        Box::pin(std::future::ready(Ok(ToolOutput::error(message))))
    }
}

impl ToolSource for NoTools {
    fn turn(&self) -> Arc<dyn Tools> {
        Arc::new(Self)
    }
}
