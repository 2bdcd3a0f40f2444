//! The interface between a transport and the source of its tokens.

use futures_util::future::BoxFuture;
use wharf_protocol::Secret;

use crate::auth_required::AuthRequired;
use crate::error::OAuthError;

/// Provides access tokens for the requests to one server.
pub trait TokenProvider: Send + Sync + 'static {
    /// Returns the token for the next request, if there is one, and its number.
    fn token(&self) -> BoxFuture<'_, Result<(Option<Secret>, u64), OAuthError>>;

    /// Reports that the server rejected a request with the token of this number. Returns whether a new token is
    /// available, so that the request can be sent again.
    fn refused<'a>(&'a self, number: u64, required: &'a AuthRequired) -> BoxFuture<'a, Result<bool, OAuthError>>;

    /// Returns the number of the current token. It changes with every new token.
    fn number(&self) -> u64;

    /// Returns whether the store has a newer token, for example because another process signed in. Sends no request and
    /// does not prompt the user.
    fn has_newer_token(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }
}
