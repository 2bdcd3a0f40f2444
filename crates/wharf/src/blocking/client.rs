//! A client that is open within a scope.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wharf_client::{CallError, Session};
use wharf_protocol::{Json, Listed, ServerName, Tool, ToolOutput, ToolResult};

use super::{BlockingError, Portal};

/// A client of one server within the scope of [`Portal::with_client`]. Clones outlive the scope, but fail after it with
/// [`BlockingError::Closed`].
#[derive(Clone)]
pub struct BlockingClient {
    portal: Portal,
    session: Session,
    is_closed: Arc<AtomicBool>,
}

/// Closes the session at the end of the scope, also after a panic.
struct Scope<'a>(&'a BlockingClient);

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        self.0.is_closed.store(true, Ordering::Release);
        // Without a runtime that can run it, the session ends when its last handle is dropped.
        let _ = self.0.portal.close(&self.0.session);
    }
}

impl Portal {
    /// Connects a session, runs `work` with its client, and closes the session.
    ///
    /// # Errors
    /// If the server cannot be connected; `work` is not called then.
    pub fn with_client<T>(
        &self,
        session: &Session,
        work: impl FnOnce(&BlockingClient) -> T,
    ) -> Result<T, BlockingError<Box<CallError>>> {
        let client = BlockingClient { portal: self.clone(), session: session.clone(), is_closed: Arc::default() };
        let scope = Scope(&client);
        let connecting = session.clone();
        let connected = self.run(async move { connecting.connect().await });
        let connected = connected.map_err(BlockingError::Portal)?;
        connected.map_err(|error| BlockingError::Failed(Box::new(error.into())))?;
        let result = work(&client);
        drop(scope);
        Ok(result)
    }
}

impl BlockingClient {
    /// Returns the server's configured name.
    pub fn name(&self) -> &ServerName {
        self.session.name()
    }

    /// Lists the tools of the server.
    pub fn list_tools(&self) -> Result<Listed<Tool>, BlockingError<Box<CallError>>> {
        self.check_open()?;
        self.portal.list_tools(&self.session)
    }

    /// Calls a tool.
    pub fn call(&self, tool: &str, arguments: &Json) -> Result<ToolOutput, BlockingError<Box<CallError>>> {
        self.check_open()?;
        let session = self.session.clone();
        let tool = tool.to_owned();
        let arguments = arguments.clone();
        let output = self.portal.run(async move { session.call(&tool, &arguments).await.map_err(Box::new) });
        output.map_err(BlockingError::Portal)?.map_err(BlockingError::Failed)
    }

    /// Calls a tool for a model. Failures become results that can be shown to it.
    pub fn use_tool(&self, tool_use_id: &str, tool: &str, arguments: &Json) -> ToolResult {
        match self.check_open() {
            Ok(()) => self.portal.use_tool(&self.session, tool_use_id, tool, arguments),
            Err(error) => ToolResult::error(tool_use_id, error.to_string()),
        }
    }

    /// A session would connect again, which nothing would close.
    fn check_open(&self) -> Result<(), BlockingError<Box<CallError>>> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(BlockingError::Closed(self.name().clone()));
        }
        Ok(())
    }
}

impl std::fmt::Debug for BlockingClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockingClient").field("name", self.name()).finish_non_exhaustive()
    }
}
