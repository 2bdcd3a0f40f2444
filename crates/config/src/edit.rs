//! Edits a configuration file. Everything else in it stays as it is, byte for byte, including comments.

mod remove;

use std::path::{Path, PathBuf};

use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use serde_json::Value;
use wharf_protocol::ServerName;

use crate::cursor::{Cursor, Document};
use crate::entry_name::{means, server_name};
use crate::file::check_inside;
use crate::jsonc::{self, MAX_FILE_BYTES};
use crate::problem::{Problem, Severity};
use crate::project::ProjectFile;
use crate::server::Scope;
use crate::store::{self, NotWritten, Readers};

const SERVERS: &str = "mcpServers";
const ENABLED: &str = "enabledServers";
const DISABLED: &str = "disabledServers";
const BYTE_ORDER_MARK: char = '\u{feff}';

/// An editor of one configuration file. Nothing is written before [`save`](Self::save).
#[derive(Debug)]
pub struct Editor {
    file: PathBuf,
    scope: Scope,
    readers: Readers,
    /// The content of the file when it was opened.
    seen: Option<String>,
    /// The new content, without a byte order mark.
    text: String,
}

/// What to do if a server exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExisting {
    /// Fail with [`EditError::Exists`].
    Refuse,
    /// Replace it.
    Replace,
}

/// Why a file was not edited.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// A server with this name exists.
    #[error("server `{name}` already exists in {}", file.display())]
    Exists {
        /// The name of the server.
        name: String,
        /// The configuration file.
        file: PathBuf,
    },
    /// No server has this name.
    #[error("no server `{name}` in {}", file.display())]
    Missing {
        /// The name of the server.
        name: String,
        /// The configuration file.
        file: PathBuf,
    },
    /// The file is invalid and left unchanged.
    #[error("{0}")]
    Unreadable(Box<Problem>),
    /// Another process changed the file since it was opened.
    #[error("{} was changed by another process; try again", .0.display())]
    Raced(PathBuf),
    /// The file could not be read or written.
    #[error("cannot change {}: {source}", file.display())]
    Io {
        /// The configuration file.
        file: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

impl Editor {
    /// Opens a file of a scope. A missing file is created by [`save`](Self::save), readable by its owner only unless it
    /// is a project's.
    ///
    /// # Errors
    /// If the file cannot be read or is invalid.
    pub fn open(file: &Path, scope: Scope) -> Result<Self, EditError> {
        let unreadable = EditError::Unreadable;
        check_project_file(file, scope).map_err(unreadable)?;
        let seen = jsonc::read_file(file).map_err(unreadable)?;
        let text = seen.clone().unwrap_or_default();
        let document = Document::parse(file, &text).map_err(unreadable)?;
        check_editable(&document).map_err(unreadable)?;
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&text).to_owned();
        let readers = if scope == Scope::Project { Readers::Default } else { Readers::Owner };
        Ok(Self { file: file.to_owned(), scope, readers, seen, text })
    }

    /// Returns the names of the servers in the file; of an invalid name the key.
    pub fn names(&self) -> Vec<String> {
        let name = |key: String| server_name(&key).map_or(key, |name| name.to_string());
        let servers = self.tree().ok().and_then(|root| servers(&root));
        servers.iter().flat_map(keys).map(name).collect()
    }

    /// Adds a server.
    ///
    /// # Errors
    /// If the server exists and `existing` says to refuse.
    pub fn add(&mut self, name: &ServerName, entry: &Value, existing: OnExisting) -> Result<(), EditError> {
        let root = self.tree()?;
        let servers = root.object_value_or_set().object_value_or_set(SERVERS);
        let key = key_of(&servers, name.as_str());
        match (key.and_then(|key| servers.get(&key)), existing) {
            (Some(_), OnExisting::Refuse) => {
                return Err(EditError::Exists { name: name.to_string(), file: self.file.clone() });
            }
            (Some(property), OnExisting::Replace) => property.set_value(input(entry)),
            (None, _) => {
                servers.append(name.as_str(), input(entry));
            }
        }
        self.text = root.to_string();
        Ok(())
    }

    /// Removes a server.
    ///
    /// # Errors
    /// If the server does not exist.
    pub fn remove(&mut self, name: &str) -> Result<(), EditError> {
        let key = servers(&self.tree()?).and_then(|servers| key_of(&servers, name));
        let removed = key.and_then(|key| remove::key(&self.text, &[SERVERS], &key));
        self.text = removed.ok_or_else(|| self.missing(name))?;
        Ok(())
    }

    /// Sets a key of a server's entry, or removes it.
    ///
    /// # Errors
    /// If the server does not exist, or its entry is not an object.
    pub fn set(&mut self, name: &str, key: &str, value: Option<&Value>) -> Result<(), EditError> {
        let root = self.tree()?;
        let servers = servers(&root).ok_or_else(|| self.missing(name))?;
        let written = key_of(&servers, name).ok_or_else(|| self.missing(name))?;
        let property = servers.get(&written).ok_or_else(|| self.missing(name))?;
        let Some(entry) = property.object_value() else {
            let source = std::io::Error::other(format!("the entry of `{name}` is not an object"));
            return Err(EditError::Io { file: self.file.clone(), source });
        };
        match (entry.get(key), value) {
            (Some(property), Some(value)) => property.set_value(input(value)),
            (None, Some(value)) => {
                entry.append(key, input(value));
            }
            (_, None) => {
                self.text = remove::key(&self.text, &[SERVERS, &written], key).unwrap_or_else(|| self.text.clone());
                return Ok(());
            }
        }
        self.text = root.to_string();
        Ok(())
    }

    /// Enables a server of any scope: moves it from `disabledServers` to `enabledServers`.
    ///
    /// # Errors
    /// If the file cannot be parsed.
    pub fn enable(&mut self, name: &ServerName) -> Result<(), EditError> {
        self.move_name(name, DISABLED, ENABLED)
    }

    /// Disables a server of any scope: moves it from `enabledServers` to `disabledServers`.
    ///
    /// # Errors
    /// If the file cannot be parsed.
    pub fn disable(&mut self, name: &ServerName) -> Result<(), EditError> {
        self.move_name(name, ENABLED, DISABLED)
    }

    fn move_name(&mut self, name: &ServerName, from: &str, into: &str) -> Result<(), EditError> {
        while let Some(left) = remove::item(&self.text, from, name.as_str()) {
            self.text = left;
        }
        let list = |root: &CstRootNode, key: &str| root.object_value().and_then(|root| root.array_value(key));
        // An empty list is removed, unless it contains a comment.
        let is_blank = |list: CstArray| list.to_string().trim_matches(['[', ']']).trim().is_empty();
        if list(&self.tree()?, from).is_some_and(is_blank) {
            self.text = remove::key(&self.text, &[], from).unwrap_or_else(|| self.text.clone());
        }
        let root = self.tree()?;
        let list = root.object_value_or_set().array_value_or_set(into);
        if !list.elements().iter().any(|item| is_meant(item, name.as_str())) {
            list.append(name.as_str().into());
        }
        self.text = root.to_string();
        Ok(())
    }

    /// Returns the new content of the file.
    pub fn text(&self) -> String {
        let mark =
            if self.seen.as_ref().is_some_and(|seen| seen.starts_with(BYTE_ORDER_MARK)) { "\u{feff}" } else { "" };
        let is_new = self.seen.as_ref().is_none_or(String::is_empty);
        let end = if is_new && !self.text.is_empty() && !self.text.ends_with('\n') { "\n" } else { "" };
        format!("{mark}{}{end}", self.text)
    }

    /// Replaces the file atomically. A link stays a link.
    ///
    /// # Errors
    /// If the file changed since it was opened, or cannot be written.
    pub fn save(self) -> Result<(), EditError> {
        let text = self.text();
        if self.seen.as_ref() == Some(&text) {
            return Ok(());
        }
        if text.len() as u64 > MAX_FILE_BYTES {
            let source = std::io::Error::other(jsonc::too_long());
            return Err(EditError::Io { file: self.file, source });
        }
        check_project_file(&self.file, self.scope).map_err(EditError::Unreadable)?;
        let seen = self.seen.as_deref().map(str::as_bytes);
        match store::replace(&self.file, seen, text.as_bytes(), self.readers) {
            Ok(()) => Ok(()),
            Err(NotWritten::Raced) => Err(EditError::Raced(self.file)),
            Err(NotWritten::Io(source)) => Err(EditError::Io { file: self.file, source }),
        }
    }

    fn tree(&self) -> Result<CstRootNode, EditError> {
        CstRootNode::parse(&self.text, &jsonc::parse_options()).map_err(|error| {
            let problem = Problem::of_file(Severity::Error, &self.file, format!("invalid JSON: {error}"));
            EditError::Unreadable(Box::new(problem))
        })
    }

    fn missing(&self, name: &str) -> EditError {
        EditError::Missing { name: name.to_owned(), file: self.file.clone() }
    }
}

/// Checks that a project's file is not a link out of the project: the file would be someone else's.
fn check_project_file(file: &Path, scope: Scope) -> Result<(), Box<Problem>> {
    match file.parent() {
        Some(root) if scope == Scope::Project => {
            check_inside(&ProjectFile { root: root.to_owned(), file: file.to_owned() })
        }
        _ => Ok(()),
    }
}

fn servers(root: &CstRootNode) -> Option<CstObject> {
    root.object_value()?.object_value(SERVERS)
}

fn keys(servers: &CstObject) -> Vec<String> {
    servers.properties().iter().filter_map(CstObjectProp::decoded_name).collect()
}

/// Returns the key of a server, which may differ from its name. The name itself counts first.
fn key_of(servers: &CstObject, name: &str) -> Option<String> {
    let keys = keys(servers);
    keys.iter().find(|key| *key == name).or_else(|| keys.iter().find(|key| means(key, name))).cloned()
}

/// Checks the types of what an edit changes: replacing a value of another type would lose it.
fn check_editable(document: &Document) -> Result<(), Box<Problem>> {
    let root = document.root();
    if !root.is_object() {
        return Err(root.wrong_type("an object with `mcpServers`").into());
    }
    let servers = root.field(SERVERS);
    if let Some(servers) = servers.as_ref().filter(|servers| !servers.is_object()) {
        return Err(servers.wrong_type("an object of servers").into());
    }
    for list in [ENABLED, DISABLED].iter().filter_map(|key| root.field(key)) {
        if !list.is_list() {
            return Err(list.wrong_type("a list of names").into());
        }
    }
    let duplicate = root.duplicate_keys().into_iter().chain(servers.iter().flat_map(Cursor::duplicate_keys)).next();
    match duplicate {
        Some(problem) => Err(problem.into()),
        None => Ok(()),
    }
}

/// Whether an item of a list means a server.
fn is_meant(node: &CstNode, server: &str) -> bool {
    let text = node.as_string_lit().and_then(|literal| literal.decoded_value().ok());
    text.is_some_and(|text| means(&text, server))
}

pub(crate) fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(fields) => {
            CstInputValue::Object(fields.iter().map(|(key, value)| (key.clone(), input(value))).collect())
        }
    }
}
