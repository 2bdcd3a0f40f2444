//! Descriptions of configured servers, without their secrets: values of variables are never shown.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};
use wharf::ProtocolMode;
use wharf::config::Pattern;
use wharf::config::{ConfiguredServer, DisabledBy, Eligibility, RawEntry, StdioConfig, looks_secret};
use wharf::fleet::{Settings, TransportConfig};

use crate::env::variable;
use crate::term;

/// Replaces a secret.
const HIDDEN: &str = "…";
/// How the names of variables end that contain a directory.
const DIRECTORIES: [&str; 5] = ["DIR", "HOME", "PWD", "ROOT", "FOLDER"];

/// Returns a server's command line or URL.
pub(crate) fn target(written: &RawEntry, transport: &TransportConfig) -> String {
    if let Some(target) = written_targets(written).into_iter().next() {
        return target.text;
    }
    match transport {
        TransportConfig::Stdio(stdio) => stdio_command(stdio),
        TransportConfig::Managed(managed) => stdio_command(&managed.launch),
        TransportConfig::Http(remote) | TransportConfig::Sse(remote) | TransportConfig::WebSocket(remote) => {
            display_url(&remote.url)
        }
        TransportConfig::Custom(name, _) => term::name(name),
    }
}

/// What an entry starts or connects to.
pub(crate) struct WrittenTarget {
    /// The key of the entry.
    pub(crate) key: &'static str,
    /// The command line or the URL, without secrets.
    pub(crate) text: String,
}

/// Returns the command line and the URL of an entry, as far as they are texts. An invalid entry may have both, and a list
/// as its command.
pub(crate) fn written_targets(written: &RawEntry) -> Vec<WrittenTarget> {
    let written = serde_json::to_value(written).unwrap_or_default();
    let words = |key: &str| written[key].as_array().into_iter().flatten().filter_map(Value::as_str);
    let command: Vec<&str> = written["command"].as_str().into_iter().chain(words("command")).collect();
    let mut targets = Vec::new();
    if !command.is_empty() {
        let text = command_line(command.into_iter().chain(words("args")));
        targets.push(WrittenTarget { key: "command", text });
    }
    if let Some(url) = written["url"].as_str() {
        targets.push(WrittenTarget { key: "url", text: display_url(url) });
    }
    targets
}

fn stdio_command(stdio: &StdioConfig) -> String {
    command_line(std::iter::once(&stdio.command).chain(&stdio.args).map(String::as_str))
}

/// Returns the command line with its variables replaced; `None` if it has none, or if a value may be a secret.
pub(crate) fn resolved_command(found: &ConfiguredServer) -> Option<String> {
    let TransportConfig::Stdio(stdio) = &found.server.transport else { return None };
    let written = serde_json::to_value(&found.written).unwrap_or_default();
    let words = written["args"].as_array().into_iter().flatten().chain([&written["command"]]);
    let names: Vec<String> = words.filter_map(Value::as_str).flat_map(referenced_variables).collect();
    let is_harmless = |reference: &String| {
        let name = reference.trim_matches(['$', '{', '}']);
        DIRECTORIES.iter().any(|end| name.ends_with(end)) || variable(&[name]).is_none()
    };
    (!names.is_empty() && names.iter().all(is_harmless)).then(|| stdio_command(stdio))
}

/// Quotes the words of a command as a shell needs them, and hides secrets.
fn command_line<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut line = Vec::new();
    let mut option = "";
    for word in words {
        let shown = if looks_secret(option.trim_start_matches('-'), word) { HIDDEN.to_owned() } else { masked(word) };
        // The mark for a hidden secret needs no quotes.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=:./@".contains(c);
        let needs_none = shown.contains(HIDDEN) && shown.replace(HIDDEN, "").chars().all(is_plain);
        line.push(match shlex::try_quote(&shown) {
            _ if needs_none => shown,
            Ok(quoted) => quoted.into_owned(),
            Err(_) => format!("{shown:?}"),
        });
        option = if word.starts_with('-') && !word.contains('=') { word } else { "" };
    }
    term::name(&line.join(" "))
}

/// Hides the user and password of a URL, and values that follow a secret's name and `=` or `:`.
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

/// Hides the user and password of every URL in a text.
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

/// Hides the user, the password and secrets in the query of a URL.
fn display_url(url: &str) -> String {
    let url = without_user(url);
    let Some((place, query)) = url.split_once('?') else { return term::name(&url) };
    let shown: Vec<String> = query
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some((name, value)) if looks_secret(name, value) => format!("{name}={HIDDEN}"),
            _ => pair.to_owned(),
        })
        .collect();
    term::name(&format!("{place}?{}", shown.join("&")))
}

/// A variable or a header, and the environment variables its value refers to. The value itself is never shown.
#[derive(Serialize)]
pub(crate) struct SettingSource {
    name: String,
    from: Vec<String>,
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.from[..] {
            [] => write!(f, "{} (literal value)", self.name),
            from => write!(f, "{} (from {})", self.name, from.join(", ")),
        }
    }
}

/// Returns the variables or headers of a server's entry.
pub(crate) fn setting_sources(found: &ConfiguredServer, key: &str) -> Vec<SettingSource> {
    let written = serde_json::to_value(&found.written).unwrap_or_default();
    let fields = written[key].as_object().cloned().unwrap_or_default();
    let one = |(name, value): (&String, &Value)| SettingSource {
        name: name.clone(),
        from: referenced_variables(value.as_str().unwrap_or_default()),
    };
    fields.iter().map(one).collect()
}

/// Returns the settings of an entry except its transport.
pub(crate) fn settings(found: &ConfiguredServer) -> Map<String, Value> {
    let Settings {
        required,
        timeout,
        connect_timeout,
        protocol,
        tools,
        max_output_tokens,
        max_tool_bytes,
        instructions,
        display_name,
        ..
    } = &found.server.settings;
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
        ("maxToolBytes", max_tool_bytes.map(|most| json!(most))),
        ("instructions", (!instructions).then(|| json!(false))),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// Returns the `${VAR}` references of a text, without their defaults.
fn referenced_variables(text: &str) -> Vec<String> {
    let names = text.split("${").skip(1).filter_map(|rest| rest.split(['}', ':']).next());
    names.map(|name| format!("${{{name}}}")).collect()
}

/// Returns why a server is not used; `None` if it is.
pub(crate) fn reason(found: &ConfiguredServer) -> Option<String> {
    let name = &found.server.name;
    Some(match &found.eligibility {
        Eligibility::Ready => return None,
        Eligibility::NeedsApproval(_) => format!("needs approval: wharf approve {name}"),
        Eligibility::ApprovalChanged(_) => format!("changed since approval: wharf approve {name}"),
        Eligibility::Disabled(by) => format!("disabled {}", disabled_by(*by)),
        Eligibility::Refused(reason) => reason.clone(),
        Eligibility::Shadowed { by } => format!("shadowed by the {by} scope"),
        Eligibility::Duplicate { of } => format!("duplicate of `{of}`"),
    })
}

/// Describes where a server is disabled.
pub(crate) fn disabled_by(by: DisabledBy) -> String {
    match by {
        DisabledBy::Entry => "in its entry".to_owned(),
        DisabledBy::List(scope) => format!("in `disabledServers` of the {scope} scope"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_a_command_or_a_url_are_hidden() {
        let line = |words: &str| command_line(words.split(' '));
        assert_eq!(line("npx -y server --port 80 -v"), "npx -y server --port 80 -v");
        assert_eq!(line("server --api-key 0123456789 --x"), "server --api-key … --x");
        assert_eq!(line("server --token=0123456789 a b"), "server --token=… a b");
        assert_eq!(line("server sk-0123456789abcdef01"), "server …");
        assert_eq!(line("server --token ${TOKEN}"), "server --token '${TOKEN}'");
        assert_eq!(display_url("https://x.test/mcp?a=b&api_key=0123456789"), "https://x.test/mcp?a=b&api_key=…");
        assert_eq!(display_url("https://me:s3cr3t@x.test/mcp"), "https://…@x.test/mcp");
    }

    #[test]
    fn secrets_after_equals_signs_and_colons_are_hidden() {
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
    fn an_invalid_entry_shows_its_command_and_its_url_without_secrets() {
        let targets = |entry: Value| {
            let entry: RawEntry = serde_json::from_value(entry).unwrap();
            written_targets(&entry).into_iter().map(|target| (target.key, target.text)).collect::<Vec<_>>()
        };
        let entry =
            json!({"command": ["npx", "-y", "x"], "args": ["--token", "0123456789", 7], "url": "https://me:pw@a.test"});
        let expected = [("command", "npx -y x --token …".to_owned()), ("url", "https://…@a.test".to_owned())];
        assert_eq!(targets(entry), expected);
        assert_eq!(targets(json!({"command": 7, "url": [], "args": ["x"]})), []);
    }

    #[test]
    fn the_default_of_a_variable_is_hidden() {
        assert_eq!(referenced_variables("Bearer ${TOKEN:-s3cr3t} ${B}"), ["${TOKEN}", "${B}"]);
    }
}
