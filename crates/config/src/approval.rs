//! Approvals: a project's servers start only after a person approved their exact content.
//!
//! An approval is stored with the approved content, so that changes can be displayed and not only detected. An approvals
//! file in an unknown format approves nothing and is never overwritten.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wharf_protocol::ServerName;

use crate::danger;
use crate::expand::variable_names;
use crate::hidden_chars::{is_hidden, visible};
use crate::jsonc::{self, MAX_FILE_BYTES};
use crate::problem::{Problem, Severity};
use crate::raw_entry::{EntryChange, RawEntry};
use crate::store::{self, NotWritten, Readers};

/// Version of the file format.
const VERSION: u32 = 1;

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

/// All approvals of a user, by project and server.
#[derive(Clone, Default)]
pub struct Approvals {
    /// `None` if approvals cannot be stored.
    file: Option<PathBuf>,
    /// The content of the file when it was read.
    seen: Option<String>,
    projects: BTreeMap<String, BTreeMap<String, ApprovedEntry>>,
}

/// Why approvals could not be read or stored.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalsError {
    /// The file is invalid. It is left unchanged, and nothing counts as approved.
    #[error("{0}")]
    Corrupt(Box<Problem>),
    /// Another process changed the file since it was read.
    #[error("{} was changed by another process; try again", .0.display())]
    Raced(PathBuf),
    /// The file could not be written.
    #[error("cannot store approvals in {}: {source}", file.display())]
    Io {
        /// The approvals file.
        file: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApprovedEntry {
    hash: String,
    content: RawEntry,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApprovalsFile {
    version: u32,
    projects: BTreeMap<String, BTreeMap<String, ApprovedEntry>>,
}

/// Whether an entry is approved.
pub(super) enum ApprovalState {
    Approved,
    Unknown,
    Changed(Vec<EntryChange>),
}

/// Omits the content, which does not belong in a log.
impl std::fmt::Debug for Approval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Approval({} in {:?}, {})", self.name, self.root, self.hash)
    }
}

/// Omits the approved content, which may contain secrets.
impl std::fmt::Debug for Approvals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Approvals({:?} with {} projects)", self.file, self.projects.len())
    }
}

impl Approvals {
    /// Reads a file of approvals; a missing file has none.
    ///
    /// # Errors
    /// If the file cannot be read or is invalid.
    pub fn load(file: &Path) -> Result<Self, ApprovalsError> {
        let corrupt = ApprovalsError::Corrupt;
        let Some(text) = jsonc::read_file(file).map_err(corrupt)? else {
            return Ok(Self { file: Some(file.to_owned()), ..Self::default() });
        };
        let stored = parse(&text).map_err(|(line, why)| {
            let message = format!("invalid approvals file: {why}; nothing in it counts as approved");
            let problem = Problem::of_file(Severity::Error, file, message);
            corrupt(Problem { line, ..problem }.with_hint("move the file away, and approve the servers again").into())
        })?;
        Ok(Self { file: Some(file.to_owned()), seen: Some(text), projects: stored.projects })
    }

    /// Returns empty approvals that cannot be saved, for a file that could not be read.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Approves the current entry of a project's server.
    pub fn approve(&mut self, root: &Path, name: &ServerName, written: &RawEntry) {
        let approved = ApprovedEntry { hash: written.hash(), content: written.clone() };
        self.projects.entry(key(root)).or_default().insert(name.as_str().to_owned(), approved);
    }

    /// Revokes an approval. Returns whether there was one.
    pub fn revoke(&mut self, root: &Path, name: &str) -> bool {
        let key = key(root);
        let Some(project) = self.projects.get_mut(&key) else { return false };
        let removed = project.remove(name).is_some();
        if project.is_empty() {
            self.projects.remove(&key);
        }
        removed
    }

    /// Revokes all approvals of a project. Returns the names of the servers.
    pub fn revoke_all(&mut self, root: &Path) -> Vec<String> {
        self.projects.remove(&key(root)).into_iter().flat_map(BTreeMap::into_keys).collect()
    }

    /// Returns whether exactly this content is approved.
    pub fn is_approved(&self, root: &Path, name: &ServerName, written: &RawEntry) -> bool {
        matches!(self.state(root, name, written), ApprovalState::Approved)
    }

    pub(super) fn state(&self, root: &Path, name: &ServerName, written: &RawEntry) -> ApprovalState {
        match self.projects.get(&key(root)).and_then(|project| project.get(name.as_str())) {
            Some(approved) if approved.hash == written.hash() => ApprovalState::Approved,
            Some(approved) => ApprovalState::Changed(written.changes_since(&approved.content)),
            None => ApprovalState::Unknown,
        }
    }

    /// Replaces the file atomically, readable by its owner only.
    ///
    /// # Errors
    /// If the file changed since it was read, or cannot be written.
    pub fn save(&mut self) -> Result<(), ApprovalsError> {
        let io = |file: &Path, source| ApprovalsError::Io { file: file.to_owned(), source };
        let Some(file) = self.file.clone() else {
            return Err(io(Path::new(""), std::io::Error::other("no approvals file")));
        };
        let stored = ApprovalsFile { version: VERSION, projects: self.projects.clone() };
        let text = serde_json::to_string_pretty(&stored).map_err(|error| io(&file, error.into()))? + "\n";
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(io(&file, std::io::Error::other(jsonc::too_long())));
        }
        match store::replace(&file, self.seen.as_deref().map(str::as_bytes), text.as_bytes(), Readers::Owner) {
            Ok(()) => {
                self.seen = Some(text);
                Ok(())
            }
            Err(NotWritten::Raced) => Err(ApprovalsError::Raced(file)),
            Err(NotWritten::Io(source)) => Err(io(&file, source)),
        }
    }
}

/// Returns the key of a project: its canonical path. A path that is not UTF-8 is hex-encoded, so that keys are unique.
fn key(root: &Path) -> String {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    match root.to_str() {
        Some(text) => text.to_owned(),
        None => root.as_os_str().as_encoded_bytes().iter().fold("bytes:".to_owned(), |mut key, byte| {
            let _ = write!(key, "{byte:02x}");
            key
        }),
    }
}

/// Parses the file; fails with the line and the reason.
fn parse(text: &str) -> Result<ApprovalsFile, (usize, String)> {
    let stored: ApprovalsFile = serde_json::from_str(text).map_err(|error| (error.line(), error.to_string()))?;
    if stored.version != VERSION {
        return Err((0, format!("expected version {VERSION}, found {}", stored.version)));
    }
    let mut approved = stored.projects.values().flatten();
    match approved.find(|(_, approved)| approved.hash != approved.content.hash()) {
        Some((name, _)) => Err((0, format!("the hash of `{name}` does not match its content"))),
        None => Ok(stored),
    }
}

impl Approval {
    /// Describes an entry for approval.
    pub(super) fn new(root: &Path, name: &ServerName, written: &RawEntry, changes: Vec<EntryChange>) -> Self {
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
            command_line: written.text("command").map(|command| quoted(&argv(command, written))),
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

/// Returns the risks of an entry.
fn dangers(written: &RawEntry) -> Vec<String> {
    let mut dangers = Vec::new();
    if let Some(command) = written.text("command") {
        let argv = argv(command, written);
        if danger::runs_shell_string(command, &argv[1..]) {
            dangers.push("runs a shell command string".to_owned());
        }
        if danger::runs_inline_code(command, &argv[1..]) {
            dangers.push("runs code from its arguments".to_owned());
        }
        if let Some(package) = danger::unpinned(command, &argv[1..]) {
            dangers.push(format!("fetches the latest version of `{}`", visible(package)));
        }
        if argv.iter().any(|word| word.contains(['\n', '\r'])) {
            dangers.push("has an argument with a line break".to_owned());
        }
    }
    let leaves = written.leaves();
    let texts = || leaves.values().filter_map(Value::as_str);
    if texts().any(|text| text.contains("${IFS}") || text.contains("$IFS")) {
        dangers.push("disguises spaces as `${IFS}`".to_owned());
    }
    if texts().any(|text| text.chars().any(is_hidden)) {
        dangers.push("contains hidden characters".to_owned());
    }
    if written.get("headersHelper").is_some() {
        dangers.push("runs a command for headers on every connection".to_owned());
    }
    for group in ["env", "headers", "oauth"] {
        for (name, value) in written.get(group).and_then(Value::as_object).into_iter().flatten() {
            if danger::loads_code(name) && group == "env" {
                dangers.push(format!("sets {name}, which controls which code programs load"));
            }
            if danger::moves_settings(name) && group == "env" {
                dangers.push(format!("sets {}, which controls where programs read their settings", visible(name)));
            }
            if danger::looks_secret(name, value.as_str().unwrap_or_default()) {
                dangers.push(format!("contains a plaintext secret: {group}.{}", visible(name)));
            }
        }
    }
    dangers
}
