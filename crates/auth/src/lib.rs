//! OAuth 2.1 for MCP clients: from the first 401 response to a token that is refreshed automatically.
//!
//! A transport gets the token of every request from its [`TokenProvider`], and reports requests that the server rejected.
//! [`OAuth`] is the provider that signs users in. It discovers the authorization server (RFC 9728, RFC 8414), registers a
//! client (RFC 7591), opens the authorization page with an [`AuthorizationUi`], and stores the credentials in a [`Store`].
//! Where a server asks for it, tokens are bound to a key (`DPoP`, RFC 9449).

#[cfg(feature = "oauth")]
mod assertion;
mod auth_required;
#[cfg(feature = "oauth")]
pub mod browser;
#[cfg(feature = "oauth")]
mod callback;
mod challenge;
#[cfg(feature = "oauth")]
mod discovery;
#[cfg(feature = "oauth")]
mod dpop;
mod error;
mod failure_cache;
#[cfg(feature = "oauth")]
mod grant;
#[cfg(feature = "oauth")]
mod network_zone;
#[cfg(feature = "oauth")]
mod oauth;
#[cfg(feature = "oauth")]
mod options;
#[cfg(feature = "oauth")]
mod query;
#[cfg(feature = "oauth")]
mod random;
#[cfg(feature = "oauth")]
mod registration;
mod store;
#[cfg(feature = "oauth")]
mod token;
mod token_provider;
#[cfg(feature = "oauth")]
mod ui;
mod zone;

#[cfg(feature = "oauth")]
pub use assertion::SigningKey;
pub use auth_required::AuthRequired;
#[cfg(feature = "oauth")]
pub use callback::{Callback, CallbackError};
pub use challenge::Challenge;
pub use error::OAuthError;
pub use failure_cache::{AUTH_FAILURE_TTL, AuthFailure, AuthFailureCache, CachedAuthFailure};
#[cfg(feature = "oauth")]
pub use grant::{AssertionSource, Enterprise, Grant};
#[cfg(feature = "oauth")]
pub use oauth::OAuth;
#[cfg(feature = "oauth")]
pub use options::OAuthOptions;
pub use store::{
    Account, FileStore, MemoryStore, RegisteredClient, RenewalGuard, SignIn, Store, StoreError, Vault, VaultStore,
};
pub use token_provider::{RequestAuth, RequestTarget, TokenProvider, TokenVersion};
#[cfg(feature = "oauth")]
pub use ui::{AuthorizationFlow, AuthorizationUi, SecretRecipient};
pub use zone::NetworkZone;
