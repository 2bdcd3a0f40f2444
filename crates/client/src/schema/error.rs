//! Why a schema is not used.

use std::fmt;

/// Why a schema is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaError {
    /// It is not a schema, or uses what is not supported.
    Unusable(String),
    /// Checking a value against it would take too much work.
    OverBudget(String),
    /// Compiling it took too long this time.
    TimedOut,
}

impl SchemaError {
    pub(super) fn unusable(reason: &str) -> Self {
        Self::Unusable(reason.to_owned())
    }

    pub(super) fn patterns_too_large() -> Self {
        Self::OverBudget("its patterns are too large".to_owned())
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable(reason) | Self::OverBudget(reason) => f.write_str(reason),
            Self::TimedOut => f.write_str("compiling it took too long"),
        }
    }
}

impl std::error::Error for SchemaError {}
