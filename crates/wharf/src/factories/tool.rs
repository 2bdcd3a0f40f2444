//! One tool of an agent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wharf_fleet::Entry;
use wharf_fleet::dispatch::CallFailure;
use wharf_protocol::{Json, ToolCall, ToolOutput};

use super::client::McpClient;
use super::definition::McpResource;
use super::error::ToolError;
use super::toolset::Toolset;

/// A tool of an agent: an entry of a catalog, called through a dispatcher.
#[derive(Clone)]
pub struct AgentTool {
    /// The name that the model calls, unique among the tools of an agent.
    pub name: String,
    /// The description, at most 2048 characters.
    pub description: String,
    /// The schema of the arguments that the model decides.
    pub input_schema: Json,
    /// The schema of structured results.
    pub output_schema: Option<Json>,
    /// Metadata for people and logs.
    pub metadata: ToolMetadata,
    client: McpClient,
    set: Arc<Toolset>,
}

/// Metadata of a tool, for people and logs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ToolMetadata {
    /// The kind of tool: `mcp`.
    pub tool_type: &'static str,
    /// The tool's name on its server.
    pub display_name: String,
    /// The folder of the server on the platform.
    pub folder_path: String,
    /// The server's slug on the platform.
    pub slug: String,
}

impl ToolMetadata {
    pub(super) fn new(entry: &Entry, resource: &McpResource) -> Self {
        Self {
            tool_type: "mcp",
            display_name: entry.tool.name.to_string(),
            folder_path: resource.folder_path.clone(),
            slug: resource.slug.clone(),
        }
    }
}

impl AgentTool {
    pub(super) fn new(entry: &Entry, metadata: ToolMetadata, client: McpClient, set: Arc<Toolset>) -> Self {
        Self {
            name: entry.name.to_string(),
            description: entry.description.to_string(),
            input_schema: entry.input_schema.clone(),
            output_schema: entry.tool.output_schema.clone(),
            metadata,
            client,
            set,
        }
    }

    /// Returns the tool in another set.
    pub(super) fn in_set(&self, set: Arc<Toolset>) -> Self {
        Self { set, ..self.clone() }
    }

    /// Calls the tool through the dispatcher, with bound arguments added. An error that the server returned is an output.
    pub async fn call(&self, arguments: &Json) -> Result<ToolOutput, ToolError> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let tool = || self.metadata.display_name.clone();
        let Some(turn) = self.set.turn() else {
            return Err(ToolError::Closed { server: self.client.name().clone(), tool: tool() });
        };
        let id = format!("call-{}", NEXT_ID.fetch_add(1, Ordering::Relaxed));
        let call = ToolCall { id: id.into(), name: self.name.as_str().into(), arguments: arguments.clone() };
        let (result, cause) = turn.dispatcher.call_explained(&turn.catalog, &call).await;
        match (result, cause) {
            (_, Some(CallFailure::Arguments(fault))) => Err(ToolError::Arguments { tool: tool(), fault: *fault }),
            (_, Some(CallFailure::Refused(reason))) => Err(ToolError::Refused { tool: tool(), reason }),
            (_, Some(CallFailure::CheckTimedOut)) => {
                let reason = "checking its arguments took too long".to_owned();
                Err(ToolError::Refused { tool: tool(), reason })
            }
            (Err(_), Some(CallFailure::Error(error))) => Err(ToolError::Call(error)),
            (result, _) => result.map_err(ToolError::Failed),
        }
    }

    /// The client of the tool's server.
    pub fn client(&self) -> &McpClient {
        &self.client
    }
}

impl std::fmt::Debug for AgentTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentTool").field("name", &self.name).field("metadata", &self.metadata).finish_non_exhaustive()
    }
}
