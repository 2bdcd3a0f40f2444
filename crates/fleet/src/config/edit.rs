//! Changing a configuration file: everything else in it stays as it was, byte for byte, comments included.

use std::path::{Path, PathBuf};

use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use serde_json::Value;
use wharf_protocol::ServerName;

use super::problem::Problem;
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
    readers: Readers,
    /// What the file held when it was opened.
    seen: Option<String>,
    root: CstRootNode,
}

/// What to do with a server that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
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
        let seen = text::read(file).map_err(unreadable)?;
        let text = seen.clone().unwrap_or_default();
        let document = Document::parse(file, &text).map_err(unreadable)?;
        is_editable(&document).map_err(unreadable)?;
        let plain = text.strip_prefix(MARK).unwrap_or(&text);
        let root = CstRootNode::parse(plain, &text::options())
            .map_err(|error| unreadable(document.root().error(error.to_string()).into()))?;
        let readers = if scope == Scope::Project { Readers::Usual } else { Readers::Owner };
        Ok(Self { file: file.to_owned(), readers, seen, root })
    }

    /// The names of the servers in it.
    pub fn names(&self) -> Vec<String> {
        let servers = self.servers();
        servers.iter().flat_map(CstObject::properties).filter_map(|property| property.decoded_name()).collect()
    }

    /// Adds a server.
    pub fn add(&mut self, name: &ServerName, entry: &Value, existing: Existing) -> Result<(), EditError> {
        let servers = self.root.object_value_or_set().object_value_or_set(SERVERS);
        match (servers.get(name.as_str()), existing) {
            (Some(_), Existing::Refuse) => {
                return Err(EditError::Exists { name: name.to_string(), file: self.file.clone() });
            }
            (Some(property), Existing::Replace) => property.set_value(input(entry)),
            (None, _) => {
                servers.append(name.as_str(), input(entry));
            }
        }
        Ok(())
    }

    /// Removes a server.
    pub fn remove(&mut self, name: &str) -> Result<(), EditError> {
        self.server(name)?.remove();
        Ok(())
    }

    /// Sets one key of a server's entry, or removes it.
    pub fn set(&mut self, name: &str, key: &str, value: Option<&Value>) -> Result<(), EditError> {
        let property = self.server(name)?;
        let Some(entry) = property.object_value() else {
            let missing = std::io::Error::other(format!("the entry of `{name}` is no object"));
            return Err(EditError::Io { file: self.file.clone(), source: missing });
        };
        match (entry.get(key), value) {
            (Some(property), Some(value)) => property.set_value(input(value)),
            (Some(property), None) => property.remove(),
            (None, Some(value)) => {
                entry.append(key, input(value));
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// Switches a server of any scope on: takes it out of `disabledServers` and puts it into `enabledServers`.
    pub fn enable(&mut self, name: &ServerName) {
        self.switch(name, ENABLED, DISABLED);
    }

    /// Switches a server of any scope off: the other way round.
    pub fn disable(&mut self, name: &ServerName) {
        self.switch(name, DISABLED, ENABLED);
    }

    fn switch(&mut self, name: &ServerName, into: &str, out_of: &str) {
        let root = self.root.object_value_or_set();
        if let Some(property) = root.get(out_of)
            && let Some(list) = property.array_value()
        {
            list.elements().into_iter().filter(|item| is_text(item, name.as_str())).for_each(CstNode::remove);
            if list.elements().is_empty() {
                property.remove();
            }
        }
        let list: CstArray = root.array_value_or_set(into);
        if !list.elements().iter().any(|item| is_text(item, name.as_str())) {
            list.append(name.as_str().into());
        }
    }

    /// What the file will be.
    pub fn text(&self) -> String {
        let mark = if self.seen.as_ref().is_some_and(|seen| seen.starts_with(MARK)) { "\u{feff}" } else { "" };
        let text = self.root.to_string();
        let end = if self.seen.as_ref().is_none_or(String::is_empty) && !text.ends_with('\n') { "\n" } else { "" };
        format!("{mark}{text}{end}")
    }

    /// Writes the file, so that a reader sees the old one or the new one. A link stays a link.
    pub fn save(self) -> Result<(), EditError> {
        let text = self.text();
        if self.seen.as_ref() == Some(&text) {
            return Ok(());
        }
        let seen = self.seen.as_deref().map(str::as_bytes);
        match store::replace(&self.file, seen, text.as_bytes(), self.readers) {
            Ok(()) => Ok(()),
            Err(NotWritten::Raced) => Err(EditError::Raced(self.file)),
            Err(NotWritten::Io(source)) => Err(EditError::Io { file: self.file, source }),
        }
    }

    fn servers(&self) -> Option<CstObject> {
        self.root.object_value()?.object_value(SERVERS)
    }

    fn server(&self, name: &str) -> Result<CstObjectProp, EditError> {
        let found = self.servers().and_then(|servers| servers.get(name));
        found.ok_or_else(|| EditError::Missing { name: name.to_owned(), file: self.file.clone() })
    }
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
