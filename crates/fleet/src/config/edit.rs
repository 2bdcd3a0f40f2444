//! Changing a configuration file: everything else in it stays as it was, byte for byte, comments included.

use std::path::{Path, PathBuf};

use serde_json::Value;
use wharf_protocol::ServerName;

use super::problem::Problem;
use super::server::Scope;

/// A configuration file that is being changed. Nothing is written before [`save`](Self::save).
pub struct Editor {
    file: PathBuf,
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
        let _ = scope;
        Ok(Self { file: file.to_owned() })
    }

    /// The names of the servers in it.
    pub fn names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Adds a server.
    pub fn add(&mut self, name: &ServerName, entry: &Value, existing: Existing) -> Result<(), EditError> {
        let _ = (name, entry, existing);
        Ok(())
    }

    /// Removes a server.
    pub fn remove(&mut self, name: &str) -> Result<(), EditError> {
        let _ = name;
        Ok(())
    }

    /// Sets one key of a server's entry, or removes it.
    pub fn set(&mut self, name: &str, key: &str, value: Option<&Value>) -> Result<(), EditError> {
        let _ = (name, key, value);
        Ok(())
    }

    /// Switches a server of any scope on, in `enabledServers` and `disabledServers`.
    pub fn enable(&mut self, name: &ServerName) -> Result<(), EditError> {
        let _ = name;
        Ok(())
    }

    /// Switches a server of any scope off.
    pub fn disable(&mut self, name: &ServerName) -> Result<(), EditError> {
        let _ = name;
        Ok(())
    }

    /// What the file will be.
    pub fn text(&self) -> String {
        String::new()
    }

    /// Writes the file, so that a reader sees the old one or the new one.
    pub fn save(self) -> Result<(), EditError> {
        let _ = self.file;
        Ok(())
    }
}
