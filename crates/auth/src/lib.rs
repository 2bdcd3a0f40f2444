//! Signing in to servers: OAuth 2.1 as MCP uses it, from the first refusal to a token that renews itself.
//!
//! A transport asks its [`TokenProvider`] for the token of every request, and tells it what the server said to a request it
//! refused. [`OAuth`] is the one that signs people in: it finds out who lets us in (`discovery`), who we are to them
//! (`registration`), has a [`AuthorizationUi`] bring a person to their page, and keeps what comes of it in a [`Store`].

#[cfg(feature = "oauth")]
mod assertion;
mod authority;
#[cfg(feature = "oauth")]
pub mod browser;
#[cfg(feature = "oauth")]
mod callback;
mod challenge;
#[cfg(feature = "oauth")]
mod chance;
#[cfg(feature = "oauth")]
mod discovery;
mod error;
#[cfg(feature = "oauth")]
mod grant;
#[cfg(feature = "oauth")]
mod oauth;
#[cfg(feature = "oauth")]
mod query;
#[cfg(feature = "oauth")]
mod reach;
mod refusals;
#[cfg(feature = "oauth")]
mod registration;
mod required;
mod store;
#[cfg(feature = "oauth")]
mod token;
#[cfg(feature = "oauth")]
mod visit;

#[cfg(feature = "oauth")]
pub use assertion::SigningKey;
pub use authority::TokenProvider;
#[cfg(feature = "oauth")]
pub use callback::{Callback, CallbackError};
pub use challenge::Challenge;
pub use error::OAuthError;
#[cfg(feature = "oauth")]
pub use grant::{AssertionSource, Enterprise, Grant};
#[cfg(feature = "oauth")]
pub use oauth::{OAuth, OAuthOptions};
pub use refusals::{AUTH_FAILURE_TTL, AuthFailure, AuthFailureCache, CachedAuthFailure};
pub use required::AuthRequired;
pub use store::{
    Account, FileStore, MemoryStore, RegisteredClient, RenewalGuard, SignIn, Store, StoreError, Vault, VaultStore,
};
#[cfg(feature = "oauth")]
pub use visit::{AuthorizationFlow, AuthorizationUi};

/// The date, in seconds since 1970: tokens end at one.
#[expect(clippy::disallowed_methods, reason = "a date can only be compared with the date")]
fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
