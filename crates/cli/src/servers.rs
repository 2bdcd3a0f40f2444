//! The servers that are named on the command line, and what it says about the others: headers, variables, protocol.

use std::collections::BTreeMap;

use wharf::config::{OAuthSettings, RemoteConfig, StdioConfig, check_url};
use wharf::fleet::{Scope, Server, TransportConfig};
use wharf::{InvalidProtocolMode, ProtocolMode, Secret, ServerName, nearest};

use crate::args::Globals;
use crate::surroundings;

/// What is wrong with what was asked for, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misuse {
    pub(crate) what: String,
    pub(crate) hint: Option<String>,
}

/// The servers of this call only, after those there are already.
pub(crate) fn dynamic(globals: &Globals, mut servers: Vec<Server>) -> Result<Vec<Server>, Misuse> {
    for text in &globals.mcp {
        let server = parse(text)?;
        if servers.iter().any(|other| other.name == server.name) {
            return Err(misuse(format!("the server `{}` is given twice", server.name), None));
        }
        servers.push(server);
    }
    Ok(servers)
}

/// Which of the servers may have been meant.
pub(crate) fn instead_of(wanted: &str, names: &[&str]) -> String {
    match nearest(wanted, names.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None if names.is_empty() => "there are no servers at all; `wharf add` adds one".to_owned(),
        None => format!("there is: {}", names.join(", ")),
    }
}

/// What is to be spoken with whom.
pub(crate) struct Protocols {
    pub(crate) with_all: Option<ProtocolMode>,
    with_one: Vec<(String, ProtocolMode)>,
}

impl Protocols {
    pub(crate) fn read(globals: &Globals) -> Result<Self, Misuse> {
        let mut read = Self { with_all: None, with_one: Vec::new() };
        for text in &globals.protocol {
            let (name, which) = text.split_once('=').map_or((None, text.as_str()), |(name, which)| (Some(name), which));
            let protocol = which.parse().map_err(|error: InvalidProtocolMode| {
                let meant = nearest(which, ProtocolMode::NAMES);
                let hint = meant.map(|name| format!("did you mean `{name}`?"));
                misuse(format!("--protocol {text}: {error}"), hint.as_deref())
            })?;
            match name {
                None => read.with_all = Some(protocol),
                Some(name) => read.with_one.push((name.to_owned(), protocol)),
            }
        }
        Ok(read)
    }

    /// Whether all who are named are there.
    pub(crate) fn check(&self, names: &[&str]) -> Result<(), Misuse> {
        match self.with_one.iter().find(|(name, _)| !names.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, protocol)) => {
                let what = format!("--protocol {name}={protocol}: there is no server `{name}`");
                Err(misuse(what, Some(&instead_of(name, names))))
            }
        }
    }

    /// What was said about this very server, or about all.
    pub(crate) fn of(&self, name: &ServerName) -> Option<ProtocolMode> {
        let one = self.with_one.iter().rev().find(|(one, _)| one == name.as_str());
        one.map(|(_, protocol)| *protocol).or(self.with_all)
    }
}

/// The headers of the command line.
pub(crate) fn headers(globals: &Globals) -> Result<Vec<(String, Secret)>, Misuse> {
    let parse = |header: &String| match header.split_once(':') {
        Some((name, value)) => Ok((name.trim().to_owned(), Secret::new(value.trim()))),
        None => Err(misuse("a --header has no `:`".to_owned(), Some("write -H 'NAME: VALUE'"))),
    };
    globals.header.iter().map(parse).collect()
}

/// The variables that `--env` names, with our values where it gives none.
pub(crate) fn variables(globals: &Globals) -> Result<BTreeMap<String, Secret>, Misuse> {
    let one = |variable: &String| {
        let (name, value) = match variable.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (variable.as_str(), surroundings::exactly(variable).and_then(|value| value.into_string().ok())),
        };
        let value = value
            .filter(|_| !name.is_empty())
            .ok_or_else(|| misuse(format!("--env {variable} is not set here"), Some("write --env NAME=VALUE")))?;
        Ok((name.to_owned(), Secret::new(value)))
    };
    globals.env.iter().map(one).collect()
}

/// Whether the command line says itself who we are.
pub(crate) fn sends_authorization(globals: &Globals) -> bool {
    let name = |header: &String| header.split_once(':').map(|(name, _)| name.trim().to_ascii_lowercase());
    globals.header.iter().any(|header| name(header).as_deref() == Some("authorization"))
}

/// Whether what a server is sent about who we are is settled by its entry: then a sign-in would not be used.
pub(crate) fn has_own_header(reach: &TransportConfig) -> bool {
    let is_settled = |(name, _): &(String, Secret)| name.eq_ignore_ascii_case("authorization");
    remote(reach).is_some_and(|remote| remote.headers_helper.is_some() || remote.headers.iter().any(is_settled))
}

/// A server that is at an address of its own.
pub(crate) fn remote(reach: &TransportConfig) -> Option<&RemoteConfig> {
    match reach {
        TransportConfig::Http(remote) | TransportConfig::Sse(remote) | TransportConfig::WebSocket(remote) => {
            Some(remote)
        }
        TransportConfig::Stdio(_) | TransportConfig::Managed(_) | TransportConfig::Custom(..) => None,
    }
}

/// Whether something is at an address of its own, to which headers can be sent.
pub(crate) fn is_remote(reach: &TransportConfig) -> bool {
    remote(reach).is_some()
}

fn parse(text: &str) -> Result<Server, Misuse> {
    let example = Some("write --mcp NAME=URL or --mcp NAME=COMMAND, for example --mcp 'time=uvx mcp-server-time'");
    // An address has no name in it, but may have `=` in its query.
    let named = text.split_once('=').filter(|(name, _)| !name.contains("://"));
    let Some((name, reached)) = named else {
        return Err(misuse(format!("--mcp {} has no name and `=`", without_user(text)), example));
    };
    let name = name.parse::<ServerName>().map_err(|error| misuse(error.to_string(), example))?;
    if let Some(reach) = url(&name, reached)? {
        if let TransportConfig::Http(at) | TransportConfig::Sse(at) | TransportConfig::WebSocket(at) = &reach {
            // As for servers in a file: rules compare addresses, and some cannot be compared.
            check_url(&at.url).map_err(|(why, hint)| misuse(format!("invalid URL of server `{name}`: {why}"), hint))?;
        }
        return Ok(Server::new(name, Scope::Dynamic, reach));
    }
    if looks_like_an_address(reached) {
        let hint = "an address begins with http:// or https://, for example http://127.0.0.1:8000/mcp";
        return Err(misuse(format!("the server `{name}` has an address without a scheme"), Some(hint)));
    }
    let words = shlex::split(reached).filter(|words| !words.is_empty());
    let Some(words) = words else {
        let what = if reached.trim().is_empty() {
            format!("the server `{name}` has neither a URL nor a command")
        } else {
            format!("the command of the server `{name}` has a quote without its partner")
        };
        return Err(misuse(what, example));
    };
    let mut words = words.into_iter();
    let command = words.next().unwrap_or_default();
    let launch = StdioConfig { command, args: words.collect(), env: BTreeMap::new(), cwd: None };
    Ok(Server::new(name, Scope::Dynamic, TransportConfig::Stdio(launch)))
}

/// Whether a command is more likely an address with a mistake in its beginning: `localhost:8000/mcp`, `http:/host`.
pub(crate) fn looks_like_an_address(text: &str) -> bool {
    let beginning = ["http:", "https:", "http//", "https//", "ws:", "wss:", "sse+"];
    if beginning.iter().any(|scheme| text.starts_with(scheme)) {
        return true;
    }
    let Some((host, rest)) = text.split_once(':') else { return false };
    let port = rest.split('/').next().unwrap_or_default();
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    !host.is_empty() && host.bytes().all(is_host) && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// A text without the user and password an address in it may have.
fn without_user(text: &str) -> String {
    match (text.find("://"), text.rfind('@')) {
        (Some(scheme), Some(user)) if scheme < user => format!("{}://…{}", &text[..scheme], &text[user..]),
        _ => text.to_owned(),
    }
}

/// What a URL stands for; `None` if it is none. Only an address begins with a scheme, so nothing is guessed.
pub(crate) fn url(name: &ServerName, text: &str) -> Result<Option<TransportConfig>, Misuse> {
    let Some((scheme, rest)) = text.trim().split_once("://") else { return Ok(None) };
    if scheme.is_empty() || !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)) {
        return Ok(None);
    }
    let scheme = scheme.to_ascii_lowercase();
    let address = |scheme: &str| {
        let url = format!("{scheme}://{rest}");
        RemoteConfig { url, headers: Vec::new(), headers_helper: None, oauth: OAuthSettings::default() }
    };
    match scheme.as_str() {
        "http" | "https" => Ok(Some(TransportConfig::Http(address(&scheme)))),
        "sse+http" | "sse+https" => Ok(Some(TransportConfig::Sse(address(&scheme[4..])))),
        "ws" | "wss" => Ok(Some(TransportConfig::WebSocket(address(&scheme)))),
        _ => {
            let hint = "http:// and https:// are Streamable HTTP, sse+http:// and sse+https:// the older HTTP with SSE, \
                ws:// and wss:// WebSocket";
            Err(misuse(format!("the server `{name}` has a URL with the scheme `{scheme}`"), Some(hint)))
        }
    }
}

pub(crate) fn misuse(what: String, hint: Option<&str>) -> Misuse {
    Misuse { what, hint: hint.map(str::to_owned) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        match parse(text) {
            Ok(server) => format!("{}: {}", server.name, reached(&server.reach)),
            Err(misuse) => misuse.what,
        }
    }

    fn reached(reach: &TransportConfig) -> String {
        match reach {
            TransportConfig::Stdio(launch) => format!("{:?} {:?}", launch.command, launch.args),
            TransportConfig::Http(at) | TransportConfig::Sse(at) | TransportConfig::WebSocket(at) => {
                format!("{} {}", reach.transport(), at.url)
            }
            _ => unreachable!("nothing else can be written"),
        }
    }

    #[test]
    fn a_server_is_a_name_and_an_address_or_a_command_in_words() {
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
        insta::assert_snapshot!(texts.map(told).join("\n"), @r#"
        git: "npx" ["-y", "@mcp/server-github"]
        one: "/usr/bin/server" []
        quoted: "sh" ["-c", "a b; $HOME", "c d"]
        equals: "env" ["KEY=value", "server"]
        --mcp nameless has no name and `=`
        invalid server name: it is empty
        invalid server name `bad name`: contains the character U+0020; use letters, digits, `_`, `.` and `-`
        the server `empty` has neither a URL nor a command
        the command of the server `open` has a quote without its partner
        web: http https://example.com/mcp?a=b
        old: sse http://127.0.0.1:3001/sse
        socket: ws wss://example.com/ws
        the server `odd` has a URL with the scheme `ftp`
        the server `up` has a URL that has `.` or `..` as a part of its path
        the server `number` has a URL that has a host that is a number in disguise
        the server `user` has a URL that has a name or password in it
        curl: "curl" ["https://example.com"]
        the server `bare` has an address without a scheme
        the server `slash` has an address without a scheme
        --mcp http://…@127.0.0.1/mcp has no name and `=`
        --mcp http://…@127.0.0.1/mcp?a=b has no name and `=`
        "#);
    }
}
