//! The file of another host: edited in place, with a backup.

use std::path::{Path, PathBuf};

use jsonc_parser::cst::{CstObject, CstRootNode};
use serde_json::{Map, Value};
use wharf_io::create_private_file;

use super::ExportHost;
use crate::edit::input;
use crate::import::parse_json;
use crate::jsonc;
use crate::problem::Problem;
use crate::store::{self, NotWritten, Readers};

const BYTE_ORDER_MARK: char = '\u{feff}';
/// How many backups may have the same name, which differ by their number.
const MAX_BACKUPS: usize = 1_000;

/// The file of a host. Nothing is written before [`save`](Self::save).
#[derive(Debug)]
pub struct HostFile {
    path: PathBuf,
    key: &'static str,
    seen: Option<String>,
    /// The new content, without a byte order mark.
    text: String,
}

/// What became of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exported {
    /// The file did not have it.
    New,
    /// It replaced one of the same name.
    Replaced,
    /// The file has it already, just like this.
    Unchanged,
    /// The file has another one of the same name, which stays.
    Kept,
}

/// Why a host's file was not written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The file is invalid and left unchanged.
    #[error("{0}")]
    Unreadable(Box<Problem>),
    /// The file does not have the structure of the host's configuration, and is left unchanged.
    #[error("{}: {reason}", file.display())]
    Shape {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Another process changed the file since it was read.
    #[error("{} was changed by another process; try again", .0.display())]
    Raced(PathBuf),
    /// The file or its backup could not be written.
    #[error("cannot write {}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

impl HostFile {
    /// Opens a file, which need not exist.
    ///
    /// # Errors
    /// If the file cannot be read or has another structure.
    pub fn open(host: ExportHost, path: &Path) -> Result<Self, ExportError> {
        let seen = jsonc::read_file(path).map_err(ExportError::Unreadable)?;
        let text = seen.clone().unwrap_or_default();
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&text).to_owned();
        let file = Self { path: path.to_owned(), key: host.servers_key(), seen, text };
        let root = file.tree()?;
        let Some(value) = root.value() else { return Ok(file) };
        let Some(object) = value.as_object() else { return Err(file.shape("it does not contain an object")) };
        match object.get(file.key) {
            Some(servers) if servers.object_value().is_none() => {
                Err(file.shape(&format!("`{}` is not an object of servers", file.key)))
            }
            _ => Ok(file),
        }
    }

    /// Adds a server. One of the same name is only replaced on request.
    ///
    /// # Errors
    /// If the text cannot be parsed again.
    pub fn add(&mut self, name: &str, entry: &Map<String, Value>, replace: bool) -> Result<Exported, ExportError> {
        let root = self.tree()?;
        let servers: CstObject = root.object_value_or_set().object_value_or_set(self.key);
        let entry = Value::Object(entry.clone());
        let exported = match servers.get(name) {
            None => {
                servers.append(name, input(&entry));
                Exported::New
            }
            Some(property) => match property.value().and_then(|value| parse_json(&value.to_string()).ok()) {
                Some(existing) if Value::Object(existing.clone()) == entry => Exported::Unchanged,
                _ if !replace => Exported::Kept,
                _ => {
                    property.set_value(input(&entry));
                    Exported::Replaced
                }
            },
        };
        if matches!(exported, Exported::New | Exported::Replaced) {
            self.text = root.to_string();
        }
        Ok(exported)
    }

    /// Replaces the file atomically, after storing its content in `backup`, or beside it if that exists: no backup is
    /// replaced. Returns the backup; a new file has none.
    ///
    /// # Errors
    /// If the backup or the file cannot be written, or the file changed since it was read.
    pub fn save(self, backup: &Path) -> Result<Option<PathBuf>, ExportError> {
        let mark =
            if self.seen.as_ref().is_some_and(|seen| seen.starts_with(BYTE_ORDER_MARK)) { "\u{feff}" } else { "" };
        let end = if self.text.ends_with('\n') || self.seen.is_some() { "" } else { "\n" };
        let text = format!("{mark}{}{end}", self.text);
        // Entries may contain secrets, so a backup is private, whatever the permissions of the file are.
        let backup = match &self.seen {
            Some(seen) => Some(write_backup(backup, seen.as_bytes())?),
            None => None,
        };
        let readers = if self.seen.is_some() { Readers::Default } else { Readers::Owner };
        let seen = self.seen.as_deref().map(str::as_bytes);
        let error = match store::replace(&self.path, seen, text.as_bytes(), readers) {
            Ok(()) => return Ok(backup),
            Err(NotWritten::Raced) => ExportError::Raced(self.path),
            Err(NotWritten::Io(source)) => ExportError::Io { file: self.path, source },
        };
        // Nothing changed, so there is nothing to go back to.
        if let Some(backup) = backup {
            let _ = std::fs::remove_file(backup);
        }
        Err(error)
    }

    fn tree(&self) -> Result<CstRootNode, ExportError> {
        CstRootNode::parse(&self.text, &jsonc::parse_options())
            .map_err(|error| self.shape(&format!("invalid JSON: {error}")))
    }

    fn shape(&self, reason: &str) -> ExportError {
        ExportError::Shape { file: self.path.clone(), reason: reason.to_owned() }
    }
}

/// Writes a backup under the first name that is free: `backup`, `backup-2`, and so on.
fn write_backup(backup: &Path, content: &[u8]) -> Result<PathBuf, ExportError> {
    let name = backup.file_name().unwrap_or_default();
    for number in 1..=MAX_BACKUPS {
        let mut name = name.to_owned();
        if number > 1 {
            name.push(format!("-{number}"));
        }
        let path = backup.with_file_name(name);
        match create_private_file(&path, content) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(ExportError::Io { file: path, source }),
        }
    }
    let source =
        std::io::Error::new(std::io::ErrorKind::AlreadyExists, format!("{MAX_BACKUPS} backups of this name exist"));
    Err(ExportError::Io { file: backup.to_owned(), source })
}
