//! The MCP servers in the definition of an agent.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Deserialize;
use serde_json::{Value, json};

use super::FactoryError;

/// The definition of an agent. Resources other than MCP servers are ignored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentDefinition {
    /// The MCP servers.
    pub resources: Vec<McpResource>,
}

/// An MCP server of an agent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpResource {
    /// The name for people.
    pub name: String,
    /// The description for people.
    #[serde(default)]
    pub description: String,
    /// The slug on the platform.
    #[serde(default)]
    pub slug: String,
    /// The folder on the platform.
    #[serde(default)]
    pub folder_path: String,
    /// The URL of a server that is not on the platform.
    #[serde(default)]
    pub server_url: Option<String>,
    /// Whether it is used; `true` if absent.
    #[serde(default)]
    pub is_enabled: Option<bool>,
    /// Its tools when the agent was defined.
    #[serde(default)]
    pub available_tools: Vec<McpToolDefinition>,
    /// Where its tools come from.
    #[serde(default)]
    pub dynamic_tools: Discovery,
    /// Bound arguments, by tool and argument.
    #[serde(default)]
    pub argument_properties: BTreeMap<String, BTreeMap<String, ArgumentProperties>>,
}

/// A tool of an MCP server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpToolDefinition {
    /// The name on the server.
    pub name: String,
    /// The description for the model.
    #[serde(default)]
    pub description: String,
    /// The schema of its arguments.
    #[serde(default = "any_object")]
    pub input_schema: Value,
    /// The schema of its structured results.
    #[serde(default)]
    pub output_schema: Option<Value>,
    /// Bound arguments, by name.
    #[serde(default)]
    pub argument_properties: BTreeMap<String, ArgumentProperties>,
}

/// A bound argument.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArgumentProperties {
    /// The kind of binding; only `static` is supported.
    pub variant: String,
    /// The value of a static argument.
    #[serde(default)]
    pub value: Value,
}

/// Where the tools of a server come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Discovery {
    /// From the definition.
    #[default]
    #[serde(alias = "none")]
    Cached,
    /// From the server: all of them.
    All,
    /// From the server: those that the definition names.
    #[serde(alias = "schema")]
    Curated,
}

fn any_object() -> Value {
    json!({"type": "object"})
}

impl McpResource {
    /// Whether the server is used.
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
        let resources = match agent.as_object_mut().ok_or_else(|| wrong("expected an object"))?.remove("resources") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(resources)) => resources,
            Some(_) => return Err(wrong("`resources` is not a list")),
        };
        let is_mcp = |resource: &Value| {
            resource.get("$resourceType").and_then(Value::as_str).is_some_and(|kind| kind.eq_ignore_ascii_case("mcp"))
        };
        let read = |resource: Value| {
            let name = resource.get("name").and_then(Value::as_str).unwrap_or("unnamed").to_owned();
            serde_json::from_value(resource)
                .map_err(|error| FactoryError::Definition(format!("the MCP server `{name}`: {error}")))
        };
        let resources = resources.into_iter().filter(is_mcp).map(read).collect::<Result<_, _>>()?;
        Ok(Self { resources })
    }
}
