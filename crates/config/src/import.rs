//! Servers that are configured for other hosts, in the words of this one.
//!
//! A file of another host becomes entries of the shape that `.mcp.json` has. Nothing is lost in silence: what has no
//! meaning here is named in a note, and a server that cannot be brought over is listed with the reason. Nothing is read
//! from disk and nothing is run.

mod codex;
mod entry;
mod json;
mod names;
mod places;
mod secrets;
mod servers;
mod words;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde_json::{Map, Value};
use wharf_protocol::ServerName;

pub use places::{ImportDirs, default_files};

use words::{Dialect, Words};

/// A host whose files can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportHost {
    /// Claude Code: `~/.claude.json` and `.mcp.json`.
    ClaudeCode,
    /// Claude Desktop: `claude_desktop_config.json`.
    ClaudeDesktop,
    /// Cursor: `.cursor/mcp.json`.
    Cursor,
    /// VS Code: `.vscode/mcp.json`, the user's `mcp.json`, and `settings.json`.
    VsCode,
    /// Codex: `config.toml`.
    Codex,
}

/// What a file of another host holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportedFile {
    /// The servers, each with a name of its own.
    pub servers: Vec<ImportedServer>,
    /// Those that cannot be brought over, by the names they have there, and why.
    pub skipped: Vec<(String, String)>,
    /// What else there is to know about the file.
    pub notes: Vec<String>,
}

/// One server.
#[derive(Clone, PartialEq)]
pub struct ImportedServer {
    /// What it is called here.
    pub name: ServerName,
    /// What it is called there.
    pub original: String,
    /// Its entry, for a file of the shape of `.mcp.json`.
    pub entry: Map<String, Value>,
    /// What is not as it was, or should be looked at.
    pub notes: Vec<String>,
}

/// Entries may hold secrets, which have no place in a log.
impl fmt::Debug for ImportedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<&String> = self.entry.keys().collect();
        f.debug_struct("Import")
            .field("name", &self.name)
            .field("original", &self.original)
            .field("entry", &keys)
            .field("notes", &self.notes)
            .finish()
    }
}

/// Why a file cannot be read at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// It is not written as it should be: mend it there.
    #[error("line {line} is no {format}: {reason}")]
    Unreadable {
        /// The format it should have.
        format: &'static str,
        /// Where, counted from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// It holds something else than a host's configuration: probably another file was meant.
    #[error("{0}")]
    Shape(String),
}

/// Reads the text of a host's file. `project` is the folder that is worked in: Claude Code keeps servers by it, and
/// editors have a word for it.
pub fn read(host: ImportHost, text: &str, project: Option<&Path>) -> Result<ImportedFile, ImportError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(ImportedFile { notes: vec!["the file is empty".to_owned()], ..ImportedFile::default() });
    }
    match host {
        ImportHost::ClaudeCode => {
            let found = servers::of_claude_code(&json::parse(text)?, project)?;
            Ok(servers::imported(found, &Words::new(Dialect::Ours, project)))
        }
        ImportHost::ClaudeDesktop => {
            let found = servers::under(&json::parse(text)?, &["mcpServers"])?;
            Ok(servers::imported(found, &Words::new(Dialect::Plain, project)))
        }
        ImportHost::Cursor => {
            let found = servers::under(&json::parse(text)?, &["mcpServers"])?;
            Ok(servers::imported(found, &Words::new(Dialect::Editor, project)))
        }
        ImportHost::VsCode => {
            let (found, inputs) = servers::of_vscode(&json::parse(text)?)?;
            Ok(servers::imported(found, &Words::new(Dialect::Editor, project).with_inputs(&inputs)))
        }
        ImportHost::Codex => codex::read(text),
    }
}

impl ImportHost {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::ClaudeCode, Self::ClaudeDesktop, Self::Cursor, Self::VsCode, Self::Codex];

    /// What it is called on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::Codex => "codex",
        }
    }
}

impl fmt::Display for ImportHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for ImportHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.map(Self::as_str).join(", ");
        let found = Self::ALL.into_iter().find(|host| host.as_str() == text);
        found.ok_or_else(|| format!("`{text}` is no host that can be imported from; there are {known}"))
    }
}

#[cfg(test)]
mod tests;
