//! A configured server in words, as it is written and without its secrets: what variables hold is never shown.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};
use wharf::Protocol;
use wharf::fleet::config::{Configured, Launch, Standing, looks_secret};
use wharf::fleet::{Reach, Settings};

use crate::render::plain;
use crate::setup::switched_off;

/// What stands where something is not shown.
const HIDDEN: &str = "…";

/// What a server is: its command, or its address.
pub(crate) fn target(found: &Configured) -> String {
    let written = serde_json::to_value(&found.written).unwrap_or_default();
    let text = |key: &str| written[key].as_str();
    if let Some(command) = text("command") {
        let args = written["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
        return command_line(std::iter::once(command).chain(args));
    }
    if let Some(url) = text("url") {
        return address(url);
    }
    match &found.server.reach {
        Reach::Stdio(launch) => launched(launch),
        Reach::Managed(manage) => launched(&manage.launch),
        Reach::Http(remote) | Reach::Sse(remote) | Reach::WebSocket(remote) => address(&remote.url),
        Reach::Custom(name, _) => name.to_string(),
    }
}

fn launched(launch: &Launch) -> String {
    command_line(std::iter::once(&launch.command).chain(&launch.args).map(String::as_str))
}

/// Words as a shell would need them. What follows an option that names a secret, or looks like one, is left out.
fn command_line<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let (mut line, mut option) = (Vec::new(), String::new());
    for word in words {
        let (flag, value) = word.split_once('=').filter(|_| word.starts_with('-')).unwrap_or((&option, word));
        let hidden = looks_secret(flag.trim_start_matches('-'), value);
        let is_joined = flag.len() < word.len() && word.starts_with(flag) && !flag.is_empty();
        line.push(match (hidden, is_joined) {
            (true, true) => format!("{flag}={HIDDEN}"),
            (true, false) => HIDDEN.to_owned(),
            (false, _) => shlex::try_quote(word).map_or_else(|_| format!("{word:?}"), std::borrow::Cow::into_owned),
        });
        option = if word.starts_with('-') && !word.contains('=') { word.to_owned() } else { String::new() };
    }
    plain(&line.join(" "))
}

/// An address without what its query may keep secret.
fn address(url: &str) -> String {
    let Some((place, query)) = url.split_once('?') else { return plain(url) };
    let shown: Vec<String> = query
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some((name, value)) if looks_secret(name, value) => format!("{name}={HIDDEN}"),
            _ => pair.to_owned(),
        })
        .collect();
    plain(&format!("{place}?{}", shown.join("&")))
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
pub(crate) fn names(found: &Configured, key: &str) -> Vec<Named> {
    let written = serde_json::to_value(&found.written).unwrap_or_default();
    let fields = written[key].as_object().cloned().unwrap_or_default();
    let one = |(name, value): (&String, &Value)| {
        let from = sources(value.as_str().unwrap_or_default());
        Named { name: name.clone(), from }
    };
    fields.iter().map(one).collect()
}

/// What else an entry says: everything but how the server is reached.
pub(crate) fn settings(found: &Configured) -> Map<String, Value> {
    let Settings { required, timeout, connect_timeout, protocol, tools, max_output_tokens, display_name, .. } =
        &found.server.settings;
    let milliseconds = |limit: &Option<Duration>| limit.map(|limit| json!(limit.as_millis()));
    let several = |list: &[String]| (!list.is_empty()).then(|| json!(list));
    let all = [
        ("title", display_name.as_ref().map(|name| json!(name))),
        ("required", required.then(|| json!(true))),
        ("timeout", milliseconds(timeout)),
        ("connectTimeout", milliseconds(connect_timeout)),
        ("protocol", (*protocol != Protocol::Auto).then(|| json!(protocol.to_string()))),
        ("tools", tools.allowed.as_ref().map(|allowed| json!(allowed))),
        ("excludeTools", several(&tools.rejected)),
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
pub(crate) fn reason(found: &Configured) -> Option<String> {
    let name = &found.server.name;
    Some(match &found.standing {
        Standing::Ready => return None,
        Standing::NeedsApproval(_) => format!("needs approval: wharf approve {name}"),
        Standing::ApprovalChanged(_) => format!("changed since it was approved: wharf approve {name}"),
        Standing::Disabled(by) => format!("switched off {}", switched_off(*by)),
        Standing::Refused(reason) => reason.clone(),
        Standing::Shadowed { by } => format!("the {by} scope has a server of the same name"),
        Standing::Duplicate { of } => format!("it is the same server as `{of}`"),
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
    }

    #[test]
    fn a_default_of_a_variable_is_not_shown() {
        assert_eq!(sources("Bearer ${TOKEN:-s3cr3t} ${B}"), ["${TOKEN}", "${B}"]);
    }
}
