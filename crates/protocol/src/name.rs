//! Names with an invariant: parsed once, trusted afterwards.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Maximum length of a server name, in bytes.
const MAX_SERVER_NAME_BYTES: usize = 64;

/// The name of a server as users write it in their configuration.
///
/// Invariant: 1 to 64 bytes of `[A-Za-z0-9_.-]`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ServerName(Arc<str>);

/// A tool's identity: its server and its name on that server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolRef {
    /// Name of the server.
    pub server: ServerName,
    /// The tool's own name, as it goes over the wire.
    pub tool: Arc<str>,
}

/// An invalid server name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// The name is empty.
    #[error("invalid server name: it is empty")]
    Empty,
    /// The name is longer than 64 bytes.
    #[error("invalid server name `{0}`: longer than {MAX_SERVER_NAME_BYTES} bytes")]
    TooLong(String),
    /// The name contains an invalid character.
    #[error("invalid server name `{name}`: contains {}; use letters, digits, `_`, `.` and `-`", describe(*character))]
    Character {
        /// The name.
        name: String,
        /// The first invalid character.
        character: char,
    },
}

fn describe(character: char) -> String {
    if character.is_ascii_graphic() {
        format!("`{character}`")
    } else {
        format!("the character U+{:04X}", u32::from(character))
    }
}

impl ServerName {
    /// Copies the name into its own allocation, so that its reference count is not shared.
    #[must_use]
    pub fn copied(&self) -> Self {
        Self(Arc::from(&*self.0))
    }

    /// Returns the name as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ServerName {
    type Err = InvalidName;

    fn from_str(name: &str) -> Result<Self, InvalidName> {
        if name.is_empty() {
            return Err(InvalidName::Empty);
        }
        let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        if let Some(character) = name.chars().find(|c| !allowed(c)) {
            return Err(InvalidName::Character { name: name.to_owned(), character });
        }
        if name.len() > MAX_SERVER_NAME_BYTES {
            return Err(InvalidName::TooLong(name.to_owned()));
        }
        Ok(Self(name.into()))
    }
}

impl TryFrom<String> for ServerName {
    type Error = InvalidName;

    fn try_from(name: String) -> Result<Self, InvalidName> {
        name.parse()
    }
}

impl From<ServerName> for String {
    fn from(name: ServerName) -> Self {
        name.as_str().to_owned()
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_names_report_the_reason() {
        let error = |name: &str| name.parse::<ServerName>().unwrap_err().to_string();
        assert_eq!(error(""), "invalid server name: it is empty");
        assert_eq!(
            error("my server"),
            "invalid server name `my server`: contains the character U+0020; use letters, digits, `_`, `.` and `-`"
        );
        assert_eq!(
            error("gіthub"),
            "invalid server name `gіthub`: contains the character U+0456; use letters, digits, `_`, `.` and `-`"
        );
        assert!(error(&"a".repeat(65)).ends_with("longer than 64 bytes"));
        assert_eq!("a".repeat(64).parse::<ServerName>().unwrap().as_str().len(), 64);
        assert!(serde_json::from_str::<ServerName>("\"a/b\"").is_err());
    }
}
