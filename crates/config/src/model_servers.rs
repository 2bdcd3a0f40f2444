//! The MCP keys of a model file: the servers of a model, and settings that apply to all of them.
//!
//! ```yaml
//! mcp_urls_dict:
//!   search: https://search.example.com/mcp
//!   time: uvx mcp-server-time
//! mcp_tool_filter: [search, get_current_time]
//! mcp_http_timeout: 10
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Map, Value};
use wharf_protocol::ServerName;

use crate::expand::{Variables, variable_names};
use crate::pattern::{InvalidPattern, Pattern};
use crate::read_server::ReadServer;
use crate::server::Scope;
use crate::simple::{self, InvalidServers};

/// The key of the servers.
const SERVERS: &str = "mcp_urls_dict";
/// The key of the tool filter.
const TOOL_FILTER: &str = "mcp_tool_filter";
/// The key of the tool descriptions.
const DESCRIPTIONS: &str = "mcp_tool_description_overrides";
/// The key of the timeout for connecting.
const CONNECT_TIMEOUT: &str = "mcp_http_timeout";
/// The key of the timeout for a silent server.
const IDLE_TIMEOUT: &str = "mcp_sse_read_timeout";

/// The keys of a model that [`read`] reads.
pub const KEYS: [&str; 5] = [SERVERS, TOOL_FILTER, DESCRIPTIONS, CONNECT_TIMEOUT, IDLE_TIMEOUT];

/// The MCP servers of a model, and the settings that apply to all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelServers {
    /// A URL, a command line or a complete entry for each server name.
    pub servers: Map<String, Value>,
    /// The tools that the model may use. `None` allows all of them, an empty list allows none.
    pub tool_filter: Option<Vec<Pattern>>,
    /// Descriptions that replace those of the servers, by tool name.
    pub description_overrides: BTreeMap<String, String>,
    /// Timeout of connecting to a server.
    pub connect_timeout: Option<Duration>,
    /// Time without a message after which a pending call fails.
    pub idle_timeout: Option<Duration>,
}

/// An invalid MCP key of a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidModelServers {
    /// The value has the wrong type.
    #[error("invalid `{key}`: expected {expected}")]
    Type {
        /// The key in the model file.
        key: &'static str,
        /// The expected type.
        expected: &'static str,
    },
    /// A pattern of `mcp_tool_filter` is invalid.
    #[error("invalid `{TOOL_FILTER}`: {0}")]
    Pattern(#[from] InvalidPattern),
    /// Servers of `mcp_urls_dict` are invalid.
    #[error("invalid `{SERVERS}`: {0}")]
    Servers(#[from] InvalidServers),
    /// A server has a filter of its own.
    #[error("`{TOOL_FILTER}` and the tool filter of server `{0}` are mutually exclusive")]
    TwoFilters(ServerName),
}

impl InvalidModelServers {
    /// Returns the key in the model file.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Type { key, .. } => key,
            Self::Pattern(_) | Self::TwoFilters(_) => TOOL_FILTER,
            Self::Servers(_) => SERVERS,
        }
    }

    /// Returns how to fix it, if the message does not say so.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::TwoFilters(_) => Some("keep one of them"),
            Self::Pattern(_) => Some("write a tool name, a pattern with `*`, or a regular expression between slashes"),
            Self::Type { .. } | Self::Servers(_) => None,
        }
    }
}

/// Reads the MCP keys of a model. Ignores other keys; `null` counts as absent.
///
/// # Errors
/// If the value of a key is invalid. Entries of servers are checked by [`ModelServers::resolve`].
pub fn read(keys: &Map<String, Value>) -> Result<ModelServers, InvalidModelServers> {
    Ok(ModelServers {
        servers: read_servers(keys)?,
        tool_filter: read_tool_filter(keys)?,
        description_overrides: read_descriptions(keys)?,
        connect_timeout: read_seconds(keys, CONNECT_TIMEOUT)?,
        idle_timeout: read_seconds(keys, IDLE_TIMEOUT)?,
    })
}

impl ModelServers {
    /// Returns the first key that gives the model tools, for models that cannot use any.
    pub fn tool_key(keys: &Map<String, Value>) -> Option<&'static str> {
        [SERVERS, TOOL_FILTER, DESCRIPTIONS].into_iter().find(|key| value(keys, key).is_some())
    }

    /// Returns the variables of this machine that the entry of a server reads, sorted.
    pub fn variables_of(&self, name: &ServerName) -> Vec<String> {
        let mut names = BTreeSet::new();
        if let Some(entry) = self.servers.get(name.as_str()) {
            collect_variables(entry, &mut names);
        }
        names.into_iter().collect()
    }

    /// Resolves the servers, with variables expanded and the settings applied.
    ///
    /// A timeout in the entry of a server takes precedence.
    ///
    /// # Errors
    /// If an entry is invalid, or has a tool filter although the model has one.
    pub fn resolve(&self, variables: &Variables) -> Result<Vec<ReadServer>, InvalidModelServers> {
        let mut servers = simple::read(&self.servers, Scope::Dynamic, variables)?;
        for ReadServer { server, .. } in &mut servers {
            let settings = &mut server.settings;
            if let Some(filter) = &self.tool_filter {
                if settings.tools.allowed.is_some() {
                    return Err(InvalidModelServers::TwoFilters(server.name.clone()));
                }
                settings.tools.allowed = Some(filter.clone());
            }
            settings.tools.descriptions.extend(self.description_overrides.clone());
            settings.connect_timeout = settings.connect_timeout.or(self.connect_timeout);
        }
        Ok(servers)
    }
}

/// Collects the `${NAME}` references of all strings of a value.
fn collect_variables(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => names.extend(variable_names(text).map(str::to_owned)),
        Value::Array(items) => items.iter().for_each(|item| collect_variables(item, names)),
        Value::Object(fields) => fields.values().for_each(|field| collect_variables(field, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn value<'a>(keys: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    keys.get(key).filter(|value| !value.is_null())
}

fn read_servers(keys: &Map<String, Value>) -> Result<Map<String, Value>, InvalidModelServers> {
    let expected = "an object with a URL, a command line or an entry for each server name";
    match value(keys, SERVERS) {
        None => Ok(Map::new()),
        Some(Value::Object(servers)) => Ok(servers.clone()),
        Some(_) => Err(InvalidModelServers::Type { key: SERVERS, expected }),
    }
}

fn read_tool_filter(keys: &Map<String, Value>) -> Result<Option<Vec<Pattern>>, InvalidModelServers> {
    let wrong_type = || InvalidModelServers::Type { key: TOOL_FILTER, expected: "a list of tool names" };
    let Some(value) = value(keys, TOOL_FILTER) else { return Ok(None) };
    let mut patterns = Vec::new();
    for name in value.as_array().ok_or_else(wrong_type)? {
        patterns.push(Pattern::read(name.as_str().ok_or_else(wrong_type)?)?);
    }
    Ok(Some(patterns))
}

fn read_descriptions(keys: &Map<String, Value>) -> Result<BTreeMap<String, String>, InvalidModelServers> {
    let expected = "an object with a description for each tool name";
    let wrong_type = || InvalidModelServers::Type { key: DESCRIPTIONS, expected };
    let Some(value) = value(keys, DESCRIPTIONS) else { return Ok(BTreeMap::new()) };
    let mut descriptions = BTreeMap::new();
    for (tool, description) in value.as_object().ok_or_else(wrong_type)? {
        descriptions.insert(tool.clone(), description.as_str().ok_or_else(wrong_type)?.to_owned());
    }
    Ok(descriptions)
}

fn read_seconds(keys: &Map<String, Value>, key: &'static str) -> Result<Option<Duration>, InvalidModelServers> {
    let Some(value) = value(keys, key) else { return Ok(None) };
    let seconds = value.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match seconds {
        Some(seconds) if !seconds.is_zero() => Ok(Some(seconds)),
        _ => Err(InvalidModelServers::Type { key, expected: "a number of seconds greater than 0" }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::server::TransportConfig;

    fn parse(keys: &Value) -> Result<ModelServers, InvalidModelServers> {
        read(keys.as_object().unwrap())
    }

    fn error(keys: &Value) -> String {
        let invalid = parse(keys).and_then(|servers| servers.resolve(&Variables::none())).unwrap_err();
        let key = invalid.key();
        assert!(invalid.to_string().contains(&format!("`{key}`")), "{invalid}");
        match invalid.hint() {
            Some(hint) => format!("{invalid}; {hint}"),
            None => invalid.to_string(),
        }
    }

    #[test]
    fn settings_of_the_model_apply_to_all_its_servers() {
        let keys = json!({
            "mcp_urls_dict": {
                "search": "https://search.example.com/mcp",
                "time": "uvx mcp-server-time==1.0",
                "slow": {"url": "https://${HOST}/mcp", "type": "http", "connectTimeout": 60_000},
            },
            "mcp_tool_filter": ["search", "/get_.*/"],
            "mcp_tool_description_overrides": {"search": "Searches."},
            "mcp_http_timeout": 2.5,
            "mcp_sse_read_timeout": 30,
        });
        let model = parse(&keys).unwrap();
        assert_eq!(model.idle_timeout, Some(Duration::from_secs(30)));
        let variables: Variables = [("HOST", "slow.example.com")].into_iter().collect();
        let servers = model.resolve(&variables).unwrap();
        assert!(servers.iter().all(|read| read.problems.is_empty()));
        let servers: Vec<_> = servers.into_iter().map(|read| read.server).collect();
        let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["search", "time", "slow"]);
        for server in &servers {
            let allowed = server.settings.tools.allowed.as_ref().unwrap();
            assert_eq!(*allowed, [Pattern::new("search"), Pattern::read("/get_.*/").unwrap()]);
            assert_eq!(server.settings.tools.descriptions["search"], "Searches.");
        }
        let timeouts: Vec<_> = servers.iter().filter_map(|server| server.settings.connect_timeout).collect();
        assert_eq!(timeouts, [2500, 2500, 60_000].map(Duration::from_millis));
        let TransportConfig::Http(slow) = &servers[2].transport else { panic!("{:?}", servers[2]) };
        assert_eq!(slow.url, "https://slow.example.com/mcp");
    }

    #[test]
    fn entries_stay_as_written_for_a_review() {
        let keys = json!({"mcp_urls_dict": {
            "line": "sh -c ${SCRIPT}",
            "entry": {"command": "x", "args": ["${A}"], "env": {"B": "${B:-b}"}},
            "any": "${ANY} -x",
        }});
        let model = parse(&keys).unwrap();
        let variables: Variables = [("SCRIPT", "touch it"), ("A", "s3cret"), ("ANY", "run it")].into_iter().collect();
        let servers = model.resolve(&variables).unwrap();
        let written = |index: usize| serde_json::to_value(&servers[index].written).unwrap();
        assert_eq!(written(0)["args"], json!(["-c", "${SCRIPT}"]));
        assert_eq!(written(1)["args"], json!(["${A}"]));
        let TransportConfig::Stdio(line) = &servers[0].server.transport else { panic!("{:?}", servers[0]) };
        assert_eq!(line.args, ["-c", "touch it"], "a value stays one argument");
        let TransportConfig::Stdio(any) = &servers[2].server.transport else { panic!("{:?}", servers[2]) };
        assert_eq!((any.command.as_str(), &any.args[..]), ("run", &["it".to_owned(), "-x".to_owned()][..]));
        let reads = |name: &str| model.variables_of(&name.parse().unwrap());
        assert_eq!((reads("line"), reads("entry")), (vec!["SCRIPT".to_owned()], vec!["A".to_owned(), "B".to_owned()]));
        assert_eq!((reads("any"), reads("none")), (vec!["ANY".to_owned()], Vec::new()));
    }

    #[test]
    fn a_default_cannot_name_another_variable() {
        let reads_key = ["${X:-http://a.example/mcp?k=$}{KEY}", "${X:-http://a.example/mcp?k=${KEY}}"];
        for text in reads_key.into_iter().chain(["${URL}"]) {
            let model = parse(&json!({"mcp_urls_dict": {"s": text, "run": text.replace("http://a.example/", "run ")}}));
            let model = model.unwrap();
            let variables = [("KEY", "s3cret"), ("URL", "http://a.example/mcp?k=${KEY}")];
            let servers = model.resolve(&variables.into_iter().collect()).unwrap();
            let TransportConfig::Http(remote) = &servers[0].server.transport else { panic!("{:?}", servers[0]) };
            assert_eq!(remote.url, "http://a.example/mcp?k=${KEY}", "{text}");
            if let TransportConfig::Stdio(run) = &servers[1].server.transport {
                assert_eq!(run.args, ["mcp?k=${KEY}"], "{text}");
            }
            assert!(!model.variables_of(&"s".parse().unwrap()).contains(&"KEY".to_owned()), "{text}");
        }
    }

    #[test]
    fn absent_and_null_keys_mean_no_servers_and_all_tools() {
        let null: Map<String, Value> = KEYS.iter().map(|key| ((*key).to_owned(), Value::Null)).collect();
        for keys in [Map::new(), null] {
            assert_eq!(read(&keys).unwrap(), ModelServers::default());
            assert_eq!(ModelServers::tool_key(&keys), None);
        }
        assert_eq!(parse(&json!({"mcp_tool_filter": []})).unwrap().tool_filter, Some(Vec::new()));
    }

    #[test]
    fn the_first_key_that_gives_tools_is_named() {
        let tool_key = |keys: &Value| ModelServers::tool_key(keys.as_object().unwrap());
        assert_eq!(tool_key(&json!({"mcp_tool_filter": [], "mcp_urls_dict": {}})), Some("mcp_urls_dict"));
        assert_eq!(tool_key(&json!({"mcp_http_timeout": 1, "mcp_tool_filter": []})), Some("mcp_tool_filter"));
        assert_eq!(tool_key(&json!({"mcp_http_timeout": 1})), None);
    }

    #[test]
    fn errors_name_the_key() {
        let errors = [
            json!({"mcp_urls_dict": ["https://a"]}),
            json!({"mcp_urls_dict": {"a": "", "b": "https://", "c": {"url": "https://c.example", "required": 3}}}),
            json!({"mcp_tool_filter": "add"}),
            json!({"mcp_tool_filter": ["add", 5]}),
            json!({"mcp_tool_filter": ["/a(b/"]}),
            json!({"mcp_tool_filter": ["a"], "mcp_urls_dict": {"s": {"command": "true", "tools": {"allow": ["b"]}}}}),
            json!({"mcp_tool_description_overrides": {"add": 1}}),
            json!({"mcp_http_timeout": 0}),
            json!({"mcp_sse_read_timeout": "10"}),
        ];
        let errors: Vec<String> = errors.iter().map(error).collect();
        insta::assert_snapshot!(errors.join("\n"), @"
        invalid `mcp_urls_dict`: expected an object with a URL, a command line or an entry for each server name
        invalid `mcp_urls_dict`: invalid servers: `a` has neither `url` nor `command`; `b` has the type `http` and an invalid URL: no host; `c` has an invalid entry: c.required: expected true or false, found a number
        invalid `mcp_tool_filter`: expected a list of tool names
        invalid `mcp_tool_filter`: expected a list of tool names
        invalid `mcp_tool_filter`: invalid regular expression `/a(b/`: unclosed group; write a tool name, a pattern with `*`, or a regular expression between slashes
        `mcp_tool_filter` and the tool filter of server `s` are mutually exclusive; keep one of them
        invalid `mcp_tool_description_overrides`: expected an object with a description for each tool name
        invalid `mcp_http_timeout`: expected a number of seconds greater than 0
        invalid `mcp_sse_read_timeout`: expected a number of seconds greater than 0
        ");
    }
}
