//! Signing in to servers: OAuth 2.1 as MCP uses it, from the first refusal to a token that renews itself.
//!
//! A transport asks its [`TokenProvider`] for the token of every request, and tells it what the server said to a request it
//! refused. [`OAuth`] is the one that signs people in: it finds out who lets us in (`discovery`), who we are to them
//! (`registration`), has a [`AuthorizationUi`] bring a person to their page, and keeps what comes of it in a [`Store`].

mod assertion;
mod authority;
pub mod browser;
mod callback;
mod challenge;
mod chance;
mod discovery;
mod error;
mod grant;
mod oauth;
mod query;
mod reach;
mod refusals;
mod registration;
mod required;
mod store;
mod token;
mod visit;

pub use assertion::SigningKey;
pub use authority::TokenProvider;
pub use callback::{Callback, CallbackError};
pub use challenge::Challenge;
pub use error::OAuthError;
pub use grant::{AssertionSource, Enterprise, Grant};
pub use oauth::{OAuth, OAuthOptions};
pub use refusals::{AUTH_FAILURE_TTL, AuthFailure, AuthFailureCache, CachedAuthFailure};
pub use required::AuthRequired;
pub use store::{
    Account, FileStore, MemoryStore, RegisteredClient, RenewalGuard, SignIn, Store, StoreError, Vault, VaultStore,
};
pub use visit::{AuthorizationFlow, AuthorizationUi};
