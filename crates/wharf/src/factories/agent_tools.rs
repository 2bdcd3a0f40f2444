//! The tools of an agent: a slice of tools, and the source of an agent's turns.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use wharf_client::{CallErrorKind, ConnectErrorKind};
use wharf_config::{Pattern, Settings, ToolChoice};
use wharf_fleet::catalog::CatalogNoteKind;
use wharf_fleet::{Catalog, Dispatcher, ServerTools, Turn};
use wharf_protocol::{Json, Listed, ServerName, Tool, ToolRef, ToolSource, Tools, visible_name};

use super::LIST_TIMEOUT;
use super::client::McpClient;
use super::definition::{ArgumentProperties, Discovery, McpResource, McpToolDefinition};
use super::error::{FactoryError, ToolError};
use super::tool::{AgentTool, ToolMetadata};
use super::toolset::Toolset;

/// The tools of an agent. They are a slice of [`AgentTool`]s, and the source of tools for an
/// [`Agent`](crate::agent::Agent).
pub struct AgentTools {
    tools: Vec<AgentTool>,
    set: Arc<Toolset>,
}

/// The tools of one server, and its part of the definition.
pub(super) struct ServerToolset {
    tools: Arc<ServerTools>,
    resource: McpResource,
}

impl AgentTools {
    /// Creates the tools of these servers with the default dispatcher.
    pub(super) fn new(servers: &[ServerToolset], clients: &[McpClient]) -> Self {
        let catalog = Catalog::new(servers.iter().map(|server| Arc::clone(&server.tools)).collect(), Vec::new());
        let left_out = [CatalogNoteKind::LeftOut, CatalogNoteKind::Quarantined, CatalogNoteKind::UnknownTool];
        for note in catalog.notes().filter(|note| left_out.contains(&note.kind)) {
            tracing::warn!(%note, "a tool of the definition is not used");
        }
        let catalog = Arc::new(catalog);
        let set = Toolset::new(Some(Arc::new(Turn::new(Arc::clone(&catalog), Arc::default()))));
        let mut tools = Vec::new();
        for entry in catalog.entries() {
            let of_server = |name: &ServerName| entry.server.as_ref() == Some(name);
            let server = servers.iter().find(|server| of_server(&server.tools.server));
            let client = clients.iter().find(|client| of_server(client.name()));
            if let (Some(server), Some(client)) = (server, client) {
                let metadata = ToolMetadata::new(entry, &server.resource);
                tools.push(AgentTool::new(entry, metadata, client.clone(), Arc::clone(&set)));
            }
        }
        Self { tools, set }
    }

    /// Sets the dispatcher, with its policy, hooks and trace.
    #[must_use]
    pub fn with_dispatcher(self, dispatcher: Arc<Dispatcher>) -> Self {
        let turn = self.set.turn().map(|turn| {
            let catalog = Arc::clone(&turn.catalog);
            Arc::new(Turn::new(catalog, dispatcher))
        });
        let set = Toolset::new(turn);
        let tools = self.tools.iter().map(|tool| tool.in_set(Arc::clone(&set))).collect();
        Self { tools, set }
    }

    /// Ends the tools: later calls fail.
    pub(super) fn end(&self) {
        self.set.end();
    }
}

impl fmt::Debug for AgentTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.tools).finish()
    }
}

impl Deref for AgentTools {
    type Target = [AgentTool];

    fn deref(&self) -> &[AgentTool] {
        &self.tools
    }
}

impl<'a> IntoIterator for &'a AgentTools {
    type Item = &'a AgentTool;
    type IntoIter = std::slice::Iter<'a, AgentTool>;

    fn into_iter(self) -> Self::IntoIter {
        self.tools.iter()
    }
}

/// The tools are the same in each turn; none after their scope has ended.
impl ToolSource for AgentTools {
    fn turn(&self) -> Arc<dyn Tools> {
        match self.set.turn() {
            Some(turn) => turn,
            None => Arc::new(Turn::new(Arc::default(), Arc::default())),
        }
    }
}

/// Creates the tools of a server from where its definition says.
pub(super) async fn of_resource(resource: &McpResource, client: &McpClient) -> Result<ServerToolset, FactoryError> {
    match resource.dynamic_tools {
        Discovery::Cached => {
            let mut tools = Listed::default();
            let page: Vec<Json> = resource.available_tools.iter().map(as_json).collect();
            tools.add_page(&page);
            server_toolset(resource, client, &tools)
        }
        Discovery::All | Discovery::Curated => listed(resource, client).await,
    }
}

/// Creates the tools that a server offers now: all of them, or those that its definition names.
pub(super) async fn listed(resource: &McpResource, client: &McpClient) -> Result<ServerToolset, FactoryError> {
    let listed = client.list_tools().await.map_err(|error| match error {
        ToolError::Call(error) => match error.kind {
            CallErrorKind::Connect(ConnectErrorKind::Timeout(_)) => {
                FactoryError::Late { server: resource.name.clone(), limit: LIST_TIMEOUT }
            }
            _ => FactoryError::List(error),
        },
        other => FactoryError::Tool(Box::new(other)),
    })?;
    server_toolset(resource, client, &listed)
}

fn server_toolset(
    resource: &McpResource,
    client: &McpClient,
    tools: &Listed<Tool>,
) -> Result<ServerToolset, FactoryError> {
    let ended = |error| FactoryError::Tool(Box::new(error));
    let fleet = client.open_fleet("tools/list").map_err(ended)?;
    let settings = settings(resource, client);
    let tools = fleet.preset_tools(client.name(), settings, tools).map_err(|_| {
        let error = ToolError::Closed { server: client.name().clone(), tool: "tools/list".to_owned() };
        ended(error)
    })?;
    Ok(ServerToolset { tools, resource: resource.clone() })
}

/// Returns the settings of a server's tools: which of them are used, and the bound arguments.
fn settings(resource: &McpResource, client: &McpClient) -> Settings {
    let visible = |tool: &str| {
        let tool = ToolRef { server: client.name().clone(), tool: tool.into() };
        visible_name(&tool).to_string()
    };
    let names = resource.available_tools.iter().map(|tool| Pattern::new(&visible(&tool.name)));
    let allowed = (resource.dynamic_tools != Discovery::All).then(|| names.collect());
    let tools = ToolChoice { allowed, ..ToolChoice::default() };
    let bound = resource.available_tools.iter().map(|tool| (visible(&tool.name), bound_arguments(tool, resource)));
    let bindings: BTreeMap<_, _> = bound.filter(|(_, bound)| !bound.is_empty()).collect();
    Settings { tools, bindings, timeout: Some(client.timeout()), ..Settings::default() }
}

/// Returns the arguments that the definition decides. Those of the tool override those of its server.
fn bound_arguments(tool: &McpToolDefinition, resource: &McpResource) -> Map<String, Value> {
    let of_resource = resource.argument_properties.get(&tool.name).into_iter().flatten();
    let mut bound = Map::new();
    for (argument, properties) in of_resource.chain(&tool.argument_properties) {
        let ArgumentProperties { variant, value } = properties;
        if variant == "static" {
            bound.insert(argument_name(argument).to_owned(), value.clone());
        } else {
            tracing::warn!(tool = tool.name, argument, variant, "unsupported variant: the model decides the argument");
        }
    }
    bound
}

fn as_json(tool: &McpToolDefinition) -> Json {
    let mut fields =
        json!({"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema.clone()});
    if let Some(schema) = &tool.output_schema {
        fields["outputSchema"] = schema.clone();
    }
    fields.into()
}

/// Returns the name of an argument that may be written as a path: `$['host']`, `$.host`, `host`.
fn argument_name(path: &str) -> &str {
    let bracketed = path.strip_prefix("$['").and_then(|rest| rest.strip_suffix("']"));
    bracketed.or_else(|| path.strip_prefix("$.")).unwrap_or(path)
}
