//! One tool as an agent has it: a name the model can say, a schema, and a way to call it.

use std::collections::HashMap;

use serde_json::{Map, Value};
use wharf_client::CallError;
use wharf_protocol::{Json, ServerName, ToolOutput};

use super::definition::{ArgumentProperties, Discovery, McpResource, McpToolDefinition};
use super::names::sanitised;
use super::{FactoryError, McpClient};

/// A tool of an agent.
#[derive(Clone, Debug)]
pub struct AgentTool {
    /// What the model calls it. No two tools that were made together share one.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The schema of the arguments that the model decides.
    pub input_schema: Json,
    /// The schema of its structured results.
    pub output_schema: Option<Json>,
    /// What it is beside that.
    pub metadata: ToolMetadata,
    /// Arguments that are decided already.
    bound: Map<String, Value>,
    client: McpClient,
}

/// What a tool is, for people and for logs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ToolMetadata {
    /// The kind of tool: `mcp`.
    pub tool_type: &'static str,
    /// The name that the server gave it.
    pub display_name: String,
    /// The folder that the server is in.
    pub folder_path: String,
    /// What the platform knows the server by.
    pub slug: String,
}

/// Why a tool has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The scope that its session lived in has ended: call tools before that, or make them anew.
    #[error(
        "`{tool}` of {server} was called after its session had ended; call it while the `LiveTools` it came from are \
         there, or make the tools anew with `create_mcp_tools`"
    )]
    Ended {
        /// The server.
        server: ServerName,
        /// The tool.
        tool: String,
    },
    /// The arguments are no object; nothing was sent.
    #[error("the arguments of `{0}` are no object")]
    Arguments(String),
    /// The call failed.
    #[error(transparent)]
    Call(Box<CallError>),
}

impl AgentTool {
    /// Calls the tool by the name that its server gave it, with what was decided already added to the arguments.
    pub async fn call(&self, arguments: &Json) -> Result<ToolOutput, ToolError> {
        let name = &self.metadata.display_name;
        if self.bound.is_empty() {
            return self.client.call_tool(name, arguments).await;
        }
        let Ok(Value::Object(mut all)) = arguments.to_value() else { return Err(ToolError::Arguments(name.clone())) };
        all.extend(self.bound.clone());
        self.client.call_tool(name, &Value::Object(all).into()).await
    }

    /// The client that it is called through.
    pub fn client(&self) -> &McpClient {
        &self.client
    }
}

/// The tools of a server, from where its definition says they are.
pub(super) async fn of(config: &McpResource, client: &McpClient) -> Result<Vec<AgentTool>, FactoryError> {
    match config.dynamic_tools {
        Discovery::Cached => Ok(config.available_tools.iter().map(|tool| made(tool, config, client)).collect()),
        Discovery::All | Discovery::Curated => listed(config, client).await,
    }
}

/// The tools that a server has now: all of them, or those that its definition names.
pub(super) async fn listed(config: &McpResource, client: &McpClient) -> Result<Vec<AgentTool>, FactoryError> {
    let listed = client.list_tools().await.map_err(|error| match error {
        ToolError::Call(error) => FactoryError::List(error),
        other => FactoryError::Definition(other.to_string()),
    })?;
    let known: HashMap<&str, &McpToolDefinition> =
        config.available_tools.iter().map(|tool| (tool.name.as_str(), tool)).collect();
    let mut tools = Vec::new();
    for tool in &listed.items {
        let defined = known.get(&*tool.name);
        if defined.is_none() && config.dynamic_tools != Discovery::All {
            continue;
        }
        let definition = McpToolDefinition {
            name: tool.name.to_string(),
            description: tool.description_or_default(),
            input_schema: tool.input_schema.to_value().unwrap_or(Value::Bool(true)),
            output_schema: tool.output_schema.as_ref().and_then(|schema| schema.to_value().ok()),
            argument_properties: defined.map(|tool| tool.argument_properties.clone()).unwrap_or_default(),
        };
        tools.push(made(&definition, config, client));
    }
    for missing in known.keys().filter(|name| !listed.items.iter().any(|tool| *tool.name == ***name)) {
        tracing::warn!(server = %client.name(), tool = missing, "a tool of the definition is not on the server");
    }
    Ok(tools)
}

fn made(tool: &McpToolDefinition, config: &McpResource, client: &McpClient) -> AgentTool {
    let of_resource = config.argument_properties.get(&tool.name).into_iter().flatten();
    let mut bound = Map::new();
    // What the tool itself says comes last, and wins.
    for (argument, properties) in of_resource.chain(&tool.argument_properties) {
        let ArgumentProperties { variant, value } = properties;
        if variant == "static" {
            bound.insert(argument_name(argument).to_owned(), value.clone());
        } else {
            tracing::warn!(tool = tool.name, argument, variant, "an argument is left to the model");
        }
    }
    let mut schema = tool.input_schema.clone();
    hide(&mut schema, &bound);
    AgentTool {
        name: sanitised(&tool.name),
        description: tool.description.clone(),
        input_schema: schema.into(),
        output_schema: tool.output_schema.clone().map(Json::from),
        metadata: ToolMetadata {
            tool_type: "mcp",
            display_name: tool.name.clone(),
            folder_path: config.folder_path.clone(),
            slug: config.slug.clone(),
        },
        bound,
        client: client.clone(),
    }
}

/// The name of an argument that may be written as a path: `$['host']`, `$.host`, `host`.
fn argument_name(path: &str) -> &str {
    let bracketed = path.strip_prefix("$['").and_then(|rest| rest.strip_suffix("']"));
    bracketed.or_else(|| path.strip_prefix("$.")).unwrap_or(path)
}

/// Takes arguments that are decided already out of a schema: the model has no say in them.
fn hide(schema: &mut Value, bound: &Map<String, Value>) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.retain(|name, _| !bound.contains_key(name));
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !name.as_str().is_some_and(|name| bound.contains_key(name)));
    }
}
