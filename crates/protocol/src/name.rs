//! Names with an invariant: they are parsed at the edge and trusted afterwards.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest server name, in bytes.
const LONGEST: usize = 64;

/// The name of a server as users write it in their configuration.
///
/// Invariant: 1 to 64 bytes of `[A-Za-z0-9_.-]`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ServerName(Arc<str>);

/// A tool's identity: the server it lives on and the name that server gave it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolRef {
    /// The server.
    pub server: ServerName,
    /// The tool's own name, as it goes over the wire.
    pub tool: Arc<str>,
}

/// Why a text cannot name a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// There is nothing in it.
    #[error("a server name cannot be empty")]
    Empty,
    /// It is longer than 64 bytes.
    #[error("the server name `{0}` is longer than {LONGEST} bytes")]
    TooLong(String),
    /// It has a character that names do not have.
    #[error("the server name `{name}` has {}; use letters, digits, `_`, `.` and `-`", describe(*character))]
    Character {
        /// The text.
        name: String,
        /// The first character that is not allowed.
        character: char,
    },
}

fn describe(character: char) -> String {
    if character.is_ascii_graphic() {
        format!("`{character}` in it")
    } else {
        format!("the character U+{:04X} in it", u32::from(character))
    }
}

impl ServerName {
    /// The same name in memory of its own, which nobody else counts references to.
    #[must_use]
    pub fn copied(&self) -> Self {
        Self(Arc::from(&*self.0))
    }

    /// The name as it was written.
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
        if name.len() > LONGEST {
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
    fn a_name_that_cannot_be_one_says_why() {
        let refusal = |name: &str| name.parse::<ServerName>().unwrap_err().to_string();
        assert_eq!(refusal(""), "a server name cannot be empty");
        assert_eq!(
            refusal("my server"),
            "the server name `my server` has the character U+0020 in it; use letters, digits, `_`, `.` and `-`"
        );
        assert_eq!(
            refusal("gіthub"),
            "the server name `gіthub` has the character U+0456 in it; use letters, digits, `_`, `.` and `-`"
        );
        assert!(refusal(&"a".repeat(65)).ends_with("is longer than 64 bytes"));
        assert_eq!("a".repeat(64).parse::<ServerName>().unwrap().as_str().len(), 64);
        assert!(serde_json::from_str::<ServerName>("\"a/b\"").is_err());
    }
}
