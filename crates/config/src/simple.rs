//! Simple server maps: from a name to a URL, a command line, or a complete entry.

use serde_json::{Map, Value, json};
use wharf_protocol::ServerName;

use crate::address::{self, Family};
use crate::expand::{Variables, literal};
use crate::hidden_chars::visible;
use crate::problem::Problem;
use crate::read_server::{ReadServer, read_server};
use crate::server::Scope;

/// The servers of a map that cannot be used, with the reasons.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", list(.servers))]
pub struct InvalidServers {
    /// Names and reasons, in the order of the map.
    pub servers: Vec<(String, String)>,
}

fn list(servers: &[(String, String)]) -> String {
    let reasons: Vec<_> = servers.iter().map(|(name, reason)| format!("`{name}` {reason}")).collect();
    let noun = if servers.len() == 1 { "server" } else { "servers" };
    visible(&format!("invalid {noun}: {}", reasons.join("; ")))
}

/// Converts one server: a URL, a command line that is split at spaces, or the path of a program.
///
/// A URL means `http`, whatever its path.
pub fn convert_one(text: &str) -> Value {
    let text = text.trim();
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme.as_deref() {
        Some("http" | "https") => return json!({ "type": "http", "url": text }),
        Some("ws" | "wss") => return json!({ "type": "ws", "url": text }),
        _ => {}
    }
    match text.split_once(char::is_whitespace) {
        Some((command, args)) => json!({ "command": command, "args": args.split_whitespace().collect::<Vec<_>>() }),
        None => json!({ "command": text }),
    }
}

/// Converts all servers of a map. Complete entries stay as they are; a URL without a type means `http`.
pub fn convert(map: &Map<String, Value>) -> Map<String, Value> {
    let converted = map.iter().map(|(name, value)| {
        let entry = match value {
            Value::String(text) => convert_one(text),
            Value::Object(fields) if is_bare_url(fields) => {
                let kind = [("type".to_owned(), Value::from("http"))];
                Value::Object(kind.into_iter().chain(fields.clone()).collect())
            }
            other => other.clone(),
        };
        (name.clone(), entry)
    });
    converted.collect()
}

fn is_bare_url(fields: &Map<String, Value>) -> bool {
    fields.contains_key("url") && !fields.contains_key("type") && !fields.contains_key("command")
}

/// Checks that every entry has a URL with a type, or a command.
///
/// # Errors
/// Returns all invalid servers.
pub fn validate(map: &Map<String, Value>) -> Result<(), InvalidServers> {
    let invalid = map.iter().filter_map(|(name, entry)| {
        let reason = check(name, entry).err()?;
        Some((name.clone(), reason))
    });
    let servers: Vec<_> = invalid.collect();
    if servers.is_empty() { Ok(()) } else { Err(InvalidServers { servers }) }
}

/// Converts a map, then validates it.
///
/// # Errors
/// Returns all invalid servers.
pub fn convert_and_validate(map: &Map<String, Value>) -> Result<Map<String, Value>, InvalidServers> {
    let converted = convert(map);
    validate(&converted)?;
    Ok(converted)
}

/// Reads the servers of a map like the entries of a file, with variables and all keys.
///
/// # Errors
/// Returns all invalid servers.
pub fn read(map: &Map<String, Value>, scope: Scope, variables: &Variables) -> Result<Vec<ReadServer>, InvalidServers> {
    let mut servers = Vec::new();
    let mut invalid = Vec::new();
    // Where a string starts with a variable, only its value says whether it is a URL or a command. The value is a
    // literal from here on: a `${` in it must not name a variable that the entry does not.
    let expanded = map.iter().map(|(name, value)| match value {
        Value::String(text) if text.trim_start().starts_with("${") => {
            (name.clone(), variables.expand(text).map_or_else(|_| value.clone(), |text| literal(&text).into()))
        }
        other => (name.clone(), other.clone()),
    });
    for (name, entry) in convert(&expanded.collect()) {
        if let Err(reason) = check(&name, &entry) {
            invalid.push((name, reason));
            continue;
        }
        match read_server(&name, &entry.to_string(), scope, variables) {
            Ok(read) => servers.push(read),
            Err(problems) => {
                let reasons: Vec<String> = problems.iter().filter(|problem| problem.is_error()).map(reason).collect();
                invalid.push((name, reasons.join(", ")));
            }
        }
    }
    if invalid.is_empty() { Ok(servers) } else { Err(InvalidServers { servers: invalid }) }
}

/// Describes a problem; the text follows the name of the server.
fn reason(problem: &Problem) -> String {
    let hint = problem.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("has an invalid entry: {}: {}{hint}", problem.path, problem.message)
}

fn check(name: &str, entry: &Value) -> Result<(), String> {
    name.parse::<ServerName>().map_err(|error| format!("has an invalid name: {error}"))?;
    let Value::Object(fields) = entry else {
        return Err("is neither a string nor an object".into());
    };
    let text = |key: &str| match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(format!("has a `{key}` that is not a string")),
    };
    let kind = text("type")?;
    let url = text("url")?;
    let command = text("command")?;
    if fields.get("args").is_some_and(|args| !is_string_list(args)) {
        return Err("has `args` that are not a list of strings".into());
    }
    // Normalized like the `type` of a file's entry.
    let known = kind.map(|kind| kind.to_ascii_lowercase().replace(['-', '_'], ""));
    let written = kind.unwrap_or_default();
    match (known.as_deref(), url, command) {
        (_, Some(_), Some(_)) => Err("has both `command` and `url`".into()),
        (None | Some("stdio"), None, Some(_)) => Ok(()),
        (Some("stdio"), _, None) => Err("has the type `stdio` but no `command`".into()),
        (Some("http" | "streamablehttp" | "sse"), Some(url), None) => check_url(written, url, Family::Http),
        (Some("ws" | "websocket"), Some(url), None) => check_url(written, url, Family::WebSocket),
        (Some("http" | "streamablehttp" | "sse" | "ws" | "websocket"), None, _) => {
            Err(format!("has the type `{written}` but no URL configured"))
        }
        (Some(_), _, _) => Err(format!("has the unknown type `{written}`")),
        (None, Some(_), None) => Err("has a `url` but no `type`".into()),
        (None, None, None) => Err("has neither `url` nor `command`".into()),
    }
}

fn check_url(kind: &str, url: &str, family: Family) -> Result<(), String> {
    // The URL is complete only when its variables are expanded.
    if url.contains("${") {
        return Ok(());
    }
    address::check(url, family)
        .map_err(|invalid| format!("has the type `{kind}` and an invalid URL: {}", invalid.reason))
}

fn is_string_list(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
}
