//! Servers and their settings from the command line: `--mcp`, `--header`, `--env` and `--protocol`.

use std::collections::BTreeMap;

use wharf::config::{OAuthSettings, RemoteConfig, StdioConfig, check_url};
use wharf::fleet::{Scope, Server, TransportConfig};
use wharf::{InvalidProtocolMode, ProtocolMode, Secret, ServerName};

use crate::env;
use crate::error::{UsageError, usage_error};
use crate::globals::Globals;
use wharf::nearest;

/// Returns the given servers and those of `--mcp`.
pub(super) fn dynamic(globals: &Globals, mut servers: Vec<Server>) -> Result<Vec<Server>, UsageError> {
    for text in &globals.mcp {
        let server = parse(text)?;
        if servers.iter().any(|other| other.name == server.name) {
            return Err(usage_error(format!("duplicate server `{}`", server.name), None));
        }
        servers.push(server);
    }
    Ok(servers)
}

/// Returns a hint for an unknown server.
pub(super) fn did_you_mean(wanted: &str, names: &[&str]) -> String {
    match nearest(wanted, names.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None if names.is_empty() => "no servers configured; add one with `wharf add`".to_owned(),
        None => format!("available: {}", names.join(", ")),
    }
}

/// The protocol modes of `--protocol`.
pub(crate) struct Protocols {
    pub(super) with_all: Option<ProtocolMode>,
    with_one: Vec<(String, ProtocolMode)>,
}

impl Protocols {
    pub(crate) fn read(globals: &Globals) -> Result<Self, UsageError> {
        let mut read = Self { with_all: None, with_one: Vec::new() };
        for text in &globals.protocol {
            let (name, which) = text.split_once('=').map_or((None, text.as_str()), |(name, which)| (Some(name), which));
            let protocol = which.parse().map_err(|error: InvalidProtocolMode| {
                let meant = nearest(which, ProtocolMode::NAMES);
                let hint = meant.map(|name| format!("did you mean `{name}`?"));
                usage_error(format!("--protocol {text}: {error}"), hint.as_deref())
            })?;
            match name {
                None => read.with_all = Some(protocol),
                Some(name) => read.with_one.push((name.to_owned(), protocol)),
            }
        }
        Ok(read)
    }

    /// Checks that every named server exists.
    pub(super) fn check(&self, names: &[&str]) -> Result<(), UsageError> {
        match self.with_one.iter().find(|(name, _)| !names.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, protocol)) => {
                let what = format!("--protocol {name}={protocol}: unknown server `{name}`");
                Err(usage_error(what, Some(&did_you_mean(name, names))))
            }
        }
    }

    /// Returns the mode for a server: its own, or the one for all.
    pub(crate) fn of(&self, name: &ServerName) -> Option<ProtocolMode> {
        let one = self.with_one.iter().rev().find(|(one, _)| one == name.as_str());
        one.map(|(_, protocol)| *protocol).or(self.with_all)
    }
}

/// Returns the headers of `--header`.
pub(crate) fn headers(globals: &Globals) -> Result<Vec<(String, Secret)>, UsageError> {
    let parse = |header: &String| match header.split_once(':') {
        Some((name, value)) => Ok((name.trim().to_owned(), Secret::new(value.trim()))),
        None => Err(usage_error("invalid --header: expected `NAME: VALUE`".to_owned(), Some("write -H 'NAME: VALUE'"))),
    };
    globals.header.iter().map(parse).collect()
}

/// Returns the variables of `--env`, with the current value where it gives none.
pub(crate) fn variables(globals: &Globals) -> Result<BTreeMap<String, Secret>, UsageError> {
    let one = |variable: &String| {
        let (name, value) = match variable.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (variable.as_str(), env::exactly(variable).and_then(|value| value.into_string().ok())),
        };
        match value {
            Some(value) if !name.is_empty() => Ok((name.to_owned(), Secret::new(value))),
            _ => {
                let message = format!("--env {variable}: the variable is not set");
                Err(usage_error(message, Some("write --env NAME=VALUE")))
            }
        }
    };
    globals.env.iter().map(one).collect()
}

/// Whether a server's entry sets `Authorization` itself, so that a sign-in would not be used.
pub(crate) fn has_authorization(transport: &TransportConfig) -> bool {
    let is_settled = |(name, _): &(String, Secret)| name.eq_ignore_ascii_case("authorization");
    remote(transport).is_some_and(|remote| remote.headers_helper.is_some() || remote.headers.iter().any(is_settled))
}

/// Returns the settings of a remote server; `None` for others.
pub(crate) fn remote(transport: &TransportConfig) -> Option<&RemoteConfig> {
    match transport {
        TransportConfig::Http(remote) | TransportConfig::Sse(remote) | TransportConfig::WebSocket(remote) => {
            Some(remote)
        }
        TransportConfig::Stdio(_) | TransportConfig::Managed(_) | TransportConfig::Custom(..) => None,
    }
}

pub(crate) fn is_remote(transport: &TransportConfig) -> bool {
    remote(transport).is_some()
}

/// Returns the settings of a remote server, or an error for a server that needs no sign-in.
pub(super) fn remote_of(name: &str, transport: &TransportConfig) -> Result<RemoteConfig, UsageError> {
    remote(transport).cloned().ok_or_else(|| {
        let message = format!("server `{name}` is not remote: only remote servers have a sign-in");
        usage_error(message, Some("pass credentials to a command with `env` in its entry"))
    })
}

fn parse(text: &str) -> Result<Server, UsageError> {
    let example = Some("write --mcp NAME=URL or --mcp NAME=COMMAND, for example --mcp 'time=uvx mcp-server-time'");
    // A URL without a name may have `=` in its query.
    let named = text.split_once('=').filter(|(name, _)| !name.contains("://"));
    let Some((name, reached)) = named else {
        return Err(usage_error(format!("--mcp {}: no name before `=`", without_user(text)), example));
    };
    let name = name.parse::<ServerName>().map_err(|error| usage_error(error.to_string(), example))?;
    if let Some(transport) = url(&name, reached)? {
        if let TransportConfig::Http(at) | TransportConfig::Sse(at) | TransportConfig::WebSocket(at) = &transport {
            // As for servers in a file: rules compare URLs, and some URLs cannot be compared.
            check_url(&at.url)
                .map_err(|(why, hint)| usage_error(format!("server `{name}` has an invalid URL: {why}"), hint))?;
        }
        return Ok(Server::new(name, Scope::Dynamic, transport));
    }
    if looks_like_url(reached) {
        let hint = "a URL begins with http:// or https://, for example http://127.0.0.1:8000/mcp";
        return Err(usage_error(format!("server `{name}` has a URL without a scheme"), Some(hint)));
    }
    let words = shlex::split(reached).filter(|words| !words.is_empty());
    let Some(words) = words else {
        let what = if reached.trim().is_empty() {
            format!("server `{name}` has neither a URL nor a command")
        } else {
            format!("server `{name}` has an unclosed quote in its command")
        };
        return Err(usage_error(what, example));
    };
    let mut words = words.into_iter();
    let command = words.next().unwrap_or_default();
    let stdio = StdioConfig { command, args: words.collect(), env: BTreeMap::new(), cwd: None };
    Ok(Server::new(name, Scope::Dynamic, TransportConfig::Stdio(stdio)))
}

/// Whether a command is more likely a URL with a mistake in its scheme: `localhost:8000/mcp`, `http:/host`.
pub(crate) fn looks_like_url(text: &str) -> bool {
    let beginning = ["http:", "https:", "http//", "https//", "ws:", "wss:", "sse+"];
    if beginning.iter().any(|scheme| text.starts_with(scheme)) {
        return true;
    }
    let Some((host, rest)) = text.split_once(':') else { return false };
    let port = rest.split('/').next().unwrap_or_default();
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    !host.is_empty() && host.bytes().all(is_host) && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Removes the user and password of a URL.
fn without_user(text: &str) -> String {
    match (text.find("://"), text.rfind('@')) {
        (Some(scheme), Some(user)) if scheme < user => format!("{}://…{}", &text[..scheme], &text[user..]),
        _ => text.to_owned(),
    }
}

/// Returns the transport of a URL; `None` if the text has no scheme.
pub(crate) fn url(name: &ServerName, text: &str) -> Result<Option<TransportConfig>, UsageError> {
    let Some((scheme, rest)) = text.trim().split_once("://") else { return Ok(None) };
    if scheme.is_empty() || !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)) {
        return Ok(None);
    }
    let scheme = scheme.to_ascii_lowercase();
    let remote = |scheme: &str| {
        let url = format!("{scheme}://{rest}");
        RemoteConfig { url, headers: Vec::new(), headers_helper: None, oauth: OAuthSettings::default() }
    };
    match scheme.as_str() {
        "http" | "https" => Ok(Some(TransportConfig::Http(remote(&scheme)))),
        "sse+http" | "sse+https" => Ok(Some(TransportConfig::Sse(remote(&scheme[4..])))),
        "ws" | "wss" => Ok(Some(TransportConfig::WebSocket(remote(&scheme)))),
        _ => {
            let hint = "use http:// or https:// for Streamable HTTP, sse+http:// or sse+https:// for HTTP with SSE, ws:// or \
                wss:// for WebSocket";
            Err(usage_error(format!("server `{name}` has a URL with the unsupported scheme `{scheme}`"), Some(hint)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> String {
        match parse(text) {
            Ok(server) => format!("{}: {}", server.name, reached(&server.transport)),
            Err(error) => error.message,
        }
    }

    fn reached(transport: &TransportConfig) -> String {
        match transport {
            TransportConfig::Stdio(launch) => format!("{:?} {:?}", launch.command, launch.args),
            TransportConfig::Http(at) | TransportConfig::Sse(at) | TransportConfig::WebSocket(at) => {
                format!("{} {}", transport.kind(), at.url)
            }
            _ => unreachable!("nothing else can be written"),
        }
    }

    #[test]
    fn a_server_is_a_name_and_a_url_or_a_command_line() {
        let texts = [
            "git=npx -y @mcp/server-github",
            "one=/usr/bin/server",
            "quoted=sh -c 'a b; $HOME' \"c d\"",
            "equals=env KEY=value server",
            "nameless",
            "=cmd",
            "bad name=cmd",
            "empty=",
            "open=sh 'x",
            "web=https://example.com/mcp?a=b",
            "old=sse+http://127.0.0.1:3001/sse",
            "socket=WSS://example.com/ws",
            "odd=ftp://example.com",
            "up=https://example.com/ok/../secret",
            "number=http://2130706433/mcp",
            "user=http://user:secret@127.0.0.1/mcp",
            "curl=curl https://example.com",
            "bare=localhost:8000/mcp",
            "slash=http:/user:secret@127.0.0.1/mcp",
            "http://user:secret@127.0.0.1/mcp",
            "http://user:secret@127.0.0.1/mcp?a=b",
        ];
        insta::assert_snapshot!(texts.map(parsed).join("\n"), @r#"
        git: "npx" ["-y", "@mcp/server-github"]
        one: "/usr/bin/server" []
        quoted: "sh" ["-c", "a b; $HOME", "c d"]
        equals: "env" ["KEY=value", "server"]
        --mcp nameless: no name before `=`
        invalid server name: it is empty
        invalid server name `bad name`: contains the character U+0020; use letters, digits, `_`, `.` and `-`
        server `empty` has neither a URL nor a command
        server `open` has an unclosed quote in its command
        web: http https://example.com/mcp?a=b
        old: sse http://127.0.0.1:3001/sse
        socket: ws wss://example.com/ws
        server `odd` has a URL with the unsupported scheme `ftp`
        server `up` has an invalid URL: `.` or `..` in the path
        server `number` has an invalid URL: ambiguous numeric host
        server `user` has an invalid URL: contains a user name or password
        curl: "curl" ["https://example.com"]
        server `bare` has a URL without a scheme
        server `slash` has a URL without a scheme
        --mcp http://…@127.0.0.1/mcp: no name before `=`
        --mcp http://…@127.0.0.1/mcp?a=b: no name before `=`
        "#);
    }
}
