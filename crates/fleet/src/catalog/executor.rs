//! The interface between the dispatcher and whatever executes a tool: a server's session, or code of the host.

use std::sync::Arc;
use std::time::Duration;

use wharf_client::{BoxFuture, CallError, CallOptions};
use wharf_protocol::{Json, Tool, ToolOutput};

/// Executes tools. The dispatcher knows nothing else about them.
pub trait ToolExecutor: Send + Sync {
    /// Whether a tool is still as the catalog describes it, if that is known without waiting.
    fn cached_freshness(&self, tool: &Arc<Tool>) -> Option<ToolFreshness>;

    /// Whether a tool is still as the catalog describes it. Waits for the server's list if necessary.
    fn freshness<'a>(&'a self, tool: &'a Arc<Tool>) -> BoxFuture<'a, ToolFreshness>;

    /// The total timeout of calls that have none of their own.
    fn default_timeout(&self) -> Option<Duration> {
        None
    }

    /// Calls a tool by its own name, with arguments that have been checked. Makes one attempt: the dispatcher retries.
    fn call<'a>(
        &'a self,
        tool: &'a Arc<Tool>,
        arguments: &'a Json,
        options: CallOptions<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ExecutionError>>;
}

/// The state of a tool on its server, compared with the catalog.
#[derive(Clone, Debug)]
pub enum ToolFreshness {
    /// The definition is the same.
    Same,
    /// The definition has changed to this one.
    Changed(Arc<Tool>),
    /// The server no longer offers the tool.
    Gone,
    /// The server is not connected, so its list cannot be checked.
    Unknown,
    /// The server's tools may have changed, and the new list failed or did not arrive in time.
    Unlisted,
}

/// Why an executor returned no output.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ExecutionError {
    /// The tool is no longer the one that the caller passed; nothing was sent.
    #[error("the tool has changed on its server; the call did not run")]
    ToolChanged,
    /// The call failed.
    #[error(transparent)]
    Call(Box<CallError>),
}

impl From<CallError> for ExecutionError {
    fn from(error: CallError) -> Self {
        Self::Call(Box::new(error))
    }
}
