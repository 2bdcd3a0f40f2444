//! The servers that are named on the command line.

use std::sync::Arc;
use std::time::Duration;

use wharf::{
    Deadlines, Environment, GroupWatcher, Http, HttpSse, InvalidRemote, Memory, NoHost, Protocol, RemoteOptions,
    ServerName, Session, SessionOptions, Stdio, Transport, UnknownProtocol, WebSocket,
};

use crate::args::Globals;
use crate::guard::Guard;
use crate::network;
use crate::places;
use crate::suggest::nearest;

/// What is wrong with what was asked for, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misuse {
    pub(crate) what: String,
    pub(crate) hint: Option<String>,
}

/// A server as it was written: a name, and how it is reached.
#[derive(Debug, PartialEq, Eq)]
struct Written {
    name: ServerName,
    reach: Reach,
}

#[derive(Debug, PartialEq, Eq)]
enum Reach {
    /// A command, split into words as a shell would, and never run by one.
    Command(Vec<String>),
    Http(String),
    Sse(String),
    WebSocket(String),
}

/// The sessions with all servers of the command line, or with the one that is wanted. None is started yet.
pub(crate) fn sessions(globals: &Globals, wanted: Option<&str>) -> Result<Vec<Session>, Misuse> {
    let mut servers: Vec<Written> = Vec::new();
    for text in &globals.mcp {
        let server = parse(text)?;
        if servers.iter().any(|other| other.name == server.name) {
            return Err(misuse(format!("the server `{}` is given twice", server.name), None));
        }
        servers.push(server);
    }
    if servers.is_empty() {
        let hint = "name one: --mcp 'time=uvx mcp-server-time'";
        return Err(misuse("there are no servers".to_owned(), Some(hint)));
    }
    let protocols = Protocols::read(globals)?;
    protocols.check(&servers)?;
    if let Some(wanted) = wanted {
        if !servers.iter().any(|server| server.name.as_str() == wanted) {
            return Err(misuse(format!("there is no server `{wanted}`"), Some(&instead_of(wanted, &servers))));
        }
        servers.retain(|server| server.name.as_str() == wanted);
    }
    let headers = headers(globals, &servers)?;
    let options = options(globals)?;
    let environment = environment(globals)?;
    let guard: Arc<dyn GroupWatcher> = Guard::start();
    let mut sessions = Vec::new();
    for Written { name, reach } in servers {
        let remote = |url: &str| {
            let http = network::settings(options.deadlines.connect, url)?;
            Ok::<_, Misuse>(RemoteOptions { http, headers: headers.clone(), helper: None })
        };
        let invalid = |error: InvalidRemote| misuse(format!("{name}: {error}"), None);
        let transport: Arc<dyn Transport> = match &reach {
            Reach::Command(words) => {
                let (command, args) =
                    words.split_first().map_or(("", &[][..]), |(command, args)| (command.as_str(), args));
                let stdio = Stdio::new(command, args, environment.clone()).watched_by(Arc::clone(&guard));
                // Said, so that what is remembered of a relative command is remembered of it here.
                Arc::new(match std::env::current_dir() {
                    Ok(here) => stdio.in_directory(here),
                    Err(_) => stdio,
                })
            }
            Reach::Http(url) => Arc::new(Http::new(url, remote(url)?).map_err(invalid)?),
            Reach::Sse(url) => Arc::new(HttpSse::new(url, remote(url)?).map_err(invalid)?),
            Reach::WebSocket(url) => Arc::new(WebSocket::new(url, remote(url)?).map_err(invalid)?),
        };
        let options = SessionOptions { protocol: protocols.of(&name), ..options.clone() };
        sessions.push(Session::with_shared(name, transport, Arc::new(NoHost), options));
    }
    Ok(sessions)
}

/// Which server may have been meant.
fn instead_of(wanted: &str, servers: &[Written]) -> String {
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    let meant = nearest(wanted, names.iter().copied()).map(|name| format!("did you mean `{name}`?"));
    meant.unwrap_or_else(|| format!("there is: {}", names.join(", ")))
}

/// What is to be spoken with whom.
struct Protocols {
    with_all: Protocol,
    with_one: Vec<(String, Protocol)>,
}

impl Protocols {
    fn read(globals: &Globals) -> Result<Self, Misuse> {
        let mut read = Self { with_all: Protocol::default(), with_one: Vec::new() };
        for text in &globals.protocol {
            let (name, which) = text.split_once('=').map_or((None, text.as_str()), |(name, which)| (Some(name), which));
            let protocol = which.parse().map_err(|error: UnknownProtocol| {
                let meant = nearest(which, Protocol::NAMES);
                let hint = meant.map(|name| format!("did you mean `{name}`?"));
                misuse(format!("--protocol {text}: {error}"), hint.as_deref())
            })?;
            match name {
                None => read.with_all = protocol,
                Some(name) => read.with_one.push((name.to_owned(), protocol)),
            }
        }
        Ok(read)
    }

    /// Whether all who are named are there.
    fn check(&self, servers: &[Written]) -> Result<(), Misuse> {
        let unknown = |(name, _): &&(String, Protocol)| !servers.iter().any(|server| server.name.as_str() == name);
        match self.with_one.iter().find(unknown) {
            None => Ok(()),
            Some((name, protocol)) => {
                let what = format!("--protocol {name}={protocol}: there is no server `{name}`");
                Err(misuse(what, Some(&instead_of(name, servers))))
            }
        }
    }

    fn of(&self, name: &ServerName) -> Protocol {
        let one = self.with_one.iter().rev().find(|(one, _)| one == name.as_str());
        one.map_or(self.with_all, |(_, protocol)| *protocol)
    }
}

/// The headers of the command line. They may be secret, so they go to one server only, and it is clear to which.
fn headers(globals: &Globals, servers: &[Written]) -> Result<Vec<(String, String)>, Misuse> {
    let remote = servers.iter().filter(|server| !matches!(server.reach, Reach::Command(_))).count();
    if !globals.header.is_empty() && remote != 1 {
        let what = format!("--header is for one server at a URL, and there are {remote}");
        return Err(misuse(what, Some("name one server with --mcp NAME=URL, or call them one after the other")));
    }
    let parse = |header: &String| match header.split_once(':') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
        None => Err(misuse("a --header has no `:`".to_owned(), Some("write -H 'NAME: VALUE'"))),
    };
    globals.header.iter().map(parse).collect()
}

/// The options that hold for every session of this program.
pub(crate) fn options(globals: &Globals) -> Result<SessionOptions, Misuse> {
    let seconds = |flag: &str, value: f64| {
        let limit = Duration::try_from_secs_f64(value).ok().filter(|limit| !limit.is_zero());
        let hint = format!("give it in seconds, for example {flag} 120");
        limit.ok_or_else(|| misuse(format!("{flag} {value:?} is no time to wait"), Some(&hint)))
    };
    let (total, connect) =
        (seconds("--timeout", globals.timeout)?, seconds("--connect-timeout", globals.connect_timeout)?);
    let deadlines = Deadlines { total: Some(total), connect, ..Deadlines::default() };
    let protocol = Protocols::read(globals)?.with_all;
    let memory = Arc::new(places::memory().map_or_else(Memory::default, Memory::kept_in));
    let client_version = env!("CARGO_PKG_VERSION").to_owned();
    Ok(SessionOptions { deadlines, client_version, memory, protocol, ..SessionOptions::default() })
}

/// What the servers may see of our environment: the usual, and what `--env` names.
#[expect(clippy::disallowed_methods, reason = "the cli is where the environment is read")]
pub(crate) fn environment(globals: &Globals) -> Result<Environment, Misuse> {
    globals.env.iter().try_fold(Environment::allowed_from(std::env::vars_os()), |environment, variable| {
        let (name, value) = match variable.split_once('=') {
            Some((name, value)) => (name, Some(value.into())),
            None => (variable.as_str(), std::env::var_os(variable)),
        };
        let value = value
            .filter(|_| !name.is_empty())
            .ok_or_else(|| misuse(format!("--env {variable} is not set here"), Some("write --env NAME=VALUE")))?;
        Ok(environment.with(name, value))
    })
}

fn parse(text: &str) -> Result<Written, Misuse> {
    let example = Some("write --mcp NAME=URL or --mcp NAME=COMMAND, for example --mcp 'time=uvx mcp-server-time'");
    // An address has no name in it, but may have `=` in its query.
    let named = text.split_once('=').filter(|(name, _)| !name.contains("://"));
    let Some((name, reached)) = named else {
        return Err(misuse(format!("--mcp {} has no name and `=`", without_user(text)), example));
    };
    let name = name.parse::<ServerName>().map_err(|error| misuse(error.to_string(), example))?;
    if let Some(reach) = url(&name, reached)? {
        return Ok(Written { name, reach });
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
    Ok(Written { name, reach: Reach::Command(words) })
}

/// Whether a command is more likely an address with a mistake in its beginning: `localhost:8000/mcp`, `http:/host`.
fn looks_like_an_address(text: &str) -> bool {
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
fn url(name: &ServerName, text: &str) -> Result<Option<Reach>, Misuse> {
    let Some((scheme, rest)) = text.trim().split_once("://") else { return Ok(None) };
    if scheme.is_empty() || !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)) {
        return Ok(None);
    }
    let scheme = scheme.to_ascii_lowercase();
    let address = |scheme: &str| format!("{scheme}://{rest}");
    match scheme.as_str() {
        "http" | "https" => Ok(Some(Reach::Http(address(&scheme)))),
        "sse+http" | "sse+https" => Ok(Some(Reach::Sse(address(&scheme[4..])))),
        "ws" | "wss" => Ok(Some(Reach::WebSocket(address(&scheme)))),
        _ => {
            let hint = "http:// and https:// are Streamable HTTP, sse+http:// and sse+https:// the older HTTP with SSE, \
                ws:// and wss:// WebSocket";
            Err(misuse(format!("the server `{name}` has a URL with the scheme `{scheme}`"), Some(hint)))
        }
    }
}

fn misuse(what: String, hint: Option<&str>) -> Misuse {
    Misuse { what, hint: hint.map(str::to_owned) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        match parse(text) {
            Ok(Written { name, reach }) => format!("{name}: {reach:?}"),
            Err(misuse) => misuse.what,
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
            "curl=curl https://example.com",
            "bare=localhost:8000/mcp",
            "slash=http:/user:secret@127.0.0.1/mcp",
            "http://user:secret@127.0.0.1/mcp",
            "http://user:secret@127.0.0.1/mcp?a=b",
        ];
        insta::assert_snapshot!(texts.map(told).join("\n"), @r#"
        git: Command(["npx", "-y", "@mcp/server-github"])
        one: Command(["/usr/bin/server"])
        quoted: Command(["sh", "-c", "a b; $HOME", "c d"])
        equals: Command(["env", "KEY=value", "server"])
        --mcp nameless has no name and `=`
        a server name cannot be empty
        the server name `bad name` has the character U+0020 in it; use letters, digits, `_`, `.` and `-`
        the server `empty` has neither a URL nor a command
        the command of the server `open` has a quote without its partner
        web: Http("https://example.com/mcp?a=b")
        old: Sse("http://127.0.0.1:3001/sse")
        socket: WebSocket("wss://example.com/ws")
        the server `odd` has a URL with the scheme `ftp`
        curl: Command(["curl", "https://example.com"])
        the server `bare` has an address without a scheme
        the server `slash` has an address without a scheme
        --mcp http://…@127.0.0.1/mcp has no name and `=`
        --mcp http://…@127.0.0.1/mcp?a=b has no name and `=`
        "#);
    }
}
