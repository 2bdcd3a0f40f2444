//! `wharf add` and `wharf add-json`: write a server into a configuration file.

mod from_link;
mod from_registry;
mod oauth;
mod proposal;

use std::io::Read as _;
use std::path::Path;

use clap::{Parser, ValueEnum};
use serde_json::{Map, Value, json};
use wharf::ServerName;
use wharf::config::import::is_link;
use wharf::config::registry::is_server_name;
use wharf::config::{OnExisting, Problem, ProblemKind, Severity, TransportKind};
use wharf::fleet::{Server, TransportConfig};

use self::oauth::OAuthArgs;
use self::proposal::AddOptions;
use super::common::WriteScope;
use crate::config::Setup;
use crate::config::servers::{self, Protocols, looks_like_url};
use crate::config::writing::{self, NewEntry, WriteError};
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::interrupt::dropped_on_interrupt;
use crate::program::{self, MissingCommand};
use crate::term;

/// The longest entry that is read; a file with a longer one could not be loaded.
const MAX_ENTRY_BYTES: u64 = 1 << 20;

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  wharf add time uvx mcp-server-time\n  \
        wharf add -e GITHUB_TOKEN github -- npx -y @modelcontextprotocol/server-github\n  \
        wharf add -s user docs https://example.com/mcp -H 'Authorization: Bearer ${DOCS_TOKEN}'\n  \
        wharf add crm https://crm.example.com/mcp --client-id wharf --client-secret\n  \
        wharf add io.github.github/github-mcp-server\n  wharf add 'vscode:mcp/install?{…}'\n\n\
        Arguments after the command belong to it: put options before the name, or after a URL.\n\
        -e NAME without a value is written as ${NAME} and read when the server starts.")]
pub(crate) struct Add {
    /// Scope to write to
    #[arg(short, long, value_enum, default_value_t = WriteScope::Local)]
    scope: WriteScope,
    /// Transport [default: stdio for a command, http for http(s)://, ws for ws(s)://]
    #[arg(short, long, value_enum)]
    transport: Option<TransportArg>,
    /// Replace an existing server of the same name
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    oauth: OAuthArgs,
    /// Name for a server of the registry or of a link [default: its own]
    #[arg(long = "as", value_name = "NAME")]
    name_as: Option<String>,
    /// Value that a server of the registry needs (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Add a server of the registry or of a link without asking
    #[arg(short, long)]
    yes: bool,
    /// Server name; or alone, a server of the MCP registry (OWNER/NAME or OWNER/NAME@VERSION), or a link of a web page
    /// that adds a server to VS Code or Cursor
    #[arg(value_name = "NAME | OWNER/NAME | LINK")]
    name: String,
    /// URL, or command with its arguments
    #[arg(value_name = "URL | COMMAND", num_args = 1.., trailing_var_arg = true)]
    target: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TransportArg {
    /// A command, over stdin and stdout
    Stdio,
    /// Streamable HTTP
    #[value(aliases = ["streamable-http", "streamable_http", "streamableHttp"])]
    Http,
    /// HTTP with server-sent events (deprecated by MCP)
    Sse,
    /// WebSocket
    #[value(alias = "websocket")]
    Ws,
}

/// Options that may follow a URL.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct OptionsAfterUrl {
    #[arg(short, long, value_enum)]
    scope: Option<WriteScope>,
    #[arg(short, long, value_enum)]
    transport: Option<TransportArg>,
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    oauth: OAuthArgs,
    #[command(flatten)]
    globals: Globals,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  wharf add-json time '{\"command\": \"uvx\", \"args\": [\"mcp-server-time\"]}'")]
pub(crate) struct AddJson {
    /// Scope to write to
    #[arg(short, long, value_enum, default_value_t = WriteScope::Local)]
    scope: WriteScope,
    /// Replace an existing server of the same name
    #[arg(short, long)]
    force: bool,
    /// Server name
    name: String,
    /// JSON entry, or `-` to read it from stdin
    #[arg(value_name = "JSON | -")]
    entry: String,
}

pub(crate) async fn run(globals: &Globals, add: Add) -> Exit {
    let (globals, add) = match with_late_options(globals.clone(), add) {
        Ok(both) => both,
        Err(error) => return term::usage_error(&error),
    };
    if add.target.is_empty() {
        return dropped_on_interrupt(Box::pin(add_described(&globals, &add))).await;
    }
    let work = async {
        let prepared = async {
            if let Some(option) = add.first_described_option() {
                let message = format!("{option} is only for servers of the registry and of links");
                return Err(usage_error(message, None).into());
            }
            let name = add.name.parse::<ServerName>()?;
            let entry = Value::Object(entry(&name, &add, &globals).await?);
            Ok::<_, WriteError>((name, entry))
        };
        let (name, entry) = match prepared.await {
            Ok(prepared) => prepared,
            Err(error) => return error.report(),
        };
        let new = NewEntry { name: &name, entry: &entry, scope: add.scope.into(), on_existing: on_existing(add.force) };
        write(&globals, &new).await
    };
    // The question for a client secret hides what is typed until it is dropped.
    dropped_on_interrupt(work).await
}

pub(crate) async fn run_json(globals: &Globals, add: AddJson) -> Exit {
    let prepared = async {
        let name = add.name.parse::<ServerName>()?;
        let text = if add.entry == "-" { from_stdin()? } else { add.entry.clone() };
        let example = r#"expected an object, for example '{"command": "uvx", "args": ["mcp-server-time"]}'"#;
        let entry: Value = serde_json::from_str(&text)
            .map_err(|error| usage_error(format!("invalid JSON in the entry: {error}"), Some(example)))?;
        if entry.get("mcpServers").is_some() {
            let hint = "pass only the object after the server's name";
            return Err(usage_error("this is a whole file, not the entry of one server".to_owned(), Some(hint)).into());
        }
        Ok::<_, WriteError>((name, entry))
    };
    let (name, entry) = match prepared.await {
        Ok(prepared) => prepared,
        Err(error) => return error.report(),
    };
    let new = NewEntry { name: &name, entry: &entry, scope: add.scope.into(), on_existing: on_existing(add.force) };
    write(globals, &new).await
}

/// Adds what is described elsewhere: in the registry, or in a link.
async fn add_described(globals: &Globals, add: &Add) -> Exit {
    let options = AddOptions { scope: add.scope.into(), on_existing: on_existing(add.force), yes: add.yes };
    if is_link(&add.name) {
        return from_link::run(globals, add, &options).await;
    }
    let registered = add.name.split('@').next().unwrap_or_default();
    if is_server_name(registered) && !Path::new(&add.name).exists() {
        return from_registry::run(globals, add, &options).await;
    }
    let hint = if add.name.contains("://") {
        format!("pass a name before it: wharf add NAME {}", term::name(&add.name))
    } else {
        "for example: wharf add time uvx mcp-server-time, or with a name of the registry: wharf add OWNER/NAME"
            .to_owned()
    };
    term::usage_error(&usage_error(format!("no URL or command for `{}`", term::name(&add.name)), Some(&hint)))
}

impl Add {
    /// Returns an option that applies only to servers of the registry and of links.
    fn first_described_option(&self) -> Option<&'static str> {
        let given = [("--as", self.name_as.is_some()), ("--set", !self.set.is_empty()), ("--yes", self.yes)];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }
}

fn on_existing(force: bool) -> OnExisting {
    if force { OnExisting::Replace } else { OnExisting::Refuse }
}

fn from_stdin() -> Result<String, UsageError> {
    let mut text = String::new();
    let read = std::io::stdin().take(MAX_ENTRY_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| usage_error(format!("cannot read stdin: {error}"), None))?;
    if text.len() as u64 > MAX_ENTRY_BYTES {
        return Err(usage_error(format!("the entry is longer than {MAX_ENTRY_BYTES} bytes"), None));
    }
    Ok(text)
}

async fn write(globals: &Globals, new: &NewEntry<'_>) -> Exit {
    let write = || {
        let setup = Setup::read(globals)?;
        let read = writing::check(&setup, new.name.as_str(), &new.entry.to_string(), new.scope)?;
        let file = writing::write(&setup.paths, new)?;
        let is_wanted = |problem: &Problem| match problem.severity {
            Severity::Note => globals.is_verbose(),
            _ => !globals.quiet,
        };
        read.problems.iter().cloned().map(for_new_entry).filter(is_wanted).for_each(|problem| term::problem(&problem));
        if !globals.quiet {
            warn_if_command_is_missing(&read.server, &setup.paths.project.root);
        }
        writing::outcome(globals, &read, file)
    };
    match write() {
        Ok(outcome) => {
            outcome.print(globals);
            if globals.json { term::json(&outcome).await } else { Exit::Done }
        }
        Err(error) => error.report(),
    }
}

/// Returns a problem as it matters for a new entry: now is the time to pin a version.
fn for_new_entry(problem: Problem) -> Problem {
    match problem.kind {
        ProblemKind::UnpinnedPackage => Problem { severity: Severity::Warning, ..problem },
        ProblemKind::ServerNotUsed | ProblemKind::IgnoredTimeout | ProblemKind::Other => problem,
    }
}

/// Parses options after a URL: a URL has no arguments, so they are ours.
fn with_late_options(mut globals: Globals, mut add: Add) -> Result<(Globals, Add), UsageError> {
    if add.target.len() < 2 || !add.target[0].contains("://") {
        return Ok((globals, add));
    }
    let rest = add.target.split_off(1);
    let late = OptionsAfterUrl::try_parse_from(&rest).map_err(|_| {
        let message = format!("unexpected argument after the URL: {}", rest[0]);
        usage_error(message, Some("only options such as -s, -t, -f and -H may follow a URL"))
    })?;
    add.scope = late.scope.unwrap_or(add.scope);
    add.transport = late.transport.or(add.transport);
    add.force |= late.force;
    add.oauth.extend(late.oauth);
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
    globals.verbose = globals.verbose.max(late.globals.verbose);
    Ok((globals, add))
}

/// Returns the entry to write.
async fn entry(name: &ServerName, add: &Add, globals: &Globals) -> Result<Map<String, Value>, UsageError> {
    let mut entry = match remote(name, add)? {
        Some((kind, url)) => {
            if !globals.env.is_empty() {
                let hint = Some("remote servers get headers: -H 'NAME: VALUE'");
                return Err(usage_error("-e is only for stdio servers".to_owned(), hint));
            }
            let mut entry = Map::from_iter([("type".to_owned(), json!(kind.as_str())), ("url".to_owned(), json!(url))]);
            let headers = servers::headers(globals)?;
            if !headers.is_empty() {
                let pair = |(name, value): (String, wharf::Secret)| (name, json!(value.expose()));
                entry.insert("headers".to_owned(), Value::Object(headers.into_iter().map(pair).collect()));
            }
            if let Some(oauth) = add.oauth.entry(add.scope.into()).await? {
                entry.insert("oauth".to_owned(), oauth);
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

/// Removes `.0` from a number.
fn whole(number: Value) -> Value {
    serde_json::from_str(number.to_string().trim_end_matches(".0")).unwrap_or(number)
}

/// Returns the transport and URL of a remote server; `None` for a command.
fn remote(name: &ServerName, add: &Add) -> Result<Option<(TransportKind, String)>, UsageError> {
    let target = &add.target[0];
    if add.transport == Some(TransportArg::Stdio) {
        if target.contains("://") || looks_like_url(target) {
            let hint = "omit -t for a remote server";
            return Err(usage_error(format!("-t stdio expects a command, but `{target}` is a URL"), Some(hint)));
        }
        return Ok(None);
    }
    let transport = servers::url(name, target)?;
    let by_scheme = transport.as_ref().map(TransportConfig::kind);
    let (by_scheme, url) = match (by_scheme, transport.as_ref().and_then(servers::remote)) {
        (Some(kind), Some(remote)) => (kind, remote.url.clone()),
        _ if matches!(add.transport, Some(TransportArg::Http | TransportArg::Sse | TransportArg::Ws))
            || looks_like_url(target) =>
        {
            let hint = "a URL begins with https:// or http://, for example http://127.0.0.1:8000/mcp";
            return Err(usage_error(format!("`{target}` is not a URL"), Some(hint)));
        }
        _ if looks_like_a_host(target) => {
            let hint = format!("did you mean https://{target}? For a command, pass -t stdio");
            return Err(usage_error(format!("`{target}` is neither a URL nor an existing command"), Some(&hint)));
        }
        _ => return Ok(None),
    };
    let kind = match add.transport {
        Some(TransportArg::Http) => TransportKind::Http,
        Some(TransportArg::Sse) => TransportKind::Sse,
        Some(TransportArg::Ws) => TransportKind::WebSocket,
        Some(TransportArg::Stdio) | None => by_scheme,
    };
    Ok(Some((kind, url)))
}

/// Whether a missing command is more likely a URL without its scheme: `example.com/mcp`.
fn looks_like_a_host(target: &str) -> bool {
    let Some((host, _)) = target.split_once('/') else { return false };
    let is_part =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let ending = host.rsplit('.').next().unwrap_or_default();
    let is_ending = ending.len() > 1 && ending.bytes().all(|byte| byte.is_ascii_alphabetic());
    host.contains('.') && host.split('.').all(is_part) && is_ending && !Path::new(target).exists()
}

fn warn_if_command_is_missing(server: &Server, project: &Path) {
    if let Some(MissingCommand { command, hint }) = program::missing_command(server, project) {
        term::warning(&format!("command `{command}` not found"));
        term::hint(&hint);
    }
}

fn command(add: &Add, globals: &Globals) -> Result<Map<String, Value>, UsageError> {
    if !globals.header.is_empty() {
        let hint = Some("stdio servers get variables: -e NAME=VALUE");
        return Err(usage_error("-H is only for remote servers".to_owned(), hint));
    }
    if let Some(option) = add.oauth.first() {
        let hint = Some("stdio servers get credentials in variables: -e NAME");
        return Err(usage_error(format!("{option} is only for remote servers"), hint));
    }
    // One word with spaces is a whole command in quotes, as for --mcp, unless a program has that name.
    let words = match &add.target[..] {
        [line] if line.contains(char::is_whitespace) && !Path::new(line).exists() => {
            shlex::split(line).ok_or_else(|| usage_error("unclosed quote in the command".to_owned(), None))?
        }
        words => words.to_vec(),
    };
    let Some((command, args)) = words.split_first().filter(|(command, _)| !command.trim().is_empty()) else {
        return Err(usage_error("the command is empty".to_owned(), None));
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
