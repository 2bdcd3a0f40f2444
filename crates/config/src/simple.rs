//! The simple map, from a name to a URL or a command line, beside entries that are already written out.

use serde_json::{Map, Value, json};
use wharf_protocol::ServerName;

use super::address::{self, Family};
use super::{Problem, Scope, Server, Variables, read_server};

/// Every server of a map that cannot be run, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", list(.servers))]
pub struct InvalidServers {
    /// Names and reasons, in the map's order.
    pub servers: Vec<(String, String)>,
}

fn list(servers: &[(String, String)]) -> String {
    let reasons: Vec<_> = servers.iter().map(|(name, reason)| format!("`{name}` {reason}")).collect();
    let noun = if servers.len() == 1 { "a server" } else { "some servers" };
    super::problem::visible(&format!("{noun} cannot be used: {}", reasons.join("; ")))
}

/// One server: a URL, a command line that is split at its blanks, or the path of a program.
///
/// A URL means `http`, whatever it ends in.
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

/// All servers of a map. What is already written out stays as it is; a URL without a type means `http`.
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

/// Whether every entry says how its server is reached: a URL with its type, or a command.
pub fn validate(map: &Map<String, Value>) -> Result<(), InvalidServers> {
    let invalid = map.iter().filter_map(|(name, entry)| {
        let reason = check(name, entry).err()?;
        Some((name.clone(), reason))
    });
    let servers: Vec<_> = invalid.collect();
    if servers.is_empty() { Ok(()) } else { Err(InvalidServers { servers }) }
}

/// Both, one after the other.
pub fn convert_and_validate(map: &Map<String, Value>) -> Result<Map<String, Value>, InvalidServers> {
    let converted = convert(map);
    validate(&converted)?;
    Ok(converted)
}

/// The servers of a map, read as the entries of a file are: with variables, and with everything they can say. What is odd
/// about them, and does not keep them from being used, comes along.
///
/// # Errors
/// If any of them cannot be used; all those are named.
pub fn read(
    map: &Map<String, Value>,
    scope: Scope,
    variables: &Variables,
) -> Result<(Vec<Server>, Vec<Problem>), InvalidServers> {
    let (mut servers, mut problems, mut invalid) = (Vec::new(), Vec::new(), Vec::new());
    // A text has to be whole before it can be told whether it is a URL or a command.
    let whole = map.iter().map(|(name, value)| match value {
        Value::String(text) => (name.clone(), variables.expand(text).map_or_else(|_| value.clone(), Value::from)),
        other => (name.clone(), other.clone()),
    });
    for (name, entry) in convert(&whole.collect()) {
        if let Err(reason) = check(&name, &entry) {
            invalid.push((name, reason));
            continue;
        }
        match read_server(&name, &entry.to_string(), scope, variables) {
            Ok(read) => {
                servers.push(read.server);
                problems.extend(read.problems);
            }
            Err(wrong) => {
                let reasons: Vec<String> = wrong.iter().filter(|problem| problem.is_error()).map(reason).collect();
                invalid.push((name, reasons.join(", ")));
            }
        }
    }
    if invalid.is_empty() { Ok((servers, problems)) } else { Err(InvalidServers { servers: invalid }) }
}

/// To follow the name of a server.
fn reason(problem: &Problem) -> String {
    let hint = problem.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("has an entry in which {}: {}{hint}", problem.path, problem.message)
}

fn check(name: &str, entry: &Value) -> Result<(), String> {
    name.parse::<ServerName>().map_err(|error| format!("has no valid name: {error}"))?;
    let Value::Object(fields) = entry else {
        return Err("is neither a text nor an object".into());
    };
    let text = |key: &str| match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(format!("has a `{key}` that is no text")),
    };
    let (kind, url, command) = (text("type")?, text("url")?, text("command")?);
    if fields.get("args").is_some_and(|args| !is_texts(args)) {
        return Err("has `args` that are no list of texts".into());
    }
    // As entries of a file are read.
    let known = kind.map(|kind| kind.to_ascii_lowercase().replace(['-', '_'], ""));
    let written = kind.unwrap_or_default();
    match (known.as_deref(), url, command) {
        (_, Some(_), Some(_)) => Err("has both `command` and `url`".into()),
        (None | Some("stdio"), None, Some(_)) => Ok(()),
        (Some("stdio"), _, None) => Err("has the type `stdio` but no `command`".into()),
        (Some("http" | "streamablehttp" | "sse"), Some(url), None) => reachable(written, url, Family::Http),
        (Some("ws" | "websocket"), Some(url), None) => reachable(written, url, Family::WebSocket),
        (Some("http" | "streamablehttp" | "sse" | "ws" | "websocket"), None, _) => {
            Err(format!("has the type `{written}` but no URL configured"))
        }
        (Some(_), _, _) => Err(format!("has the type `{written}`, which there is not")),
        (None, Some(_), None) => Err("has a `url` but no `type`".into()),
        (None, None, None) => Err("has neither `url` nor `command`".into()),
    }
}

fn reachable(kind: &str, url: &str, family: Family) -> Result<(), String> {
    // Where it leads is known when its variables are.
    if url.contains("${") {
        return Ok(());
    }
    address::check(url, family).map_err(|unusable| format!("has the type `{kind}` and a `url` that {}", unusable.why))
}

fn is_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
}
