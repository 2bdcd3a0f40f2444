//! The result of an import.

use std::fmt;

use serde_json::{Map, Value};
use wharf_protocol::ServerName;

/// The servers of another host's file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportedFile {
    /// The imported servers, with unique names.
    pub servers: Vec<ImportedServer>,
    /// Servers that cannot be imported: the name in the file, and the reason.
    pub skipped: Vec<(String, String)>,
    /// Notes about the file as a whole.
    pub notes: Vec<String>,
}

/// An imported server.
#[derive(Clone, PartialEq)]
pub struct ImportedServer {
    /// The name of the server here.
    pub name: ServerName,
    /// The name of the server in the file.
    pub original: String,
    /// The entry, in the format of `.mcp.json`.
    pub entry: Map<String, Value>,
    /// What was changed or left out, and what to check.
    pub notes: Vec<String>,
    /// Whether the entry contains the directory of the current project, in place of a placeholder of the host. Such a
    /// server is for this project only.
    pub is_for_project: bool,
}

/// Omits the values of the entry, which may be secrets.
impl fmt::Debug for ImportedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<&String> = self.entry.keys().collect();
        f.debug_struct("ImportedServer")
            .field("name", &self.name)
            .field("original", &self.original)
            .field("entry", &keys)
            .field("notes", &self.notes)
            .field("is_for_project", &self.is_for_project)
            .finish()
    }
}

/// Why a file cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be parsed.
    #[error("invalid {format} in line {line}: {reason}")]
    Unreadable {
        /// The expected format.
        format: &'static str,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// The file does not have the structure of the host's configuration: probably another file was meant.
    #[error("{0}")]
    Shape(String),
}
