//! What a person reviews before they approve a server: everything that would run, in full, and its risks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use wharf_protocol::ServerName;

use crate::danger::{self, HostAccess};
use crate::expand::variable_names;
use crate::hidden_chars::{is_hidden, visible};
use crate::raw_entry::{EntryChange, RawEntry};

/// What a person must see before they approve a project's server.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// The name of the server.
    pub name: ServerName,
    /// The project directory.
    pub root: PathBuf,
    /// The SHA-256 of the approved content.
    pub hash: String,
    /// The command to run, quoted for a shell, with control characters escaped.
    pub command_line: Option<String>,
    /// The working directory of the command, or of the headers helper.
    pub cwd: Option<String>,
    /// Environment variables of the process, as written and in full: what looks like a secret may be a command.
    pub env: Vec<(String, String)>,
    /// The URL to connect to.
    pub url: Option<String>,
    /// Headers of requests, as written and in full.
    pub headers: Vec<(String, String)>,
    /// The command that prints more headers.
    pub headers_helper: Option<String>,
    /// All other approved values, by their path in the entry.
    pub more: Vec<(String, String)>,
    /// The variables of this machine that the entry reads.
    pub reads: Vec<String>,
    /// Risks to point out.
    pub dangers: Vec<String>,
    /// Changes since the last approval; empty if it was never approved.
    pub changes: Vec<EntryChange>,
}

/// Omits the content, which does not belong in a log.
impl std::fmt::Debug for Approval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Approval({} in {:?}, {})", self.name, self.root, self.hash)
    }
}

impl Approval {
    /// Describes an entry for approval.
    pub fn new(root: &Path, name: &ServerName, written: &RawEntry, changes: Vec<EntryChange>) -> Self {
        let reads: BTreeSet<String> = written
            .leaves()
            .values()
            .filter_map(Value::as_str)
            .flat_map(|text| variable_names(text).map(str::to_owned).collect::<Vec<_>>())
            .collect();
        let separate = ["command", "args", "cwd", "env", "url", "headers", "headersHelper", "type"];
        let is_more = |path: &str| !separate.contains(&path.split(['.', '[']).next().unwrap_or_default());
        let more = written.leaves().into_iter().filter(|(path, _)| is_more(path));
        Self {
            name: name.clone(),
            root: root.to_owned(),
            hash: written.hash(),
            command_line: written.text("command").map(|command| quoted(&argv(&resolved(root, command), written))),
            cwd: working_dir(root, written),
            env: pairs(written.get("env")),
            url: written.text("url").map(visible),
            headers: pairs(written.get("headers")),
            headers_helper: written.get("headersHelper").map(|helper| match helper {
                Value::String(line) => visible(line),
                list => quoted(&texts(list)),
            }),
            more: more.map(|(path, value)| (visible(&path), visible(&value.to_string()))).collect(),
            reads: reads.into_iter().collect(),
            dangers: dangers(written),
            changes,
        }
    }
}

/// Returns the directory in which a process runs; `None` if there is no process.
fn working_dir(root: &Path, written: &RawEntry) -> Option<String> {
    let has_command = written.get("command").is_some();
    if !has_command && written.get("headersHelper").is_none() {
        return None;
    }
    let cwd = if has_command { written.text("cwd") } else { None };
    match cwd {
        // A variable may hold an absolute path.
        Some(cwd) if cwd.starts_with("${") => Some(visible(cwd)),
        Some(cwd) => Some(visible(&root.join(cwd).to_string_lossy())),
        None => Some(visible(&root.to_string_lossy())),
    }
}

/// Returns the program that a relative path refers to. A variable may hold an absolute path.
fn resolved(root: &Path, command: &str) -> String {
    let is_relative = command.contains(['/', '\\']) && !command.starts_with("${") && !Path::new(command).is_absolute();
    if is_relative { root.join(command).to_string_lossy().into_owned() } else { command.to_owned() }
}

fn argv(command: &str, written: &RawEntry) -> Vec<String> {
    let args = written.get("args").map(texts).unwrap_or_default();
    std::iter::once(command.to_owned()).chain(args).collect()
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Quotes words for a shell, with hidden characters escaped.
fn quoted(words: &[String]) -> String {
    let quote = |word: &String| {
        let is_odd = word.chars().any(|c| c.is_control() || is_hidden(c));
        match shlex::try_quote(word) {
            // The shell syntax for escaped characters.
            _ if is_odd => format!("$'{}'", visible(&word.replace('\\', "\\\\").replace('\'', "\\'"))),
            Ok(quoted) => quoted.into_owned(),
            Err(_) => format!("{word:?}"),
        }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

fn pairs(object: Option<&Value>) -> Vec<(String, String)> {
    let fields = object.and_then(Value::as_object).into_iter().flatten();
    fields.filter_map(|(name, value)| Some((visible(name), visible(value.as_str()?)))).collect()
}

/// Returns the risks of a program with its arguments.
fn dangers_of_command(words: &[String]) -> Vec<String> {
    let Some((command, args)) = words.split_first() else { return Vec::new() };
    let mut dangers = Vec::new();
    if danger::runs_shell_string(command, args) {
        dangers.push("runs a shell command string".to_owned());
    }
    if danger::runs_inline_code(command, args) {
        dangers.push("runs code from its arguments".to_owned());
    }
    let fetch = danger::fetched_package(command, args);
    if let Some(package) = fetch.and_then(|fetch| fetch.unpinned) {
        dangers.push(format!("fetches the latest version of `{}`", visible(package)));
    }
    if let Some(place) = fetch.and_then(|fetch| fetch.place).or_else(|| danger::fetched_code(command, args)) {
        dangers.push(format!("fetches code from `{}`", visible(place)));
    }
    if fetch.is_some_and(|fetch| fetch.other_registry) {
        dangers.push("fetches packages from another registry".to_owned());
    }
    dangers.extend(danger::variables_in_arguments(command, args).into_iter().flat_map(dangers_of_variable));
    for access in danger::host_access(command, args) {
        dangers.push(match access {
            HostAccess::Mount(source) => format!("gives its container access to `{}`", visible(source)),
            HostAccess::Privilege(option) => format!("runs its container with `{option}`"),
        });
    }
    if words.iter().any(|word| word.contains(['\n', '\r'])) {
        dangers.push("has an argument with a line break".to_owned());
    }
    dangers
}

/// Returns the risks of an environment variable.
fn dangers_of_variable(name: &str) -> impl Iterator<Item = String> {
    let controls = [
        (danger::loads_code(name), "which code programs load"),
        (danger::moves_settings(name), "where programs read their settings"),
        (danger::adds_trust(name), "whose certificates are trusted"),
        (danger::redirects_requests(name), "where requests are sent"),
        (danger::weakens_tls(name), "whether certificates are checked"),
    ];
    let name = visible(name);
    let controlled = controls.into_iter().filter(|(is_controlled, _)| *is_controlled);
    controlled.map(move |(_, what)| format!("sets {name}, which controls {what}"))
}

/// Whether a URL leads to another machine without encryption.
fn is_unencrypted(url: &str) -> bool {
    let is_plain = |uri: &http::Uri| matches!(uri.scheme_str(), Some("http" | "ws"));
    let is_remote = |uri: &http::Uri| !uri.host().is_some_and(wharf_io::address::is_loopback_host);
    url.parse().is_ok_and(|uri| is_plain(&uri) && is_remote(&uri))
}

/// Returns the risks of an entry.
fn dangers(written: &RawEntry) -> Vec<String> {
    let mut dangers = Vec::new();
    if let Some(command) = written.text("command") {
        dangers.extend(dangers_of_command(&argv(command, written)));
    }
    let helper = match written.get("headersHelper") {
        Some(Value::String(line)) => shlex::split(line).unwrap_or_default(),
        Some(list) => texts(list),
        None => Vec::new(),
    };
    dangers.extend(dangers_of_command(&helper));
    let leaves = written.leaves();
    let texts = || leaves.values().filter_map(Value::as_str);
    if texts().any(|text| text.contains("${IFS}") || text.contains("$IFS")) {
        dangers.push("disguises spaces as `${IFS}`".to_owned());
    }
    if texts().any(|text| text.chars().any(is_hidden)) {
        dangers.push("contains hidden characters".to_owned());
    }
    if written.text("url").is_some_and(is_unencrypted) {
        dangers.push("sends its requests unencrypted".to_owned());
    }
    if written.get("headersHelper").is_some() {
        dangers.push("runs a command for headers on every connection".to_owned());
    }
    for group in ["env", "headers", "oauth"] {
        for (name, value) in written.get(group).and_then(Value::as_object).into_iter().flatten() {
            if group == "env" {
                dangers.extend(dangers_of_variable(name));
            }
            if danger::looks_secret(name, value.as_str().unwrap_or_default()) {
                dangers.push(format!("contains a plaintext secret: {group}.{}", visible(name)));
            }
        }
    }
    dangers
}
