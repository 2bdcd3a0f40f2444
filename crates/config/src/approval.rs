//! Approvals: a project's servers start only after a person approved their exact content.
//!
//! An approval is stored with the approved content, so that changes can be displayed and not only detected. An approvals
//! file in an unknown format approves nothing and is never overwritten.

mod review;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wharf_protocol::ServerName;

use crate::jsonc::{self, MAX_FILE_BYTES};
use crate::problem::{Problem, Severity};
use crate::raw_entry::{EntryChange, RawEntry};
use crate::store::{self, NotWritten, Readers};

pub use review::Approval;

/// Version of the file format.
const VERSION: u32 = 1;

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

    /// Returns what a person must review before a server of another file than a project's starts, or `None` if exactly
    /// this content is approved. `origin` identifies who asks: a file, and for a model file also the model and the
    /// directory. `directory` is where the server would run.
    pub fn review(&self, origin: &Path, directory: &Path, name: &ServerName, written: &RawEntry) -> Option<Approval> {
        match self.state(origin, name, written) {
            ApprovalState::Approved => None,
            ApprovalState::Unknown => Some(Approval::new(directory, name, written, Vec::new())),
            ApprovalState::Changed(changes) => Some(Approval::new(directory, name, written, changes)),
        }
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
