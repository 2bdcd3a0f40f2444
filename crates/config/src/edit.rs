//! Changing a configuration file: everything else in it stays as it was, byte for byte, comments included.

mod cut;

use std::path::{Path, PathBuf};

use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};
use serde_json::Value;
use wharf_protocol::ServerName;

use super::file::stays_inside;
use super::problem::{Problem, Severity};
use super::project::ProjectFile;
use super::server::Scope;
use super::store::{self, NotWritten, Readers};
use super::text::{self, At, Document};

const SERVERS: &str = "mcpServers";
const ENABLED: &str = "enabledServers";
const DISABLED: &str = "disabledServers";
const MARK: char = '\u{feff}';

/// A configuration file that is being changed. Nothing is written before [`save`](Self::save).
#[derive(Debug)]
pub struct Editor {
    file: PathBuf,
    scope: Scope,
    readers: Readers,
    /// What the file held when it was opened.
    seen: Option<String>,
    /// What it will hold, without a byte order mark.
    text: String,
}

/// What to do with a server that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExisting {
    /// Leave it and say so.
    Refuse,
    /// Put the new one in its place.
    Replace,
}

/// Why a file was not changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// A server of that name is there already.
    #[error("{} has a server `{name}` already", file.display())]
    Exists {
        /// The server.
        name: String,
        /// The file.
        file: PathBuf,
    },
    /// There is no server of that name.
    #[error("{} has no server `{name}`", file.display())]
    Missing {
        /// The server.
        name: String,
        /// The file.
        file: PathBuf,
    },
    /// The file cannot be understood, so it is left alone.
    #[error("{0}")]
    Unreadable(Box<Problem>),
    /// Somebody else changed the file in between.
    #[error("{} was changed by somebody else meanwhile; try again", .0.display())]
    Raced(PathBuf),
    /// The file could not be read or written.
    #[error("cannot change {}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Editor {
    /// Opens a file of a scope. A missing one is made when it is saved, readable by its owner only unless it is a
    /// project's.
    pub fn open(file: &Path, scope: Scope) -> Result<Self, EditError> {
        let unreadable = EditError::Unreadable;
        stays(file, scope).map_err(unreadable)?;
        let seen = text::read(file).map_err(unreadable)?;
        let text = seen.clone().unwrap_or_default();
        let document = Document::parse(file, &text).map_err(unreadable)?;
        is_editable(&document).map_err(unreadable)?;
        let text = text.strip_prefix(MARK).unwrap_or(&text).to_owned();
        let readers = if scope == Scope::Project { Readers::Usual } else { Readers::Owner };
        Ok(Self { file: file.to_owned(), scope, readers, seen, text })
    }

    /// The names of the servers in it.
    pub fn names(&self) -> Vec<String> {
        let servers = self.tree().ok().and_then(|root| servers(&root));
        servers.iter().flat_map(CstObject::properties).filter_map(|property| property.decoded_name()).collect()
    }

    /// Adds a server.
    pub fn add(&mut self, name: &ServerName, entry: &Value, existing: OnExisting) -> Result<(), EditError> {
        let root = self.tree()?;
        let servers = root.object_value_or_set().object_value_or_set(SERVERS);
        match (servers.get(name.as_str()), existing) {
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
    pub fn remove(&mut self, name: &str) -> Result<(), EditError> {
        self.text = cut::key(&self.text, &[SERVERS], name).ok_or_else(|| self.missing(name))?;
        Ok(())
    }

    /// Sets one key of a server's entry, or removes it.
    pub fn set(&mut self, name: &str, key: &str, value: Option<&Value>) -> Result<(), EditError> {
        let root = self.tree()?;
        let property = servers(&root).and_then(|servers| servers.get(name)).ok_or_else(|| self.missing(name))?;
        let Some(entry) = property.object_value() else {
            let source = std::io::Error::other(format!("the entry of `{name}` is no object"));
            return Err(EditError::Io { file: self.file.clone(), source });
        };
        match (entry.get(key), value) {
            (Some(property), Some(value)) => property.set_value(input(value)),
            (None, Some(value)) => {
                entry.append(key, input(value));
            }
            (_, None) => {
                self.text = cut::key(&self.text, &[SERVERS, name], key).unwrap_or_else(|| self.text.clone());
                return Ok(());
            }
        }
        self.text = root.to_string();
        Ok(())
    }

    /// Switches a server of any scope on: takes it out of `disabledServers` and puts it into `enabledServers`.
    pub fn enable(&mut self, name: &ServerName) -> Result<(), EditError> {
        self.switch(name, ENABLED, DISABLED)
    }

    /// Switches a server of any scope off: the other way round.
    pub fn disable(&mut self, name: &ServerName) -> Result<(), EditError> {
        self.switch(name, DISABLED, ENABLED)
    }

    fn switch(&mut self, name: &ServerName, into: &str, out_of: &str) -> Result<(), EditError> {
        while let Some(left) = cut::item(&self.text, out_of, name.as_str()) {
            self.text = left;
        }
        let list = |root: &CstRootNode, key: &str| root.object_value().and_then(|root| root.array_value(key));
        // A list with nothing in it goes, unless somebody wrote a comment there.
        let blank = |list: CstArray| list.to_string().trim_matches(['[', ']']).trim().is_empty();
        if list(&self.tree()?, out_of).is_some_and(blank) {
            self.text = cut::key(&self.text, &[], out_of).unwrap_or_else(|| self.text.clone());
        }
        let root = self.tree()?;
        let list = root.object_value_or_set().array_value_or_set(into);
        if !list.elements().iter().any(|item| is_text(item, name.as_str())) {
            list.append(name.as_str().into());
        }
        self.text = root.to_string();
        Ok(())
    }

    /// What the file will be.
    pub fn text(&self) -> String {
        let mark = if self.seen.as_ref().is_some_and(|seen| seen.starts_with(MARK)) { "\u{feff}" } else { "" };
        let is_new = self.seen.as_ref().is_none_or(String::is_empty);
        let end = if is_new && !self.text.is_empty() && !self.text.ends_with('\n') { "\n" } else { "" };
        format!("{mark}{}{end}", self.text)
    }

    /// Writes the file, so that a reader sees the old one or the new one. A link stays a link.
    pub fn save(self) -> Result<(), EditError> {
        let text = self.text();
        if self.seen.as_ref() == Some(&text) {
            return Ok(());
        }
        if text.len() as u64 > text::LONGEST {
            let source = std::io::Error::other(format!("it would be longer than {} bytes", text::LONGEST));
            return Err(EditError::Io { file: self.file, source });
        }
        stays(&self.file, self.scope).map_err(EditError::Unreadable)?;
        let seen = self.seen.as_deref().map(str::as_bytes);
        match store::replace(&self.file, seen, text.as_bytes(), self.readers) {
            Ok(()) => Ok(()),
            Err(NotWritten::Raced) => Err(EditError::Raced(self.file)),
            Err(NotWritten::Io(source)) => Err(EditError::Io { file: self.file, source }),
        }
    }

    fn tree(&self) -> Result<CstRootNode, EditError> {
        CstRootNode::parse(&self.text, &text::options()).map_err(|error| {
            let problem = Problem::of_file(Severity::Error, &self.file, format!("is no valid JSON: {error}"));
            EditError::Unreadable(Box::new(problem))
        })
    }

    fn missing(&self, name: &str) -> EditError {
        EditError::Missing { name: name.to_owned(), file: self.file.clone() }
    }
}

/// A project's file that is a link out of the project is no more written than it is read: it would be somebody else's.
fn stays(file: &Path, scope: Scope) -> Result<(), Box<Problem>> {
    match file.parent().filter(|_| scope == Scope::Project) {
        Some(root) => stays_inside(&ProjectFile { root: root.to_owned(), file: file.to_owned() }),
        None => Ok(()),
    }
}

fn servers(root: &CstRootNode) -> Option<CstObject> {
    root.object_value()?.object_value(SERVERS)
}

/// Whether what is to be changed is what it has to be; otherwise changing it would take something away.
fn is_editable(document: &Document) -> Result<(), Box<Problem>> {
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
    let repeated = root.repeated().into_iter().chain(servers.iter().flat_map(At::repeated)).next();
    match repeated {
        Some(at) => Err(at.error("is there twice").with_hint("keep one").into()),
        None => Ok(()),
    }
}

fn is_text(node: &CstNode, text: &str) -> bool {
    node.as_string_lit().and_then(|literal| literal.decoded_value().ok()).is_some_and(|value| value == text)
}

fn input(value: &Value) -> CstInputValue {
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
