//! Model errors: one set of kinds for all providers, which decides what is retried.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A failed model request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
pub struct ModelError {
    /// The kind of failure. It decides whether the request is retried.
    pub kind: ModelErrorKind,
    /// The provider's error message, or the reason of a local failure. Never contains API keys.
    pub message: String,
    /// HTTP status of the response, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Base URL of the provider, without its query. Absent for failures that no provider caused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Minimum delay before a retry, as requested by the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
}

/// The kinds of model errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelErrorKind {
    /// The API key is missing, invalid, or lacks permission.
    Auth,
    /// The account has no credit or quota left. Waiting a moment does not help.
    Quota,
    /// Too many requests or tokens in a short time.
    RateLimit,
    /// The provider is overloaded.
    Overloaded,
    /// The conversation exceeds the model's context window.
    ContextTooLong,
    /// The provider refuses the content of the request.
    Refused,
    /// The provider rejects the request: unknown model, unsupported parameter.
    Invalid,
    /// The URL is not that of an API: the response is a web page, or the path does not exist.
    WrongUrl,
    /// The provider failed internally.
    Server,
    /// The provider is unreachable, or the connection broke.
    Network,
    /// The provider did not respond in time.
    Timeout,
    /// The response could not be parsed.
    Malformed,
    /// A script, trace file or recording has no response for the request.
    Exhausted,
}

impl ModelErrorKind {
    /// Returns a short description.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "not authorized",
            Self::Quota => "quota exceeded",
            Self::RateLimit => "rate limit",
            Self::Overloaded => "overloaded",
            Self::ContextTooLong => "context too long",
            Self::Refused => "refused",
            Self::Invalid => "invalid request",
            Self::WrongUrl => "wrong URL",
            Self::Server => "server error",
            Self::Network => "network error",
            Self::Timeout => "timeout",
            Self::Malformed => "malformed response",
            Self::Exhausted => "no response available",
        }
    }
}

impl ModelError {
    /// Creates an error without an HTTP status.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), status: None, url: None, retry_after: None }
    }

    /// Returns whether the same request may succeed if it is sent again.
    pub fn is_transient(&self) -> bool {
        match self.kind {
            ModelErrorKind::RateLimit
            | ModelErrorKind::Overloaded
            | ModelErrorKind::Server
            | ModelErrorKind::Network
            | ModelErrorKind::Timeout
            | ModelErrorKind::Malformed => true,
            ModelErrorKind::Auth
            | ModelErrorKind::Quota
            | ModelErrorKind::ContextTooLong
            | ModelErrorKind::Refused
            | ModelErrorKind::Invalid
            | ModelErrorKind::WrongUrl
            | ModelErrorKind::Exhausted => false,
        }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.as_str(), self.message)?;
        match (self.status, &self.url) {
            (Some(status), Some(url)) => write!(f, " (HTTP {status} from {url})"),
            (Some(status), None) => write!(f, " (HTTP {status})"),
            (None, Some(url)) => write!(f, " ({url})"),
            (None, None) => Ok(()),
        }
    }
}
