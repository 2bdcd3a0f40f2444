//! The MCP server settings of a model file: the keys that the agent crate leaves to its caller.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The keys that [`read_model_servers`] reads.
pub(super) const KEYS: [&str; 5] =
    ["mcp_urls_dict", "mcp_tool_filter", "mcp_tool_description_overrides", "mcp_http_timeout", "mcp_sse_read_timeout"];

/// The MCP servers of a model, and the settings that apply to all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct ModelServers {
    /// A URL, a command line or a complete entry for each name.
    pub(super) servers: Map<String, Value>,
    /// The tools that the model may use. `None` allows all of them, an empty list allows none.
    pub(super) tool_filter: Option<Vec<String>>,
    /// Descriptions that replace those of the servers, by tool name.
    pub(super) description_overrides: BTreeMap<String, String>,
    /// Timeout of connecting to a server.
    pub(super) connect_timeout: Option<Duration>,
    /// Time without a message after which a pending call fails.
    pub(super) idle_timeout: Option<Duration>,
}

/// Reads the MCP keys of a model.
pub(super) fn read_model_servers(keys: &Map<String, Value>) -> Result<ModelServers, String> {
    Ok(ModelServers {
        servers: read_key(keys, "mcp_urls_dict")?.unwrap_or_default(),
        tool_filter: read_key(keys, "mcp_tool_filter")?,
        description_overrides: read_key(keys, "mcp_tool_description_overrides")?.unwrap_or_default(),
        connect_timeout: read_seconds(keys, "mcp_http_timeout")?,
        idle_timeout: read_seconds(keys, "mcp_sse_read_timeout")?,
    })
}

fn read_key<T: DeserializeOwned>(keys: &Map<String, Value>, key: &str) -> Result<Option<T>, String> {
    let Some(value) = keys.get(key) else { return Ok(None) };
    serde_json::from_value(value.clone()).map_err(|error| format!("invalid `{key}`: {error}"))
}

fn read_seconds(keys: &Map<String, Value>, key: &str) -> Result<Option<Duration>, String> {
    let Some(seconds) = read_key::<f64>(keys, key)? else { return Ok(None) };
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() => Ok(Some(time)),
        _ => Err(format!("invalid `{key}`: expected a number of seconds greater than 0")),
    }
}

#[cfg(test)]
mod tests {
    use wharf::agent::models::ModelConfig;

    use super::*;

    #[test]
    fn the_guide_documents_every_key_and_its_example_is_valid() {
        let guide = include_str!("../../../../../docs/running.md");
        let missing: Vec<&str> = KEYS.into_iter().filter(|key| !guide.contains(&format!("`{key}`"))).collect();
        assert!(missing.is_empty(), "docs/running.md does not document {missing:?}");
        let example = guide.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
        let model = ModelConfig::parse(example, &KEYS).unwrap().remove(0);
        let servers = read_model_servers(&model.other_keys).unwrap();
        assert_eq!((servers.servers.len(), servers.tool_filter.map(|names| names.len())), (2, Some(2)));
        assert_eq!(model.into_agent().limits().tool_calls, 10);
    }

    #[test]
    fn errors_name_the_key() {
        let error = |text: &str| read_model_servers(&serde_json::from_str(text).unwrap()).unwrap_err();
        assert_eq!(
            error(r#"{"mcp_http_timeout": 0}"#),
            "invalid `mcp_http_timeout`: expected a number of seconds greater than 0"
        );
        assert!(error(r#"{"mcp_tool_filter": "add"}"#).starts_with("invalid `mcp_tool_filter`: invalid type: string"));
    }
}
