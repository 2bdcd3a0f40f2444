//! What is wrong with a configuration: where, what, and how to mend it.

use std::fmt;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something is not used because of it: the server, or the whole file.
    Error,
    /// It works, but hardly as it was meant.
    Warning,
    /// Worth knowing when one looks.
    Note,
}

/// What a problem is about, for callers that show some problems elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProblemKind {
    /// A server is not used although its entry is valid: it is shadowed, a duplicate or not allowed.
    ServerNotUsed,
    /// Anything else.
    #[default]
    Other,
}

/// One thing that is wrong, or worth knowing, about a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    #[serde(skip)]
    pub kind: ProblemKind,
    /// The file it is in.
    pub file: PathBuf,
    /// The line, counted from 1; 0 where it is about the whole file.
    pub line: usize,
    /// The column, counted from 1 in characters; 0 where it is about the whole file.
    pub column: usize,
    /// The keys that lead to it, such as `mcpServers.github.timeout`.
    pub path: String,
    /// The server it is about.
    pub server: Option<String>,
    /// What is wrong. Holds no value that came from a variable.
    #[serde(serialize_with = "visibly")]
    pub message: String,
    /// How to mend it.
    #[serde(serialize_with = "visibly_if_any")]
    pub hint: Option<String>,
}

impl Problem {
    /// A problem of a whole file.
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

    /// The same, with how to mend it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same, as a problem of a server.
    #[must_use]
    pub fn of_server(mut self, name: &str) -> Self {
        self.server = Some(name.to_owned());
        self
    }

    /// Whether something is not used because of it.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// `.mcp.json:7: mcpServers.github.timeout: 30 is under 1000 milliseconds; did you mean 30000?`
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What was given on a command line is in no file.
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

/// A text with everything in it that a terminal would obey or hide written out: a file must not draw on the screen.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_hidden(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Whether a character takes no room, or turns what follows around, or passes for a blank.
pub(crate) fn is_hidden(character: char) -> bool {
    matches!(character,
        '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}'
        | '\u{a0}' | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}'
        | '\u{205f}'..='\u{206f}' | '\u{3000}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn visibly<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&visible(text))
}

#[expect(clippy::ref_option, reason = "serde hands over a reference to the field")]
fn visibly_if_any<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    text.as_deref().map(visible).serialize(serializer)
}
