//! Why a model did not answer: one set of kinds for all providers, which says what may be tried again.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A model that did not answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
pub struct ModelError {
    /// What kind of failure it is.
    pub kind: ModelErrorKind,
    /// What the provider said, or what went wrong on the way, in words.
    pub message: String,
    /// The HTTP status, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long the provider wants to be left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
}

/// The kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelErrorKind {
    /// The key is missing, wrong, or not good for this.
    Auth,
    /// Too much was asked in too short a time.
    RateLimit,
    /// The provider has too much to do.
    Overloaded,
    /// The conversation is longer than the model can take.
    ContextTooLong,
    /// The provider will not answer this.
    Refused,
    /// The request makes no sense to the provider: an unknown model, an argument it does not take.
    Invalid,
    /// The provider failed.
    Server,
    /// The provider could not be reached, or went away in the middle of it.
    Network,
    /// It did not answer in time.
    Timeout,
    /// The answer makes no sense.
    Malformed,
    /// There is nothing to answer with: a script is over, a recording has no such question.
    Exhausted,
}

impl ModelErrorKind {
    /// In a word or two.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "not authorized",
            Self::RateLimit => "rate limit",
            Self::Overloaded => "overloaded",
            Self::ContextTooLong => "context too long",
            Self::Refused => "refused",
            Self::Invalid => "invalid request",
            Self::Server => "server error",
            Self::Network => "network",
            Self::Timeout => "timeout",
            Self::Malformed => "malformed answer",
            Self::Exhausted => "nothing left to answer",
        }
    }
}

impl ModelError {
    /// A failure with words.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), status: None, retry_after: None }
    }

    /// Whether the same request may be answered if it is sent again.
    pub fn may_retry(&self) -> bool {
        match self.kind {
            ModelErrorKind::RateLimit
            | ModelErrorKind::Overloaded
            | ModelErrorKind::Server
            | ModelErrorKind::Network
            | ModelErrorKind::Timeout
            | ModelErrorKind::Malformed => true,
            ModelErrorKind::Auth
            | ModelErrorKind::ContextTooLong
            | ModelErrorKind::Refused
            | ModelErrorKind::Invalid
            | ModelErrorKind::Exhausted => false,
        }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.as_str(), self.message)?;
        match self.status {
            Some(status) => write!(f, " (HTTP {status})"),
            None => Ok(()),
        }
    }
}
