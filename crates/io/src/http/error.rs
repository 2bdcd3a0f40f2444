//! Errors of the HTTP client.

/// Why a request got no response.
#[derive(Clone, Debug, thiserror::Error)]
pub enum HttpError {
    /// The connection failed; nothing was sent.
    #[error("{0}")]
    Unreachable(String),
    /// The server's certificate was rejected; nothing was sent.
    #[error("the connection is not secure: {0}")]
    Untrusted(String),
    /// The connection broke after the request, or a part of it, was sent.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The server responded with a redirect that the client does not follow.
    #[error("it redirects {0}")]
    Redirected(String),
}

/// Why settings are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSettings {
    /// The additional certificates are invalid.
    #[error("invalid extra certificates: {0}")]
    Certificates(String),
    /// A proxy URL is invalid. It is not shown, because it may contain a password.
    #[error("invalid proxy in {0}: expected an http, https or socks5 URL")]
    Proxy(&'static str),
}
