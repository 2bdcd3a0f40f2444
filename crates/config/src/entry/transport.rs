//! Reads how to reach a server: a command, a URL, or a command whose process listens on a URL.

mod context;
mod headers;
mod managed;
mod oauth;
mod paths;
mod remote;
mod secrets;
mod stdio;

use super::keys;
use super::report::Report;
use super::values::string;
use crate::address::Family;
use crate::cursor::Cursor;
use crate::server::TransportConfig;
use crate::suggest::suggest;

pub(super) use self::context::TransportContext;

/// The values of `type`.
const TYPES: [&str; 4] = ["stdio", "http", "sse", "ws"];
/// The keys for the type; other hosts have their own.
const TYPE_KEYS: [&str; 3] = ["type", "transportType", "transport"];
/// The keys for the URL; other hosts have their own.
const URL_KEYS: [&str; 3] = ["url", "httpUrl", "serverUrl"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum TransportType {
    Stdio,
    Http,
    Sse,
    WebSocket,
}

/// The type is invalid, and the problem is reported.
struct InvalidType;

/// Returns the URL of an entry, under any of its keys.
pub(super) fn url_field<'a>(entry: &Cursor<'a>) -> Option<Cursor<'a>> {
    URL_KEYS.iter().find_map(|key| entry.field(key))
}

fn type_field<'a>(entry: &Cursor<'a>) -> Option<Cursor<'a>> {
    TYPE_KEYS.iter().find_map(|key| entry.field(key))
}

/// Reads the transport of an entry; `None` if an error was reported.
pub(super) fn read(context: &TransportContext<'_>, report: &mut Report) -> Option<TransportConfig> {
    let entry = &context.entry;
    let declared = declared_type(entry, report).ok()?;
    let url = sole_url(entry, report);
    let command = entry.field("command");
    let manage = entry.field("manage");
    match (command, url, manage) {
        (Some(command), Some(url), _) => {
            let message = format!("`{}` and `command` are mutually exclusive", url.key());
            report.error(&url, message, "keep one of them");
            let _ = stdio::read(context, &command, report);
            None
        }
        (None, Some(url), Some(manage)) => {
            let hint = "add the `command` to start, or remove `manage`";
            report.error(&manage, "`manage` requires `command`, but the entry has a URL", hint);
            let _ = remote::read(context, &url, Family::Http, report);
            None
        }
        (Some(command), None, Some(manage)) => {
            reject_url_keys(entry, &["headersHelper"], report);
            note_ignored_oauth(entry, report);
            if !matches!(declared, None | Some(TransportType::Http)) {
                contradiction(entry, "set it to `http`, or remove it", report);
            }
            managed::read(context, &command, &manage, report).map(TransportConfig::Managed)
        }
        (Some(command), None, None) => {
            reject_url_keys(entry, &["headers", "headersHelper"], report);
            note_ignored_oauth(entry, report);
            if !matches!(declared, None | Some(TransportType::Stdio)) {
                contradiction(entry, "remove it, or add `manage` if the command starts an HTTP server", report);
            }
            stdio::read(context, &command, report).map(TransportConfig::Stdio)
        }
        (None, Some(url), None) => {
            report_process_keys(entry, report);
            let kind = match declared {
                Some(TransportType::Stdio) => {
                    contradiction(entry, "set it to `http`, or remove it", report);
                    TransportType::Http
                }
                Some(kind) => kind,
                // The end of the path says nothing: Streamable HTTP servers are found at `/sse` too.
                None if is_websocket(&url) => TransportType::WebSocket,
                None => TransportType::Http,
            };
            read_remote(context, &url, kind, report)
        }
        (None, None, _) => {
            report_missing(entry, declared, report);
            None
        }
    }
}

/// Returns what `type` says, or `None` without one.
fn declared_type(entry: &Cursor<'_>, report: &mut Report) -> Result<Option<TransportType>, InvalidType> {
    let Some(at) = type_field(entry) else { return Ok(None) };
    let word = string(&at, report).ok_or(InvalidType)?;
    match word.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
        "stdio" => Ok(Some(TransportType::Stdio)),
        "http" | "streamablehttp" => Ok(Some(TransportType::Http)),
        "sse" => Ok(Some(TransportType::Sse)),
        "ws" | "websocket" => Ok(Some(TransportType::WebSocket)),
        "sdk" => {
            let hint = "add it in code, or set `command` or `url` here";
            report.error(&at, "an `sdk` server runs inside the host process", hint);
            Err(InvalidType)
        }
        _ => {
            let problem = at.error(format!("unknown transport `{word}`: expected stdio, http, sse or ws"));
            report.push(suggest(problem, word, &TYPES));
            Err(InvalidType)
        }
    }
}

/// Returns the URL, and reports a second one.
fn sole_url<'a>(entry: &Cursor<'a>, report: &mut Report) -> Option<Cursor<'a>> {
    let mut found = URL_KEYS.iter().filter_map(|key| entry.field(key));
    let first = found.next()?;
    if let Some(second) = found.next() {
        let message = format!("`{}` and `{}` are mutually exclusive", second.key(), first.key());
        report.error(&second, message, "keep one of them");
    }
    Some(first)
}

fn is_websocket(url: &Cursor<'_>) -> bool {
    url.text().is_some_and(|url| url.starts_with("ws://") || url.starts_with("wss://"))
}

fn read_remote<'a>(
    context: &TransportContext<'a>,
    url: &Cursor<'a>,
    kind: TransportType,
    report: &mut Report,
) -> Option<TransportConfig> {
    let family = if kind == TransportType::WebSocket { Family::WebSocket } else { Family::Http };
    let remote = remote::read(context, url, family, report)?;
    Some(match kind {
        TransportType::Sse => TransportConfig::Sse(remote),
        TransportType::WebSocket => TransportConfig::WebSocket(remote),
        TransportType::Http | TransportType::Stdio => TransportConfig::Http(remote),
    })
}

/// Reports a `type` that does not fit the rest of the entry.
fn contradiction(entry: &Cursor<'_>, hint: &str, report: &mut Report) {
    let Some(at) = type_field(entry) else { return };
    let word = at.text().unwrap_or_default();
    let other = if entry.field("command").is_some() { "`command`" } else { "a URL" };
    report.error(&at, format!("`{}` is `{word}`, but the entry has {other}", at.key()), hint);
}

/// Reports an entry with neither a command nor a URL.
fn report_missing(entry: &Cursor<'_>, declared: Option<TransportType>, report: &mut Report) {
    // A misspelled `command` or `url` is the cause, and is already reported as an error.
    if keys::misspelled_transport(entry).is_some() {
        return;
    }
    if let Some(args) = entry.field("args") {
        report.error(&args, "`args` requires `command`", "add `command`");
        return;
    }
    match declared {
        Some(TransportType::Stdio) => report.error(entry, "no command configured", "add `command`"),
        Some(_) => report.error(entry, "no URL configured", "add `url`"),
        None => report.error(entry, "neither `command` nor `url` is set", "add one of them"),
    }
}

/// Reports keys that have no meaning with a command. Empty values are leftovers and harmless.
fn reject_url_keys(entry: &Cursor<'_>, keys: &[&str], report: &mut Report) {
    for at in keys.iter().filter_map(|key| entry.field(key)) {
        if at.fields().next().is_some() || !at.is_object() {
            let message = format!("`{}` requires a URL, but the entry has `command`", at.key());
            report.error(&at, message, "remove it");
        }
    }
}

/// Other hosts write `oauth` beside a command too, where it is harmless.
fn note_ignored_oauth(entry: &Cursor<'_>, report: &mut Report) {
    if let Some(at) = entry.field("oauth") {
        report.push(at.note("ignored: OAuth applies to servers with a URL"));
    }
}

/// Reports keys that have no meaning with a URL.
fn report_process_keys(entry: &Cursor<'_>, report: &mut Report) {
    if let Some(at) = entry.field("args")
        && (at.items().next().is_some() || !at.is_list())
    {
        report.error(&at, "`args` requires `command`", "remove it");
    }
    for at in ["env", "cwd"].iter().filter_map(|key| entry.field(key)) {
        if at.fields().next().is_some() || !at.is_object() {
            let message = format!("`{}` has no effect with a URL: no process is started", at.key());
            report.warning(&at, message, "remove it");
        }
    }
}
