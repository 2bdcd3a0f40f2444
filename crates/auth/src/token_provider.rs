//! Who a transport asks for the token of its next request, and tells when it was refused.

use futures_util::future::BoxFuture;
use wharf_protocol::Secret;

use super::OAuthError;
use crate::AuthRequired;

/// Gives tokens to one server's requests.
pub trait TokenProvider: Send + Sync + 'static {
    /// The token for the next request, if there is one, and its number.
    fn token(&self) -> BoxFuture<'_, Result<(Option<Secret>, u64), OAuthError>>;

    /// The server did not take a request with the token of that number. Whether there is another one now.
    fn refused<'a>(&'a self, number: u64, required: &'a AuthRequired) -> BoxFuture<'a, Result<bool, OAuthError>>;

    /// The number of the token that the next request would have.
    fn number(&self) -> u64;

    /// Whether somebody else has signed in since, maybe in another process: the next token is theirs. Nobody is asked
    /// for that, and nothing is sent.
    fn has_newer_token(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }
}
