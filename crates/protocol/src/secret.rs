//! A text that cannot be printed by accident.

use std::fmt;
use std::sync::Arc;

/// A token, a password, a variable's value: has no `Display`, is not serialised, and shows nothing in `Debug`.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Takes a text into custody.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text, for whoever has to send it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
