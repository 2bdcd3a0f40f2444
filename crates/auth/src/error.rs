//! What can go wrong when signing in. No secret is in any of it.

use super::store::StoreError;

/// Why there is no token.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OAuthError {
    /// Something cannot be reached now.
    #[error("{url} cannot be reached: {reason}")]
    Unreachable {
        /// What.
        url: String,
        /// Why not.
        reason: String,
    },
    /// A server names an address that is not used.
    #[error("{server} leads to `{url}`, which is refused: {reason}")]
    Refused {
        /// The server.
        server: String,
        /// The address.
        url: String,
        /// Why it is not used.
        reason: String,
    },
    /// A server says that it is another one.
    #[error("{endpoint} claims to be {claimed}; a sign-in for one is none for the other")]
    OtherResource {
        /// Who it claims to be.
        claimed: String,
        /// Where it was reached.
        endpoint: String,
    },
    /// An authorization server says that it is another one.
    #[error("{issuer} claims to be {claimed}, and cannot be trusted")]
    OtherIssuer {
        /// Who it claims to be.
        claimed: String,
        /// Who was asked.
        issuer: String,
    },
    /// An authorization server does not describe itself.
    #[error("{0} is to let us in and does not say how (there is no authorization server metadata)")]
    NoMetadata(String),
    /// An authorization server takes codes from whoever has them.
    #[error("{0} does not say that it supports S256, without which a sign-in can be stolen")]
    NoProof(String),
    /// An authorization server has no page for people.
    #[error("{0} has no page to sign in on")]
    NoPage(String),
    /// An authorization server wants clients that it knows.
    #[error("{0} lets nobody register; get a client id from it, and set `oauth.clientId`")]
    NoClient(String),
    /// The browser came back with something else than what was asked for.
    #[error("the sign-in cannot be trusted: {0}")]
    Forged(&'static str),
    /// An authorization server says no.
    #[error("{url} says no: {error}{}", description.as_deref().map(|words| format!(" ({words})")).unwrap_or_default())]
    Denied {
        /// Which.
        url: String,
        /// Its code for why.
        error: String,
        /// Its words for why.
        description: Option<String>,
    },
    /// An authorization server says nothing that can be used.
    #[error("the answer of {url} cannot be used: {reason}")]
    Malformed {
        /// Which.
        url: String,
        /// Why.
        reason: String,
    },
    /// The person who was to sign in did not.
    #[error("nobody has signed in: {0}")]
    Nobody(String),
    /// The server's own address cannot be used.
    #[error("`{0}` is no address of a server that one can sign in to")]
    Endpoint(String),
    /// A key cannot be used.
    #[error("there is no usable key: it has to be a P-256 or RSA key in PEM that begins with BEGIN PRIVATE KEY")]
    NoKey,
    /// The system has no random numbers.
    #[error("the system gives no random numbers")]
    NoChance,
    /// Sign-ins cannot be read or kept.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl OAuthError {
    /// Whether a token that is asked for once more in a while may come.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Store(_))
    }
}
