//! The definition of an agent, as far as it is about MCP servers.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Deserialize;
use serde_json::{Value, json};

use super::FactoryError;

/// An agent. Of its resources only those are read that are MCP servers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentDefinition {
    /// Its MCP servers.
    pub resources: Vec<McpResource>,
}

/// An MCP server of an agent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpResource {
    /// What it is called.
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// What the platform knows it by.
    #[serde(default)]
    pub slug: String,
    /// The folder of the platform that it is in.
    #[serde(default)]
    pub folder_path: String,
    /// Where it is, if not on the platform.
    #[serde(default)]
    pub server_url: Option<String>,
    /// Whether it is used; it is if this is not said.
    #[serde(default)]
    pub is_enabled: Option<bool>,
    /// Its tools, as they were when the agent was made.
    #[serde(default)]
    pub available_tools: Vec<McpToolDefinition>,
    /// Where its tools are found.
    #[serde(default)]
    pub dynamic_tools: Discovery,
    /// Arguments that are decided already: by tool, and then by argument.
    #[serde(default)]
    pub argument_properties: BTreeMap<String, BTreeMap<String, ArgumentProperties>>,
}

/// A tool of an MCP server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpToolDefinition {
    /// The name that the server gave it.
    pub name: String,
    /// What it does.
    #[serde(default)]
    pub description: String,
    /// The schema of its arguments.
    #[serde(default = "anything")]
    pub input_schema: Value,
    /// The schema of its structured results.
    #[serde(default)]
    pub output_schema: Option<Value>,
    /// Arguments that are decided already, by their names.
    #[serde(default)]
    pub argument_properties: BTreeMap<String, ArgumentProperties>,
}

/// How an argument is decided without the model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArgumentProperties {
    /// How; only `static` is.
    pub variant: String,
    /// What it always is.
    #[serde(default)]
    pub value: Value,
}

/// Where the tools of a server are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Discovery {
    /// In the definition.
    #[default]
    #[serde(alias = "none")]
    Cached,
    /// On the server: all it has.
    All,
    /// On the server: those that the definition names.
    #[serde(alias = "schema")]
    Curated,
}

fn anything() -> Value {
    json!({"type": "object"})
}

impl McpResource {
    /// Whether it is used.
    pub fn is_enabled(&self) -> bool {
        self.is_enabled != Some(false)
    }
}

impl FromStr for AgentDefinition {
    type Err = FactoryError;

    fn from_str(text: &str) -> Result<Self, FactoryError> {
        let value: Value = serde_json::from_str(text).map_err(|error| FactoryError::Definition(error.to_string()))?;
        Self::try_from(value)
    }
}

impl TryFrom<Value> for AgentDefinition {
    type Error = FactoryError;

    fn try_from(mut agent: Value) -> Result<Self, FactoryError> {
        let wrong = |reason: &str| FactoryError::Definition(reason.to_owned());
        let resources = match agent.as_object_mut().ok_or_else(|| wrong("it is no object"))?.remove("resources") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(resources)) => resources,
            Some(_) => return Err(wrong("`resources` is no list")),
        };
        let is_mcp = |resource: &Value| {
            resource.get("$resourceType").and_then(Value::as_str).is_some_and(|kind| kind.eq_ignore_ascii_case("mcp"))
        };
        let read = |resource: Value| {
            let name = resource.get("name").and_then(Value::as_str).unwrap_or("without a name").to_owned();
            serde_json::from_value(resource)
                .map_err(|error| FactoryError::Definition(format!("the MCP server `{name}`: {error}")))
        };
        let resources = resources.into_iter().filter(is_mcp).map(read).collect::<Result<_, _>>()?;
        Ok(Self { resources })
    }
}
