//! OAuth 2.1 for MCP clients: from the first 401 response to a token that is refreshed automatically.
//!
//! A transport gets the token of every request from its [`TokenProvider`], and reports requests that the server rejected.
//! [`OAuth`] is the provider that signs users in. It discovers the authorization server (RFC 9728, RFC 8414), registers a
//! client (RFC 7591), opens the authorization page with an [`AuthorizationUi`], and stores the credentials in a [`Store`].

mod assertion;
mod auth_required;
pub mod browser;
mod callback;
mod challenge;
mod discovery;
mod error;
mod failure_cache;
mod grant;
mod network_zone;
mod oauth;
mod options;
mod query;
mod random;
mod registration;
mod store;
mod token;
mod token_provider;
mod ui;

pub use assertion::SigningKey;
pub use auth_required::AuthRequired;
pub use callback::{Callback, CallbackError};
pub use challenge::Challenge;
pub use error::OAuthError;
pub use failure_cache::{AUTH_FAILURE_TTL, AuthFailure, AuthFailureCache, CachedAuthFailure};
pub use grant::{AssertionSource, Enterprise, Grant};
pub use oauth::OAuth;
pub use options::OAuthOptions;
pub use store::{
    Account, FileStore, MemoryStore, RegisteredClient, RenewalGuard, SignIn, Store, StoreError, Vault, VaultStore,
};
pub use token_provider::TokenProvider;
pub use ui::{AuthorizationFlow, AuthorizationUi};
