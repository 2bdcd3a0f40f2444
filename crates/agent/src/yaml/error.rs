//! What is wrong with a text, and on which line.

use std::fmt;

/// An invalid text. The message contains the line.
#[derive(Debug)]
pub struct Error {
    message: String,
    line: Option<usize>,
}

impl Error {
    pub(super) fn new(message: impl Into<String>, line: usize) -> Self {
        Self { message: message.into(), line: Some(line) }
    }

    /// Returns the message without the line.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the line, from 1.
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// Adds the line, unless a more exact one is known.
    pub(super) fn at(self, line: usize) -> Self {
        Self { line: self.line.or(Some(line)), ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.line.map_or(Ok(()), |line| write!(f, " at line {line}"))
    }
}

impl std::error::Error for Error {}

impl serde::de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { message: message.to_string(), line: None }
    }
}
