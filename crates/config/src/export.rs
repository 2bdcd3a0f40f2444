//! Writes servers into the files of other hosts.
//!
//! An entry becomes what the host understands; what it does not understand is named in a note. Variables stay references
//! in the host's own syntax. A secret that an entry contains is reported, and copied or replaced by a reference. Everything else in the file stays as it is, byte for byte, including
//! comments, and the file before the change is stored beside it.

mod convert;
mod host_file;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::import::{ImportDirs, ImportHost, default_files};

pub use convert::{ExportedEntry, SecretValues, convert};
pub use host_file::{ExportError, Exported, HostFile};

/// A host whose configuration file can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportHost {
    /// Claude Desktop: `claude_desktop_config.json`.
    ClaudeDesktop,
    /// Cursor: `~/.cursor/mcp.json`.
    Cursor,
    /// VS Code: the user's `mcp.json`.
    VsCode,
}

impl ExportHost {
    /// All hosts.
    pub const ALL: [Self; 3] = [Self::ClaudeDesktop, Self::Cursor, Self::VsCode];

    /// Returns the name, as on the command line.
    pub fn as_str(self) -> &'static str {
        self.import_host().as_str()
    }

    fn import_host(self) -> ImportHost {
        match self {
            Self::ClaudeDesktop => ImportHost::ClaudeDesktop,
            Self::Cursor => ImportHost::Cursor,
            Self::VsCode => ImportHost::VsCode,
        }
    }

    /// The key of the servers in the host's file.
    fn servers_key(self) -> &'static str {
        match self {
            Self::ClaudeDesktop | Self::Cursor => "mcpServers",
            Self::VsCode => "servers",
        }
    }

    /// Returns the file of the user: the first one that exists, or where the host looks first.
    pub fn file(self, dirs: &ImportDirs<'_>) -> Option<PathBuf> {
        let user = ImportDirs { project: None, ..*dirs };
        let files = default_files(self.import_host(), &user);
        // Settings of VS Code contain more than servers.
        let mut files = files.into_iter().filter(|file| !file.ends_with("settings.json"));
        let first = files.next();
        let existing = first.iter().cloned().chain(files).find(|file| file.exists());
        existing.or(first)
    }
}

impl fmt::Display for ExportHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for ExportHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.map(Self::as_str).join(", ");
        let found = Self::ALL.into_iter().find(|host| host.as_str() == text);
        found.ok_or_else(|| format!("unknown host `{text}`: expected one of {known}"))
    }
}

#[cfg(test)]
mod tests;
