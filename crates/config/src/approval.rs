//! A project's servers start only after a person approved their exact content.
//!
//! An approval is kept with what was approved, so that a change can be shown and not only noticed. A file of approvals
//! that is not what this wrote approves nothing and is never written over.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wharf_protocol::ServerName;

use super::danger;
use super::expand;
use super::problem::{Problem, Severity, is_hidden, visible};
use super::store::{self, NotWritten, Readers};
use super::text;
use super::written::{EntryChange, RawEntry};

/// The form of the file.
const VERSION: u32 = 1;

/// What a person has to see before a project's server is started.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// The server.
    pub name: ServerName,
    /// The project's folder.
    pub root: PathBuf,
    /// The SHA-256 of what is approved.
    pub hash: String,
    /// What would be run, quoted as a shell would need it, with control characters written out.
    pub command_line: Option<String>,
    /// Where it would run, and the command for its headers.
    pub cwd: Option<String>,
    /// Variables it would get, as written and in full: what looks like a secret may be a command.
    pub env: Vec<(String, String)>,
    /// Where it would connect.
    pub url: Option<String>,
    /// Headers it would get, as written and in full.
    pub headers: Vec<(String, String)>,
    /// A command that would be run for more headers.
    pub headers_helper: Option<String>,
    /// Everything else that is approved, by its path in the entry.
    pub more: Vec<(String, String)>,
    /// The variables of this machine it would read.
    pub reads: Vec<String>,
    /// What deserves a second look.
    pub dangers: Vec<String>,
    /// What changed since it was last approved; empty if it never was.
    pub changes: Vec<EntryChange>,
}

/// Everything that has been approved, by project and server.
#[derive(Clone, Default)]
pub struct Approvals {
    /// `None` where nothing can be approved.
    file: Option<PathBuf>,
    /// What the file held when it was read.
    seen: Option<String>,
    projects: BTreeMap<String, BTreeMap<String, Approved>>,
}

/// Why approvals could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalsError {
    /// The file is not what this wrote; it is left alone, and nothing counts as approved.
    #[error("{0}")]
    Corrupt(Box<Problem>),
    /// Somebody else changed the file in between.
    #[error("{} was changed by somebody else meanwhile; try again", .0.display())]
    Raced(PathBuf),
    /// The file could not be written.
    #[error("cannot keep approvals in {}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Approved {
    hash: String,
    content: RawEntry,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    projects: BTreeMap<String, BTreeMap<String, Approved>>,
}

/// What approvals say about a server.
pub(super) enum Verdict {
    Approved,
    Unseen,
    Changed(Vec<EntryChange>),
}

/// Without what is to be seen: that is for whoever approves, and not for a log.
impl std::fmt::Debug for Approval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Approval({} in {:?}, {})", self.name, self.root, self.hash)
    }
}

/// Without what was approved, which may hold secrets.
impl std::fmt::Debug for Approvals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Approvals({:?} with {} projects)", self.file, self.projects.len())
    }
}

impl Approvals {
    /// Reads the approvals in a file; a missing one has none.
    pub fn load(file: &Path) -> Result<Self, ApprovalsError> {
        let corrupt = ApprovalsError::Corrupt;
        let Some(text) = text::read(file).map_err(corrupt)? else {
            return Ok(Self { file: Some(file.to_owned()), ..Self::default() });
        };
        let stored = parse(&text).map_err(|(line, why)| {
            let message = format!("is no file of approvals: {why}; nothing in it counts as approved");
            let problem = Problem::of_file(Severity::Error, file, message);
            corrupt(Problem { line, ..problem }.with_hint("move it away, and approve again what you trust").into())
        })?;
        Ok(Self { file: Some(file.to_owned()), seen: Some(text), projects: stored.projects })
    }

    /// What is approved where nothing can be: the approvals of a file that could not be read. They cannot be saved.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Notes that a server of a project is approved as it is written.
    pub fn approve(&mut self, root: &Path, name: &ServerName, written: &RawEntry) {
        let approved = Approved { hash: written.hash(), content: written.clone() };
        self.projects.entry(key(root)).or_default().insert(name.as_str().to_owned(), approved);
    }

    /// Takes an approval back; says whether there was one.
    pub fn revoke(&mut self, root: &Path, name: &str) -> bool {
        let key = key(root);
        let Some(project) = self.projects.get_mut(&key) else { return false };
        let removed = project.remove(name).is_some();
        if project.is_empty() {
            self.projects.remove(&key);
        }
        removed
    }

    /// Takes back every approval of a project, and names those that there were.
    pub fn revoke_all(&mut self, root: &Path) -> Vec<String> {
        self.projects.remove(&key(root)).into_iter().flat_map(BTreeMap::into_keys).collect()
    }

    /// Whether exactly this content is approved.
    pub fn is_approved(&self, root: &Path, name: &ServerName, written: &RawEntry) -> bool {
        matches!(self.verdict(root, name, written), Verdict::Approved)
    }

    pub(super) fn verdict(&self, root: &Path, name: &ServerName, written: &RawEntry) -> Verdict {
        match self.projects.get(&key(root)).and_then(|project| project.get(name.as_str())) {
            Some(approved) if approved.hash == written.hash() => Verdict::Approved,
            Some(approved) => Verdict::Changed(written.changes_since(&approved.content)),
            None => Verdict::Unseen,
        }
    }

    /// Writes the file anew, so that a reader sees the old one or the new one and nobody else may read it.
    pub fn save(&mut self) -> Result<(), ApprovalsError> {
        let io = |file: &Path, source| ApprovalsError::Io { file: file.to_owned(), source };
        let Some(file) = self.file.clone() else {
            return Err(io(Path::new(""), std::io::Error::other("there is no file for them")));
        };
        let stored = Stored { version: VERSION, projects: self.projects.clone() };
        let text = serde_json::to_string_pretty(&stored).map_err(|error| io(&file, error.into()))? + "\n";
        if text.len() as u64 > text::LONGEST {
            let why = format!("they would be longer than {} bytes", text::LONGEST);
            return Err(io(&file, std::io::Error::other(why)));
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

/// A project is known by where it really is. A path that is no text is written in hexadecimal, so that no two are one.
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

/// Fails with the line and the reason.
fn parse(text: &str) -> Result<Stored, (usize, String)> {
    let stored: Stored = serde_json::from_str(text).map_err(|error| (error.line(), error.to_string()))?;
    if stored.version != VERSION {
        return Err((0, format!("its version is {} and not {VERSION}", stored.version)));
    }
    let mut approved = stored.projects.values().flatten();
    match approved.find(|(_, approved)| approved.hash != approved.content.hash()) {
        Some((name, _)) => Err((0, format!("the hash of `{name}` does not fit its content"))),
        None => Ok(stored),
    }
}

impl Approval {
    /// What has to be seen of an entry.
    pub(super) fn of(root: &Path, name: &ServerName, written: &RawEntry, changes: Vec<EntryChange>) -> Self {
        let reads: BTreeSet<String> = written
            .leaves()
            .values()
            .filter_map(Value::as_str)
            .flat_map(|text| expand::named(text).map(str::to_owned).collect::<Vec<_>>())
            .collect();
        let shown = ["command", "args", "cwd", "env", "url", "headers", "headersHelper", "type"];
        let is_more = |path: &str| !shown.contains(&path.split(['.', '[']).next().unwrap_or_default());
        let more = written.leaves().into_iter().filter(|(path, _)| is_more(path));
        Self {
            name: name.clone(),
            root: root.to_owned(),
            hash: written.hash(),
            command_line: written.text("command").map(|command| quoted(&argv(command, written))),
            cwd: folder(root, written),
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

/// The folder that a process would run in; none if nothing is run.
fn folder(root: &Path, written: &RawEntry) -> Option<String> {
    written.get("command").or_else(|| written.get("headersHelper"))?;
    match written.text("cwd").filter(|_| written.get("command").is_some()) {
        // What a variable stands for may be a whole path.
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

/// Words as a shell would need them, with everything visible.
fn quoted(words: &[String]) -> String {
    let quote = |word: &String| {
        let is_odd = word.chars().any(|c| c.is_control() || is_hidden(c));
        match shlex::try_quote(word) {
            // A shell's own way to write characters that cannot be seen.
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

/// What deserves a second look.
fn dangers(written: &RawEntry) -> Vec<String> {
    let mut dangers = Vec::new();
    if let Some(command) = written.text("command") {
        let argv = argv(command, written);
        if danger::runs_a_shell(command, &argv[1..]) {
            dangers.push("hands a text to a shell, which can do anything you can".to_owned());
        }
        if danger::runs_a_text(command, &argv[1..]) {
            dangers.push("runs a program that stands in its arguments".to_owned());
        }
        if let Some(package) = danger::unpinned(command, &argv[1..]) {
            dangers.push(format!("fetches `{}` in whatever version is the newest", visible(package)));
        }
        if argv.iter().any(|word| word.contains(['\n', '\r'])) {
            dangers.push("has a line break in an argument".to_owned());
        }
    }
    let leaves = written.leaves();
    let texts = || leaves.values().filter_map(Value::as_str);
    if texts().any(|text| text.contains("${IFS}") || text.contains("$IFS")) {
        dangers.push("hides blanks as `${IFS}`".to_owned());
    }
    if texts().any(|text| text.chars().any(is_hidden)) {
        dangers.push("has characters that cannot be seen".to_owned());
    }
    if written.get("headersHelper").is_some() {
        dangers.push("runs a command whenever it connects, to get headers".to_owned());
    }
    for group in ["env", "headers", "oauth"] {
        for (name, value) in written.get(group).and_then(Value::as_object).into_iter().flatten() {
            if danger::loads_code(name) && group == "env" {
                dangers.push(format!("sets {name}, which decides what code is loaded"));
            }
            if danger::moves_settings(name) && group == "env" {
                dangers.push(format!("sets {}, which decides where programs find their settings", visible(name)));
            }
            if danger::looks_secret(name, value.as_str().unwrap_or_default()) {
                dangers.push(format!("has a secret in plain sight: {group}.{}", visible(name)));
            }
        }
    }
    dangers
}
