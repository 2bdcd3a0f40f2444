//! How a server is reached: a command, a URL, or a command that is then reached at a URL.

mod launch;
mod oauth;
mod remote;

use serde_json::Value;

use super::super::address::Family;
use super::super::problem::Severity;
use super::super::server::TransportConfig;
use super::super::text::At;
use super::super::written::RawEntry;
use super::Reading;
use wharf_protocol::nearest;

/// The transports, as entries call them.
const TYPES: [&str; 4] = ["stdio", "http", "sse", "ws"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stdio,
    Http,
    Sse,
    WebSocket,
}

/// Something is wrong, and the person will be told.
struct Reported;

/// How a server is reached, and that in the words of its entry.
pub(super) fn read(reading: &mut Reading<'_>) -> Option<(TransportConfig, RawEntry)> {
    let wanted = kind(reading).ok()?;
    let address = address(reading);
    let command = reading.at.field("command");
    let manage = reading.at.field("manage");
    let (kind, reach) = match (command, address, manage) {
        (Some(command), Some((url, _)), _) => {
            reading.error(&url, "stands beside `command`", "keep one of them");
            let _ = launch::read(reading, &command);
            return None;
        }
        (None, Some((url, _)), Some(manage)) => {
            let hint = "give the `command` to start, or leave `manage` out";
            reading.error(&manage, "stands beside a URL, but only what is started here can be managed", hint);
            let _ = remote::read(reading, &url, Family::Http);
            return None;
        }
        (Some(command), None, Some(manage)) => {
            belongs_to_url(reading, &["headersHelper"]);
            passed_over(reading);
            if !matches!(wanted, None | Some(Kind::Http)) {
                contradiction(reading, "a server that is managed is reached by `http`");
            }
            (Kind::Http, TransportConfig::Managed(launch::managed(reading, &command, &manage)?))
        }
        (Some(command), None, None) => {
            belongs_to_url(reading, &["headers", "headersHelper"]);
            passed_over(reading);
            if !matches!(wanted, None | Some(Kind::Stdio)) {
                let hint = "leave it out, or add `manage` if the command starts a server that listens";
                contradiction(reading, hint);
            }
            (Kind::Stdio, TransportConfig::Stdio(launch::read(reading, &command)?))
        }
        (None, Some((url, implied)), None) => {
            belongs_to_command(reading);
            let kind = match (wanted, implied) {
                (Some(Kind::Stdio), _) => {
                    contradiction(reading, "set it to `http`, or leave it out");
                    Kind::Http
                }
                (Some(kind), _) => kind,
                // What the address ends in says nothing: servers of the newer kind are found at `/sse` as well.
                (None, implied) => implied,
            };
            (kind, over_network(reading, &url, kind)?)
        }
        (None, None, _) => {
            nowhere(reading, wanted);
            return None;
        }
    };
    Some((reach, written(reading, kind)))
}

/// What `type` says, if it says anything. Fails after reporting what it says that means nothing.
fn kind(reading: &mut Reading<'_>) -> Result<Option<Kind>, Reported> {
    let Some(at) = ["type", "transportType", "transport"].iter().find_map(|key| reading.at.field(key)) else {
        return Ok(None);
    };
    let word = reading.text(&at).ok_or(Reported)?;
    match word.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
        "stdio" => Ok(Some(Kind::Stdio)),
        "http" | "streamablehttp" => Ok(Some(Kind::Http)),
        "sse" => Ok(Some(Kind::Sse)),
        "ws" | "websocket" => Ok(Some(Kind::WebSocket)),
        "sdk" => {
            let hint = "such a server is added in code; give `command` or `url` here";
            reading.error(&at, "`sdk` is a server in the host's own process", hint);
            Err(Reported)
        }
        _ => {
            let problem = at.error(format!("`{word}` is no transport; there are stdio, http, sse and ws"));
            reading.problems.push(match nearest(word, TYPES) {
                Some(known) => problem.with_hint(format!("did you mean `{known}`?")),
                None => problem,
            });
            Err(Reported)
        }
    }
}

/// The URL, and the transport that its key implies. Other hosts have keys of their own for it.
fn address<'a>(reading: &mut Reading<'a>) -> Option<(At<'a>, Kind)> {
    let mut found = ["url", "httpUrl", "serverUrl"].iter().filter_map(|key| reading.at.field(key));
    let (first, second) = (found.next(), found.next());
    if let (Some(first), Some(second)) = (&first, second) {
        let other = first.path.rsplit('.').next().unwrap_or_default();
        reading.error(&second, format!("stands beside `{other}`"), "keep one of them");
    }
    let first = first?;
    let is_socket = first.text().is_some_and(|url| url.starts_with("ws://") || url.starts_with("wss://"));
    Some((first, if is_socket { Kind::WebSocket } else { Kind::Http }))
}

fn over_network<'a>(reading: &mut Reading<'a>, url: &At<'a>, kind: Kind) -> Option<TransportConfig> {
    let family = if kind == Kind::WebSocket { Family::WebSocket } else { Family::Http };
    let remote = remote::read(reading, url, family)?;
    Some(match kind {
        Kind::Sse => TransportConfig::Sse(remote),
        Kind::WebSocket => TransportConfig::WebSocket(remote),
        Kind::Http | Kind::Stdio => TransportConfig::Http(remote),
    })
}

/// The `type` does not fit the rest.
fn contradiction(reading: &mut Reading<'_>, hint: &str) {
    let Some(at) = ["type", "transportType", "transport"].iter().find_map(|key| reading.at.field(key)) else { return };
    let word = at.text().unwrap_or_default();
    let other = if reading.at.field("command").is_some() { "`command`" } else { "a URL" };
    reading.error(&at, format!("is `{word}`, but the entry has {other}"), hint);
}

fn nowhere(reading: &mut Reading<'_>, wanted: Option<Kind>) {
    // A slip of the finger in the one key that matters is the reason, and not what follows from it.
    let slips = ["command", "url"].map(|key| Some(format!("did you mean `{key}`?")));
    if let Some(slip) = reading.problems.iter_mut().find(|problem| slips.contains(&problem.hint)) {
        slip.severity = Severity::Error;
        return;
    }
    let at = reading.at.clone();
    if let Some(args) = at.field("args") {
        reading.error(&args, "stands there without `command`", "add the `command`");
        return;
    }
    match wanted {
        Some(Kind::Stdio) => reading.error(&at, "the server has no command configured", "add `command`"),
        Some(_) => reading.error(&at, "the server has no URL configured", "add `url`"),
        None => reading.error(&at, "says neither what to start nor where to connect", "add `command` or `url`"),
    }
}

/// Keys that mean nothing beside a command. One that is empty is only left over.
fn belongs_to_url(reading: &mut Reading<'_>, keys: &[&str]) {
    let entry = reading.at.clone();
    for at in keys.iter().filter_map(|key| entry.field(key)) {
        if at.fields().next().is_some() || !at.is_object() {
            reading.error(&at, "means nothing beside `command`: there is nothing to send it to", "remove it");
        }
    }
}

/// Other hosts write it beside a command as well, where it harms nobody.
fn passed_over(reading: &mut Reading<'_>) {
    if let Some(at) = reading.at.field("oauth") {
        reading.problems.push(at.note("is passed over: one signs in to servers at a URL"));
    }
}

/// Keys that mean nothing beside a URL.
fn belongs_to_command(reading: &mut Reading<'_>) {
    if let Some(at) = reading.at.field("args").filter(|at| at.items().next().is_some() || !at.is_list()) {
        reading.error(&at, "stands there without `command`", "remove it");
    }
    for key in ["env", "cwd"] {
        if let Some(at) = reading.at.field(key).filter(|at| at.fields().next().is_some() || !at.is_object()) {
            let warning = at.warning("means nothing beside a URL: there is no process to give it to");
            reading.problems.push(warning.with_hint("remove it"));
        }
    }
}

/// What a person approves: all that says what is run, what it can read, and what its tools are allowed.
fn written(reading: &Reading<'_>, kind: Kind) -> RawEntry {
    const KEYS: [&str; 11] = [
        "command",
        "args",
        "env",
        "cwd",
        "headers",
        "headersHelper",
        "oauth",
        "bindings",
        "tools",
        "includeTools",
        "excludeTools",
    ];
    let empty = |value: &Value| match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    // An empty list of tools means none, but an empty list of arguments means nothing.
    let kept = |(key, value): &(String, Value)| key.ends_with("ools") || !empty(value);
    let as_written = |key: &str| reading.at.field(key).map(|at| (key.to_owned(), at.node.to_value()));
    let url = ["url", "httpUrl", "serverUrl"].iter().find_map(|key| reading.at.field(key));
    let kind = match kind {
        Kind::Stdio => "stdio",
        Kind::Http => "http",
        Kind::Sse => "sse",
        Kind::WebSocket => "ws",
    };
    let fields = KEYS.iter().filter_map(|key| as_written(key)).filter(kept);
    let more = [Some(("type".to_owned(), Value::from(kind))), url.map(|at| ("url".to_owned(), at.node.to_value()))];
    RawEntry::new(fields.chain(more.into_iter().flatten()).chain(as_written("manage")))
}
