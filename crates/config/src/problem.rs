//! Problems of a configuration: where, what, and how to fix it.

use std::fmt;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

use crate::hidden_chars::visible;

/// The severity of a [`Problem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The server or the whole file cannot be used.
    Error,
    /// Usable, but probably not what was meant.
    Warning,
    /// Additional information.
    Note,
}

/// What a problem is about, for callers that show some problems elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProblemKind {
    /// A server is not used although its entry is valid: it is shadowed, a duplicate or not allowed.
    ServerNotUsed,
    /// A command installs the latest version of an npm package without a question, as `npx -y` does. A note, because it
    /// works; worth a warning where a person looks at the entry.
    UnpinnedPackage,
    /// A timeout is too short to be meant in milliseconds. A note, because the default applies; an error in an entry that
    /// is about to be stored, and worth advice where a person looks for problems.
    IgnoredTimeout,
    /// Any other problem.
    #[default]
    Other,
}

/// An error, warning or note about a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Whether the affected part can still be used.
    pub severity: Severity,
    /// What it is about.
    #[serde(skip)]
    pub kind: ProblemKind,
    /// The file with the problem; empty if the entry came from elsewhere.
    pub file: PathBuf,
    /// The line, counted from 1; 0 if the problem concerns the whole file.
    pub line: usize,
    /// The column in characters, counted from 1; 0 if the problem concerns the whole file.
    pub column: usize,
    /// The path of keys, such as `mcpServers.github.timeout`.
    pub path: String,
    /// The name of the affected server, as written.
    pub server: Option<String>,
    /// What is wrong. Never contains the value of a variable.
    #[serde(serialize_with = "serialize_visible")]
    pub message: String,
    /// How to fix it.
    #[serde(serialize_with = "serialize_visible_option")]
    pub hint: Option<String>,
}

impl Problem {
    /// Creates a problem of a whole file.
    pub fn of_file(severity: Severity, file: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self {
            severity,
            kind: ProblemKind::Other,
            file: file.into(),
            line: 0,
            column: 0,
            path: String::new(),
            server: None,
            message: message.into(),
            hint: None,
        }
    }

    /// Adds a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the affected server.
    #[must_use]
    pub fn of_server(mut self, name: &str) -> Self {
        self.server = Some(name.to_owned());
        self
    }

    /// Returns whether the severity is [`Severity::Error`].
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// `.mcp.json:7: mcpServers.github.timeout: 30 is less than 1000 milliseconds; did you mean 30000?`
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An entry from a command line has no file.
        if !self.file.as_os_str().is_empty() {
            write!(f, "{}", visible(&self.file.to_string_lossy()))?;
            if self.line > 0 {
                write!(f, ":{}", self.line)?;
            }
            f.write_str(": ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", visible(&self.path))?;
        }
        f.write_str(&visible(&self.message))?;
        match &self.hint {
            Some(hint) => write!(f, "; {}", visible(hint)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

fn serialize_visible<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&visible(text))
}

#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
fn serialize_visible_option<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    text.as_deref().map(visible).serialize(serializer)
}
