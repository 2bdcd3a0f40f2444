//! Notes on what was changed or left out while a catalog was built.

use std::fmt;

use serde::Serialize;
use wharf_protocol::ServerName;

use super::tool_filter::MAX_DESCRIPTION_CHARS;

/// A note on a tool, a server or the whole catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CatalogNote {
    /// The server that it is about, if any.
    pub server: Option<ServerName>,
    /// The tool that it is about, if any.
    pub tool: Option<String>,
    /// What was done.
    pub kind: CatalogNoteKind,
    /// The details, or for something left out, the reason.
    pub text: String,
}

/// The kinds of notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CatalogNoteKind {
    /// An item of the list could not be read and was left out.
    Quarantined,
    /// A tool was left out.
    LeftOut,
    /// A tool was left out because of its size.
    TooLarge,
    /// The list itself is irregular.
    List,
    /// A description or the instructions were overridden or cut.
    Description,
    /// A schema was adjusted for models.
    Schema,
    /// A tool has irregular fields.
    Tool,
    /// The configuration names a tool that does not exist.
    UnknownTool,
}

impl CatalogNote {
    pub(super) fn new(server: &ServerName, tool: Option<&str>, kind: CatalogNoteKind, text: String) -> Self {
        Self { server: Some(server.clone()), tool: tool.map(str::to_owned), kind, text }
    }

    /// The note without the server and the tool that it is about.
    pub fn summary(&self) -> String {
        match self.kind {
            CatalogNoteKind::Quarantined | CatalogNoteKind::LeftOut | CatalogNoteKind::TooLarge => {
                format!("left out: {}", self.text)
            }
            _ => self.text.clone(),
        }
    }
}

impl fmt::Display for CatalogNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(server) = &self.server {
            write!(f, "{server}: ")?;
        }
        if let Some(tool) = &self.tool {
            write!(f, "`{tool}`: ")?;
        }
        f.write_str(&self.summary())
    }
}

pub(super) fn description_cut() -> String {
    format!("description cut to {MAX_DESCRIPTION_CHARS} characters")
}
