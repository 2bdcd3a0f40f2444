//! The keys of an entry: known ones, those of other hosts, and unknown ones.

use wharf_protocol::nearest;

use super::report::Report;
use crate::cursor::Cursor;
use crate::problem::Severity;
use crate::server::Scope;
use crate::suggest::{brief, did_you_mean};

/// The keys that entries of this host have.
const KNOWN: [&str; 30] = [
    "type",
    "transportType",
    "transport",
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "httpUrl",
    "serverUrl",
    "headers",
    "headersHelper",
    "oauth",
    "timeout",
    "connectTimeout",
    "enabled",
    "disabled",
    "required",
    "protocol",
    "tools",
    "includeTools",
    "excludeTools",
    "bindings",
    "maxOutputTokens",
    "maxToolBytes",
    "alwaysLoad",
    "instructions",
    "title",
    "displayName",
    "manage",
];

/// The known keys that change neither what runs nor what is trusted: whether and how long, what a model is offered first,
/// and a name for display.
const UNAPPROVED: [&str; 8] =
    ["enabled", "disabled", "required", "timeout", "connectTimeout", "alwaysLoad", "title", "displayName"];

/// The keys for the transport and the URL; their value is approved under one name.
const ALIASES: [&str; 6] = ["type", "transportType", "transport", "url", "httpUrl", "serverUrl"];

/// Keys of other hosts that would approve a server without a person.
const APPROVAL: [&str; 7] =
    ["approved", "trust", "trusted", "autoApprove", "autoApproveTools", "alwaysAllow", "alwaysApprove"];

/// Keys of other hosts that only describe a server.
const DESCRIPTIVE: [&str; 15] = [
    "$comment",
    "author",
    "category",
    "comment",
    "description",
    "gallery",
    "homepage",
    "icon",
    "icons",
    "name",
    "note",
    "notes",
    "repository",
    "tags",
    "version",
];

/// Other keys of other hosts, with the reason for ignoring them.
const OTHER_HOSTS: [(&str, Severity, &str); 9] = [
    ("auth", Severity::Warning, "ignored: sign in to the server, or set a header"),
    ("authProviderType", Severity::Warning, "ignored: sign in to the server, or set a header"),
    ("envFile", Severity::Warning, "ignored: put its variables into `env`"),
    ("inputs", Severity::Note, "ignored: use variables, as in `${NAME}`"),
    ("dev", Severity::Note, "ignored: only for developing a server in an editor"),
    ("sandbox", Severity::Warning, "ignored: servers do not run in a sandbox"),
    ("sse_read_timeout", Severity::Note, "ignored: the read timeout of a stream is five minutes"),
    ("sseReadTimeout", Severity::Note, "ignored: the read timeout of a stream is five minutes"),
    ("id", Severity::Note, "ignored: the name identifies a server"),
];

/// Synonyms of known keys that no spelling distance would find.
const SYNONYMS: [(&str, &str); 10] = [
    ("arguments", "args"),
    ("cmd", "command"),
    ("endpoint", "url"),
    ("environment", "env"),
    ("envs", "env"),
    ("uri", "url"),
    ("workingDirectory", "cwd"),
    ("working_dir", "cwd"),
    ("allowedTools", "tools"),
    ("isActive", "enabled"),
];

/// Returns the keys whose values a person approves: all known ones, unless they are known to be harmless. Without the
/// keys for the transport and the URL, which have aliases.
pub(super) fn approved() -> impl Iterator<Item = &'static str> {
    KNOWN.into_iter().filter(|key| !UNAPPROVED.contains(key) && !ALIASES.contains(key))
}

/// Reports every key that entries of this host do not have.
///
/// A misspelled `command` or `url` is an error if the entry has no transport: it is the cause of that.
pub(super) fn check(entry: &Cursor<'_>, scope: Scope, report: &mut Report) {
    let misspelled = if transport_key(entry) { None } else { misspelled_transport(entry) };
    for (key, at) in entry.fields() {
        let problem = if KNOWN.contains(&key) {
            continue;
        } else if APPROVAL.contains(&key) {
            let severity = if scope == Scope::Project { Severity::Warning } else { Severity::Note };
            at.problem(severity, "ignored: an entry cannot approve itself")
        } else if DESCRIPTIVE.contains(&key) {
            at.note("ignored: only describes the server")
        } else if let Some((_, severity, message)) = OTHER_HOSTS.iter().find(|(other, ..)| *other == key) {
            at.problem(*severity, *message)
        } else {
            let severity = if misspelled == Some(key) { Severity::Error } else { Severity::Warning };
            let problem = at.problem(severity, format!("unknown key `{}`", brief(key)));
            match meaning(key) {
                Some(known) => problem.with_hint(did_you_mean(known)),
                None => problem,
            }
        };
        report.push(problem);
    }
}

/// Returns the first unknown key that probably means `command` or `url`.
pub(super) fn misspelled_transport<'a>(entry: &Cursor<'a>) -> Option<&'a str> {
    let is_ignored = |key: &str| {
        KNOWN.contains(&key)
            || APPROVAL.contains(&key)
            || DESCRIPTIVE.contains(&key)
            || OTHER_HOSTS.iter().any(|(other, ..)| *other == key)
    };
    let mut unknown = entry.fields().map(|(key, _)| key).filter(|key| !is_ignored(key));
    unknown.find(|key| matches!(meaning(key), Some("command" | "url")))
}

/// Whether the entry has a key that says how to reach the server.
fn transport_key(entry: &Cursor<'_>) -> bool {
    ["command", "url", "httpUrl", "serverUrl"].iter().any(|key| entry.field(key).is_some())
}

/// Returns the key that an unknown key probably means.
fn meaning(key: &str) -> Option<&'static str> {
    let synonym = SYNONYMS.iter().find(|(other, _)| other.eq_ignore_ascii_case(key)).map(|(_, known)| *known);
    synonym.or_else(|| nearest(key, KNOWN))
}
