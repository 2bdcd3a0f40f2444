//! Calls the tools of one list on the session that they were listed on.

use std::sync::Arc;
use std::time::Duration;

use wharf_client::{BoxFuture, CallErrorKind, CallOptions, OnLoss, ServerInfo};
use wharf_config::Settings;
use wharf_protocol::{Json, Listed, Tool, ToolOutput};

use super::known_tools::KnownTools;
use super::server_handle::{ConnectionCommand, ServerHandle};
use crate::catalog::{ExecutionError, ServerTools, ServerToolsParts, ToolExecutor, ToolFreshness};

/// Executes the tools of one list. While that list is the latest, a call reads nothing else.
struct ListExecutor {
    server: Arc<ServerHandle>,
    known: Arc<KnownTools>,
}

/// Stores a new tool list in the server's handle and returns its catalog entries.
///
/// The handle does not store the entries: they call through it, and a cycle would keep it alive forever.
pub(super) fn set_tools(server: &Arc<ServerHandle>, info: &ServerInfo, listed: Listed<Tool>) -> ServerTools {
    let known = Arc::new(KnownTools::new(Arc::new(listed), info.epoch));
    let executor = ListExecutor { server: Arc::clone(server), known: Arc::clone(&known) };
    let settings = Arc::clone(&server.settings);
    let server_tools = entries(executor, settings, info.instructions.as_deref(), &known.tools);
    server.replace_known(Some(known));
    server_tools
}

/// Returns catalog entries for tools that the server may not have listed yet.
pub(super) fn preset_tools(server: &Arc<ServerHandle>, settings: Arc<Settings>, tools: &Listed<Tool>) -> ServerTools {
    let known = Arc::new(KnownTools::unlisted());
    entries(ListExecutor { server: Arc::clone(server), known }, settings, None, tools)
}

fn entries(
    executor: ListExecutor,
    settings: Arc<Settings>,
    instructions: Option<&str>,
    tools: &Listed<Tool>,
) -> ServerTools {
    let executor = Arc::new(executor);
    let server = Arc::clone(&executor.server.server);
    ServerTools::new(ServerToolsParts {
        server: server.name.clone(),
        scope: server.scope,
        transport: server.transport.kind(),
        settings,
        instructions,
        tools,
        hints: &executor.server.hints,
        executor: Arc::clone(&executor) as Arc<dyn ToolExecutor>,
    })
}

impl ListExecutor {
    /// The epoch of the session to call a tool on.
    fn epoch_of(&self, tool: &Arc<Tool>) -> Result<u64, ExecutionError> {
        // The list may have failed since the tool was compared, for example while the user was asked.
        if self.server.invalidation.has_failed() {
            return Err(ExecutionError::ToolChanged);
        }
        if self.known.is_latest() {
            return self.known.epoch_of(tool);
        }
        match &*self.server.known.load() {
            Some(known) => known.epoch_of(tool),
            None => Err(self.server.unavailable().into()),
        }
    }
}

impl ToolExecutor for ListExecutor {
    fn cached_freshness(&self, tool: &Arc<Tool>) -> Option<ToolFreshness> {
        let invalidation = &self.server.invalidation;
        let is_valid = |known: &KnownTools| {
            !invalidation.is_invalid() && !invalidation.has_failed() && !invalidation.is_lost(known.epoch)
        };
        // Read without counting references, here and in `call`: every call of every task passes here.
        if self.known.is_latest() {
            return is_valid(&self.known).then(|| self.known.compare(tool));
        }
        match &*self.server.known.load() {
            Some(known) if is_valid(known) => Some(known.compare(tool)),
            _ => None,
        }
    }

    fn freshness<'a>(&'a self, tool: &'a Arc<Tool>) -> BoxFuture<'a, ToolFreshness> {
        Box::pin(self.server.freshness(tool))
    }

    fn default_timeout(&self) -> Option<Duration> {
        self.server.total_timeout
    }

    fn call<'a>(
        &'a self,
        tool: &'a Arc<Tool>,
        arguments: &'a Json,
        mut options: CallOptions<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ExecutionError>> {
        Box::pin(async move {
            let epoch = self.epoch_of(tool)?;
            options.on_loss = OnLoss::Report;
            options.epoch = Some(epoch);
            let server = &self.server;
            let error = match server.session.call_with(&tool.name, arguments, options).await {
                Ok(output) => return Ok(output),
                Err(error) => error,
            };
            let is_lost = match &error.kind {
                // The tools of the next session may differ.
                CallErrorKind::SessionLost { .. } | CallErrorKind::SessionReplaced => {
                    server.invalidation.session_lost(epoch);
                    true
                }
                // Nothing else may notice that a remote server is gone.
                CallErrorKind::Connect(_) | CallErrorKind::Lost(_) => {
                    server.invalidation.invalidate();
                    true
                }
                _ => false,
            };
            if is_lost {
                // A full queue holds such a command already.
                let _ = server.commands.try_send(ConnectionCommand::Check);
            }
            Err(error.into())
        })
    }
}
