//! Reads one server entry of a file into a [`Server`] that leaves nothing to guess.
//!
//! Reports everything that is wrong at once, each with its position. An error affects this server only.

mod expander;
mod keys;
mod report;
mod settings;
mod transport;
mod values;

use std::path::Path;

use serde_json::Value;
use wharf_protocol::ServerName;

use self::expander::Expander;
use self::report::Report;
use self::transport::TransportContext;
use crate::cursor::Cursor;
use crate::entry_name::{self, server_name};
use crate::expand::Variables;
use crate::hidden_chars;
use crate::problem::Problem;
use crate::raw_entry::RawEntry;
use crate::server::{Scope, Server, Settings, SourceLocation, TransportConfig};

pub(crate) use self::expander::ReadPurpose;

/// Entries under longer keys are not read.
const MAX_KEY_BYTES: usize = 256;

/// How entries are read.
#[derive(Clone, Copy)]
pub(crate) struct EntryContext<'a> {
    pub(crate) scope: Scope,
    pub(crate) variables: &'a Variables,
    /// The project directory, which relative paths refer to.
    pub(crate) base_dir: Option<&'a Path>,
    pub(crate) purpose: ReadPurpose,
}

/// An entry after reading.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The name of the server, or its key if that is not a name.
    pub(crate) name: String,
    pub(crate) origin: SourceLocation,
    /// The server; `None` if one of the problems is an error.
    pub(crate) server: Option<(Server, RawEntry)>,
    /// The command, the arguments and the URL as written, for an entry without a server.
    pub(crate) target: RawEntry,
    pub(crate) problems: Vec<Problem>,
    /// Whether unset variables were left in it. Such a server must not run.
    pub(crate) has_unset_variables: bool,
    /// Whether the entry sets `required`; known even if the rest is invalid.
    pub(crate) required: bool,
    /// Whether the entry is enabled; known even if the rest is invalid.
    pub(crate) enabled: bool,
}

/// What the object of an entry says.
struct Body {
    settings: Settings,
    /// `None` if an error was reported.
    transport: Option<TransportConfig>,
}

/// Reads the entry under a key.
pub(crate) fn read(key: &str, entry: &Cursor<'_>, context: EntryContext<'_>) -> Entry {
    let origin = SourceLocation { file: entry.file().to_owned(), line: entry.line() };
    let mut report = Report::default();
    let server_name = read_name(key, entry, &mut report);
    let name = server_name.as_ref().map_or(key, ServerName::as_str).to_owned();
    // Every problem repeats the name, so a very long one is not read further.
    let body = if name.len() > MAX_KEY_BYTES { None } else { read_body(entry, context, &mut report) };
    let has_unset_variables = report.has_unset_variables;
    let problems: Vec<Problem> = report.problems.into_iter().map(|problem| problem.of_server(&name)).collect();
    let required = body.as_ref().is_some_and(|body| body.settings.required);
    let enabled = body.as_ref().is_none_or(|body| body.settings.enabled);
    let server = match (server_name, body) {
        (Some(name), Some(Body { settings, transport: Some(transport) }))
            if !problems.iter().any(Problem::is_error) =>
        {
            let raw = raw_entry(entry, &transport);
            Some((Server { name, scope: context.scope, origin: Some(origin.clone()), transport, settings }, raw))
        }
        _ => None,
    };
    let is_readable = server.is_none() && name.len() <= MAX_KEY_BYTES;
    let target = if is_readable { raw_target(entry) } else { RawEntry::default() };
    Entry { name, origin, server, target, problems, has_unset_variables, required, enabled }
}

fn read_name(key: &str, entry: &Cursor<'_>, report: &mut Report) -> Option<ServerName> {
    let error = match (key.parse::<ServerName>(), server_name(key)) {
        (Ok(name), _) => return Some(name),
        (Err(_), Some(name)) => {
            report.push(entry.note(entry_name::renamed(name.as_str())));
            return Some(name);
        }
        (Err(error), None) => error,
    };
    let message = match hidden_chars::looks_like(key) {
        Some(other) => format!("{error}; it looks like `{other}` but differs"),
        None => error.to_string(),
    };
    let problem = entry.error(message);
    report.push(match entry_name::valid_name(key) {
        Some(valid) => problem.with_hint(format!("rename it to `{valid}`")),
        None => problem,
    });
    None
}

fn read_body(entry: &Cursor<'_>, context: EntryContext<'_>, report: &mut Report) -> Option<Body> {
    if !entry.is_object() {
        let hint = match entry.text() {
            Some(text) if text.contains("://") => "write {\"url\": …}",
            Some(_) => "write {\"command\": …, \"args\": […]}",
            None => "write {\"command\": …} or {\"url\": …}",
        };
        report.push(entry.wrong_type("an object with `command` or `url`").with_hint(hint));
        return None;
    }
    report.problems.extend(entry.duplicate_keys());
    keys::check(entry, context.scope, report);
    let settings = settings::read(entry, report);
    let EntryContext { scope, variables, base_dir, purpose } = context;
    let expander = Expander { variables, purpose, is_disabled: !settings.enabled };
    let transport = transport::read(&TransportContext { entry: entry.clone(), scope, base_dir, expander }, report);
    Some(Body { settings, transport })
}

/// Returns what an invalid entry would start or connect to, as far as it is readable.
fn raw_target(entry: &Cursor<'_>) -> RawEntry {
    let as_written = |key: &str| entry.field(key).map(|field| (key.to_owned(), field.node.to_value()));
    let url = transport::url_field(entry).map(|field| ("url".to_owned(), field.node.to_value()));
    RawEntry::new(["command", "args"].into_iter().filter_map(as_written).chain(url))
}

/// Returns the part of an entry that a person approves, before variables are expanded.
fn raw_entry(entry: &Cursor<'_>, transport: &TransportConfig) -> RawEntry {
    let as_written = |key: &str| entry.field(key).map(|field| (key.to_owned(), field.node.to_value()));
    let is_empty = |value: &Value| match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    // An empty list of tools allows none, and an empty `manage` has defaults; an empty list of arguments says nothing.
    let says_something = |(key, value): &(String, Value)| key.ends_with("ools") || key == "manage" || !is_empty(value);
    let fields = keys::approved().filter_map(as_written).filter(says_something);
    let kind = ("type".to_owned(), Value::from(transport.kind().as_str()));
    let url = transport::url_field(entry).map(|field| ("url".to_owned(), field.node.to_value()));
    RawEntry::new(fields.chain([kind]).chain(url))
}
