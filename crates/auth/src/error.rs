//! Errors of signing in. None of them contains a secret.

use crate::store::StoreError;

/// Why no token is available.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OAuthError {
    /// A URL is unreachable at the moment.
    #[error("{url} cannot be reached: {reason}")]
    Unreachable {
        /// The URL.
        url: String,
        /// The cause.
        reason: String,
    },
    /// The server's metadata contains a URL that is not allowed.
    #[error("refused the URL `{url}` named by {server}: {reason}")]
    Refused {
        /// The MCP server.
        server: String,
        /// The refused URL.
        url: String,
        /// Why it is not allowed.
        reason: String,
    },
    /// The protected resource metadata is for another server.
    #[error("resource mismatch: {endpoint} claims to be {claimed}")]
    OtherResource {
        /// The `resource` in the metadata.
        claimed: String,
        /// The URL of the server.
        endpoint: String,
    },
    /// The authorization server metadata is for another issuer.
    #[error("issuer mismatch: {issuer} claims to be {claimed}")]
    OtherIssuer {
        /// The `issuer` in the metadata.
        claimed: String,
        /// The expected issuer.
        issuer: String,
    },
    /// The authorization server has no metadata.
    #[error("no authorization server metadata at {0}")]
    NoMetadata(String),
    /// The authorization server does not support PKCE with S256, without which codes can be stolen.
    #[error("{0} does not support PKCE with S256")]
    NoProof(String),
    /// The authorization server has no authorization endpoint.
    #[error("{0} has no authorization endpoint")]
    NoPage(String),
    /// The authorization server requires a registered client.
    #[error("{0} does not support dynamic client registration; register a client there, and set `oauth.clientId`")]
    NoClient(String),
    /// The redirect does not belong to this authorization.
    #[error("invalid authorization response: {0}")]
    Forged(&'static str),
    /// The authorization server returned an error response.
    #[error("{url} denied the request: {error}{}", description.as_deref().map(|text| format!(" ({text})")).unwrap_or_default())]
    Denied {
        /// The endpoint or issuer.
        url: String,
        /// The OAuth error code.
        error: String,
        /// The description from the authorization server.
        description: Option<String>,
    },
    /// The response of the authorization server is invalid.
    #[error("invalid response from {url}: {reason}")]
    Malformed {
        /// The endpoint.
        url: String,
        /// What is invalid.
        reason: String,
    },
    /// The user did not complete the authorization.
    #[error("sign-in not completed: {0}")]
    Nobody(String),
    /// The URL of the server is invalid.
    #[error("invalid server URL `{0}`")]
    Endpoint(String),
    /// The signing key is missing or invalid.
    #[error("invalid signing key: expected a P-256 or RSA key in PEM that starts with BEGIN PRIVATE KEY")]
    NoKey,
    /// The client secret is not known to belong to the authorization server that the server names.
    #[error("refused to send the client secret to {issuer}, which {server} names: the issuer is not confirmed")]
    UnconfirmedIssuer {
        /// The MCP server.
        server: String,
        /// The issuer that it names.
        issuer: String,
    },
    /// The server requires tokens that are bound to a key, and its authorization server cannot issue them.
    #[error("{0} does not support DPoP with ES256, which the server requires")]
    NoDpop(String),
    /// The stored key that the tokens are bound to is invalid.
    #[error("invalid DPoP key in the stored credentials; sign in again")]
    InvalidDpopKey,
    /// The system has no random numbers.
    #[error("the system provides no random numbers")]
    NoRandomness,
    /// Credentials cannot be read or stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl OAuthError {
    /// Returns whether a later attempt may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Store(_))
    }
}
