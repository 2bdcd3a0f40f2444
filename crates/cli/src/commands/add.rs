//! `wharf add` and `wharf add-json`: a server into a file.

use std::io::Read as _;

use clap::Parser as _;
use serde_json::{Map, Value, json};
use wharf::ServerName;
use wharf::config::{Problem, Severity};
use wharf::fleet::{Scope, Server, TransportConfig};

use crate::args::{Add, AddJson, AfterUrl, Globals, Kind};
use crate::exit::Exit;
use crate::program::{self, Program};
use crate::servers::{self, Misuse, Protocols, looks_like_an_address, misuse};
use crate::setup::Setup;
use crate::writing::{self, Trouble};
use crate::{render, surroundings};

/// The longest entry that is read; a file with a longer one could not be read again.
const LONGEST_ENTRY: u64 = 1 << 20;

pub(crate) async fn run(globals: &Globals, add: Add) -> Exit {
    let (globals, add) = match with_late_options(globals.clone(), add) {
        Ok(both) => both,
        Err(misuse) => return Trouble::from(misuse).tell(),
    };
    let scope = add.scope.into();
    let prepared = add.name.parse::<ServerName>().map_err(Trouble::from).and_then(|name| {
        let entry = Value::Object(entry(&name, &add, &globals)?);
        Ok((name, entry))
    });
    match prepared {
        Ok((name, entry)) => put(&globals, (&name, &entry), scope, add.force).await,
        Err(trouble) => trouble.tell(),
    }
}

pub(crate) async fn run_json(globals: &Globals, add: AddJson) -> Exit {
    let prepared = async {
        let name = add.name.parse::<ServerName>()?;
        let text = if add.entry == "-" { from_stdin()? } else { add.entry.clone() };
        let example = r#"it is one object, for example '{"command": "uvx", "args": ["mcp-server-time"]}'"#;
        let entry: Value = serde_json::from_str(&text)
            .map_err(|error| misuse(format!("the entry is not JSON: {error}"), Some(example)))?;
        if entry.get("mcpServers").is_some() {
            let hint = "give what stands behind the server's name in it";
            return Err(misuse("this is a whole file and not the entry of a server".to_owned(), Some(hint)).into());
        }
        Ok::<_, Trouble>((name, entry))
    };
    match prepared.await {
        Ok((name, entry)) => put(globals, (&name, &entry), add.scope.into(), add.force).await,
        Err(trouble) => trouble.tell(),
    }
}

fn from_stdin() -> Result<String, Misuse> {
    let mut text = String::new();
    let read = std::io::stdin().take(LONGEST_ENTRY + 1).read_to_string(&mut text);
    read.map_err(|error| misuse(format!("stdin cannot be read: {error}"), None))?;
    if text.len() as u64 > LONGEST_ENTRY {
        return Err(misuse(format!("the entry is longer than {LONGEST_ENTRY} bytes"), None));
    }
    Ok(text)
}

async fn put(globals: &Globals, (name, entry): (&ServerName, &Value), scope: Scope, force: bool) -> Exit {
    let put = || {
        let setup = Setup::read(globals)?;
        let read = writing::check(&setup, name.as_str(), &entry.to_string(), scope)?;
        let (file, replaced) = writing::write(&setup.places, scope, (name, entry), force)?;
        let wanted = |problem: &&Problem| match problem.severity {
            Severity::Note => globals.verbose,
            _ => !globals.quiet,
        };
        read.problems.iter().filter(wanted).for_each(render::problem);
        if !globals.quiet {
            warn_if_absent(&read.server);
        }
        writing::outcome(globals, &read, file, replaced)
    };
    match put() {
        Ok(outcome) => {
            outcome.tell(globals);
            if globals.json { render::json(&outcome).await } else { Exit::Done }
        }
        Err(trouble) => trouble.tell(),
    }
}

/// A URL has no arguments, so what follows it is meant for us.
fn with_late_options(mut globals: Globals, mut add: Add) -> Result<(Globals, Add), Misuse> {
    if add.target.len() < 2 || !add.target[0].contains("://") {
        return Ok((globals, add));
    }
    let rest = add.target.split_off(1);
    let late = AfterUrl::try_parse_from(&rest).map_err(|_| {
        let what = format!("what follows the URL makes no sense: {}", rest[0]);
        misuse(what, Some("-s, -t, -f, -e and -H may stand there; a URL has no arguments"))
    })?;
    add.scope = late.scope.unwrap_or(add.scope);
    add.transport = late.transport.or(add.transport);
    add.force |= late.force;
    globals.header.extend(late.globals.header);
    globals.env.extend(late.globals.env);
    globals.protocol.extend(late.globals.protocol);
    globals.timeout = late.globals.timeout.or(globals.timeout);
    globals.connect_timeout = late.globals.connect_timeout.or(globals.connect_timeout);
    globals.project = late.globals.project.or(globals.project);
    globals.config_root = late.globals.config_root.or(globals.config_root);
    globals.profile = late.globals.profile.or(globals.profile);
    globals.json |= late.globals.json;
    globals.quiet |= late.globals.quiet;
    globals.verbose |= late.globals.verbose;
    Ok((globals, add))
}

/// The entry, as it is written into the file.
fn entry(name: &ServerName, add: &Add, globals: &Globals) -> Result<Map<String, Value>, Misuse> {
    let mut entry = match remote(name, add)? {
        Some((kind, url)) => {
            if !globals.env.is_empty() {
                let hint = Some("a server at a URL gets headers: -H 'NAME: VALUE'");
                return Err(misuse("-e is for servers that are commands".to_owned(), hint));
            }
            let mut entry = Map::from_iter([("type".to_owned(), json!(kind)), ("url".to_owned(), json!(url))]);
            let headers = servers::headers(globals)?;
            if !headers.is_empty() {
                let pair = |(name, value): (String, wharf::Secret)| (name, json!(value.expose()));
                entry.insert("headers".to_owned(), Value::Object(headers.into_iter().map(pair).collect()));
            }
            entry
        }
        None => command(add, globals)?,
    };
    let milliseconds = |seconds: f64| json!((seconds * 1000.0).round().max(0.0));
    if let Some(seconds) = globals.timeout {
        entry.insert("timeout".to_owned(), whole(milliseconds(seconds)));
    }
    if let Some(seconds) = globals.connect_timeout {
        entry.insert("connectTimeout".to_owned(), whole(milliseconds(seconds)));
    }
    if let Some(protocol) = Protocols::read(globals)?.of(name) {
        entry.insert("protocol".to_owned(), json!(protocol.to_string()));
    }
    Ok(entry)
}

/// A number without `.0`.
fn whole(number: Value) -> Value {
    serde_json::from_str(number.to_string().trim_end_matches(".0")).unwrap_or(number)
}

/// How a server at an address is reached; `None` if it is a command.
fn remote(name: &ServerName, add: &Add) -> Result<Option<(&'static str, String)>, Misuse> {
    let target = &add.target[0];
    if add.transport == Some(Kind::Stdio) {
        if target.contains("://") || looks_like_an_address(target) {
            let hint = "leave -t out for a server at a URL";
            return Err(misuse(format!("-t stdio wants a command, and `{target}` is an address"), Some(hint)));
        }
        return Ok(None);
    }
    let reach = servers::url(name, target)?;
    let (by_looks, url) = match &reach {
        Some(TransportConfig::Http(remote)) => ("http", remote.url.clone()),
        Some(TransportConfig::Sse(remote)) => ("sse", remote.url.clone()),
        Some(TransportConfig::WebSocket(remote)) => ("ws", remote.url.clone()),
        _ if matches!(add.transport, Some(Kind::Http | Kind::Sse | Kind::Ws)) || looks_like_an_address(target) => {
            let hint = "an address begins with https:// or http://, for example http://127.0.0.1:8000/mcp";
            return Err(misuse(format!("`{target}` is no URL"), Some(hint)));
        }
        _ if looks_like_a_host(target) => {
            let hint = format!("did you mean https://{target}? With -t stdio it is taken for a command");
            return Err(misuse(format!("`{target}` is neither a URL nor a program that is there"), Some(&hint)));
        }
        _ => return Ok(None),
    };
    let kind = match add.transport {
        Some(Kind::Http) => "http",
        Some(Kind::Sse) => "sse",
        Some(Kind::Ws) => "ws",
        Some(Kind::Stdio) | None => by_looks,
    };
    Ok(Some((kind, url)))
}

/// Whether a command that is not there is more likely an address without its scheme: `example.com/mcp`.
fn looks_like_a_host(target: &str) -> bool {
    let Some((host, _)) = target.split_once('/') else { return false };
    let is_part =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let ending = host.rsplit('.').next().unwrap_or_default();
    let is_ending = ending.len() > 1 && ending.bytes().all(|byte| byte.is_ascii_alphabetic());
    host.contains('.') && host.split('.').all(is_part) && is_ending && !std::path::Path::new(target).exists()
}

/// Says so if a command is not there yet.
fn warn_if_absent(server: &Server) {
    let TransportConfig::Stdio(launch) = &server.reach else { return };
    // What waits for a variable cannot be looked for.
    if launch.command.contains("${") || launch.env.contains_key("PATH") {
        return;
    }
    let environment = surroundings::shared();
    let path: Option<std::ffi::OsString> = environment.get("PATH").map(Into::into);
    let here = || std::env::current_dir().unwrap_or_else(|_| "/".into());
    let folder = launch.cwd.clone().unwrap_or_else(here);
    if program::find(&launch.command, path.as_deref(), &folder) == Program::Missing {
        render::warning(&format!("the command `{}` was not found", launch.command));
        render::hint(&program::remedy(&launch.command, path.as_deref()));
    }
}

fn command(add: &Add, globals: &Globals) -> Result<Map<String, Value>, Misuse> {
    if !globals.header.is_empty() {
        let hint = Some("a command gets variables: -e NAME=VALUE");
        return Err(misuse("-H is for servers at a URL".to_owned(), hint));
    }
    // One word with blanks is a whole command in quotes, as for --mcp, unless there is such a program.
    let words = match &add.target[..] {
        [line] if line.contains(char::is_whitespace) && !std::path::Path::new(line).exists() => {
            shlex::split(line).ok_or_else(|| misuse("the command has a quote without its partner".to_owned(), None))?
        }
        words => words.to_vec(),
    };
    let Some((command, args)) = words.split_first().filter(|(command, _)| !command.trim().is_empty()) else {
        return Err(misuse("the command is empty".to_owned(), None));
    };
    let mut entry = Map::from_iter([("type".to_owned(), json!("stdio")), ("command".to_owned(), json!(command))]);
    if !args.is_empty() {
        entry.insert("args".to_owned(), json!(args));
    }
    let variables = globals.env.iter().map(|variable| match variable.split_once('=') {
        Some((name, value)) => (name.to_owned(), json!(value)),
        None => (variable.clone(), json!(format!("${{{variable}}}"))),
    });
    let variables: Map<String, Value> = variables.collect();
    if !variables.is_empty() {
        entry.insert("env".to_owned(), Value::Object(variables));
    }
    Ok(entry)
}
