//! A configured server in words, as it is written and without its secrets: what variables hold is never shown.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};
use wharf::ProtocolMode;
use wharf::config::Pattern;
use wharf::config::{ConfiguredServer, Eligibility, RawEntry, StdioConfig, looks_secret};
use wharf::fleet::{Settings, TransportConfig};

use crate::render::flat;
use crate::setup::switched_off;

/// What stands where something is not shown.
const HIDDEN: &str = "…";

/// What a server is: its command, or its address.
pub(crate) fn target(written: &RawEntry, reach: &TransportConfig) -> String {
    let written = serde_json::to_value(written).unwrap_or_default();
    let text = |key: &str| written[key].as_str();
    if let Some(command) = text("command") {
        let args = written["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
        return command_line(std::iter::once(command).chain(args));
    }
    if let Some(url) = text("url") {
        return address(url);
    }
    match reach {
        TransportConfig::Stdio(launch) => launched(launch),
        TransportConfig::Managed(manage) => launched(&manage.launch),
        TransportConfig::Http(remote) | TransportConfig::Sse(remote) | TransportConfig::WebSocket(remote) => {
            address(&remote.url)
        }
        TransportConfig::Custom(name, _) => flat(name),
    }
}

fn launched(launch: &StdioConfig) -> String {
    command_line(std::iter::once(&launch.command).chain(&launch.args).map(String::as_str))
}

/// Words as a shell would need them, in one line. What follows a name that tells of a secret, or looks like one, is left
/// out.
fn command_line<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let (mut line, mut option) = (Vec::new(), "");
    for word in words {
        let shown = if looks_secret(option.trim_start_matches('-'), word) { HIDDEN.to_owned() } else { masked(word) };
        // The mark for what is left out needs no quotes.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=:./@".contains(c);
        let needs_none = shown.contains(HIDDEN) && shown.replace(HIDDEN, "").chars().all(is_plain);
        line.push(match shlex::try_quote(&shown) {
            _ if needs_none => shown,
            Ok(quoted) => quoted.into_owned(),
            Err(_) => format!("{shown:?}"),
        });
        option = if word.starts_with('-') && !word.contains('=') { word } else { "" };
    }
    flat(&line.join(" "))
}

/// A text without the secrets in it: the name and password of an address, and what follows a `=` or `:` behind a name
/// that tells of one.
fn masked(text: &str) -> String {
    let text = without_user(text);
    for (at, _) in text.match_indices(['=', ':']) {
        let name = text[..at].rsplit(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))).next();
        let rest = text[at + 1..].trim_start_matches(['/', ' ', '"', '\'']);
        let word = rest.split_whitespace().next().unwrap_or_default();
        let name = name.unwrap_or_default();
        if looks_secret(name, rest) || looks_secret(name, word) {
            let blank = if text[at + 1..].starts_with(' ') { " " } else { "" };
            return format!("{}{blank}{HIDDEN}", &text[..=at]);
        }
    }
    let bare = |word: &str| if looks_secret("", word) { HIDDEN.to_owned() } else { word.to_owned() };
    text.split(' ').map(bare).collect::<Vec<_>>().join(" ")
}

/// A text without the names and passwords of the addresses in it.
fn without_user(text: &str) -> String {
    let mut pieces = text.split("://");
    let mut shown = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#')).unwrap_or(piece.len());
        let host = piece[..end].rfind('@');
        shown.push_str("://");
        shown.push_str(if host.is_some() { HIDDEN } else { "" });
        shown.push_str(&piece[host.unwrap_or_default()..]);
    }
    shown
}

/// An address without what its query may keep secret, and without a name and password.
pub(crate) fn address(url: &str) -> String {
    let url = without_user(url);
    let Some((place, query)) = url.split_once('?') else { return flat(&url) };
    let shown: Vec<String> = query
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some((name, value)) if looks_secret(name, value) => format!("{name}={HIDDEN}"),
            _ => pair.to_owned(),
        })
        .collect();
    flat(&format!("{place}?{}", shown.join("&")))
}

/// A variable or a header, and the variables of this machine its value comes from: none if it is written in the file.
/// The value itself is not shown.
#[derive(Serialize)]
pub(crate) struct Named {
    name: String,
    from: Vec<String>,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.from[..] {
            [] => write!(f, "{} (written in the file)", self.name),
            from => write!(f, "{} (from {})", self.name, from.join(", ")),
        }
    }
}

/// The names in an object of variables or headers.
pub(crate) fn names(found: &ConfiguredServer, key: &str) -> Vec<Named> {
    let written = serde_json::to_value(&found.written).unwrap_or_default();
    let fields = written[key].as_object().cloned().unwrap_or_default();
    let one = |(name, value): (&String, &Value)| {
        let from = sources(value.as_str().unwrap_or_default());
        Named { name: name.clone(), from }
    };
    fields.iter().map(one).collect()
}

/// What else an entry says: everything but how the server is reached.
pub(crate) fn settings(found: &ConfiguredServer) -> Map<String, Value> {
    let Settings { required, timeout, connect_timeout, protocol, tools, max_output_tokens, display_name, .. } =
        &found.server.settings;
    let milliseconds = |limit: &Option<Duration>| limit.map(|limit| json!(limit.as_millis()));
    let written = |patterns: &[Pattern]| patterns.iter().map(|pattern| json!(pattern.as_str())).collect::<Value>();
    let all = [
        ("title", display_name.as_ref().map(|name| json!(name))),
        ("required", required.then(|| json!(true))),
        ("timeout", milliseconds(timeout)),
        ("connectTimeout", milliseconds(connect_timeout)),
        ("protocol", (*protocol != ProtocolMode::Auto).then(|| json!(protocol.to_string()))),
        ("tools", tools.allowed.as_deref().map(written)),
        ("excludeTools", (!tools.rejected.is_empty()).then(|| written(&tools.rejected))),
        ("maxOutputTokens", max_output_tokens.map(|most| json!(most))),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// The variables a text names, without the defaults it may have for them.
fn sources(text: &str) -> Vec<String> {
    let names = text.split("${").skip(1).filter_map(|rest| rest.split(['}', ':']).next());
    names.map(|name| format!("${{{name}}}")).collect()
}

/// Why a server is not used, and what can be done; `None` if it is.
pub(crate) fn reason(found: &ConfiguredServer) -> Option<String> {
    let name = &found.server.name;
    Some(match &found.standing {
        Eligibility::Ready => return None,
        Eligibility::NeedsApproval(_) => format!("needs approval: wharf approve {name}"),
        Eligibility::ApprovalChanged(_) => format!("changed since it was approved: wharf approve {name}"),
        Eligibility::Disabled(by) => format!("switched off {}", switched_off(*by)),
        Eligibility::Refused(reason) => reason.clone(),
        Eligibility::Shadowed { by } => format!("the {by} scope has a server of the same name"),
        Eligibility::Duplicate { of } => format!("it is the same server as `{of}`"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_a_command_or_an_address_are_not_shown() {
        let line = |words: &str| command_line(words.split(' '));
        assert_eq!(line("npx -y server --port 80 -v"), "npx -y server --port 80 -v");
        assert_eq!(line("server --api-key 0123456789 --x"), "server --api-key … --x");
        assert_eq!(line("server --token=0123456789 a b"), "server --token=… a b");
        assert_eq!(line("server sk-0123456789abcdef01"), "server …");
        assert_eq!(line("server --token ${TOKEN}"), "server --token '${TOKEN}'");
        assert_eq!(address("https://x.test/mcp?a=b&api_key=0123456789"), "https://x.test/mcp?a=b&api_key=…");
        assert_eq!(address("https://me:s3cr3t@x.test/mcp"), "https://…@x.test/mcp");
    }

    #[test]
    fn secrets_are_found_behind_equals_signs_and_colons() {
        let line = |words: &[&str]| command_line(words.iter().copied());
        assert_eq!(line(&["docker", "-e", "API_TOKEN=0123456789", "img"]), "docker -e API_TOKEN=… img");
        assert_eq!(line(&["env", "API_TOKEN=0123456789", "server"]), "env API_TOKEN=… server");
        assert_eq!(line(&["x", "--env=API_TOKEN=0123456789"]), "x --env=API_TOKEN=…");
        assert_eq!(line(&["x", "--header", "Authorization: Bearer 0123456789"]), "x --header 'Authorization: …'");
        assert_eq!(line(&["x", "--header=X-Api-Key:0123456789"]), "x --header=X-Api-Key:…");
        assert_eq!(line(&["sh", "-c", "TOKEN=0123456789 run ${X}"]), "sh -c TOKEN=…");
        assert_eq!(line(&["x", "postgres://me:s3cr3t@db/x"]), "x postgres://…@db/x");
        assert_eq!(line(&["x", "--dsn=postgres://me:s3cr3t@db/x"]), "x --dsn=postgres://…@db/x");
        assert_eq!(line(&["x", "https://a.test/?token=0123456789&b=c"]), "x 'https://a.test/?token=…'");
        assert_eq!(line(&["x", "say sk-0123456789abcdef01"]), "x 'say …'");
        assert_eq!(line(&["uvx", "--from", "git+https://a.test/b@v1", "b"]), "uvx --from git+https://a.test/b@v1 b");
        assert_eq!(line(&["x", "a\nb\u{1b}"]), "x 'a\\nb\\u{1b}'");
    }

    #[test]
    fn a_default_of_a_variable_is_not_shown() {
        assert_eq!(sources("Bearer ${TOKEN:-s3cr3t} ${B}"), ["${TOKEN}", "${B}"]);
    }
}
