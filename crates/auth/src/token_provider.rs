//! The interface between a transport and the source of its tokens.

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, Uri};
use wharf_protocol::Secret;

use crate::auth_required::AuthRequired;
use crate::error::OAuthError;

/// Provides access tokens for the requests to one server.
pub trait TokenProvider: Send + Sync + 'static {
    /// Returns the current token, if there is one, and its number.
    fn token(&self) -> BoxFuture<'_, Result<(Option<Secret>, u64), OAuthError>>;

    /// Returns what authorizes one request. A token may be bound to the method and the URL of the request; by default it
    /// is a bearer token.
    fn authorize<'a>(&'a self, request: RequestTarget<'a>) -> BoxFuture<'a, Result<RequestAuth, OAuthError>> {
        let _ = request;
        Box::pin(async move {
            let (token, number) = self.token().await?;
            Ok(RequestAuth::bearer(token.as_ref(), number))
        })
    }

    /// Receives the headers of every response of the server. They may contain the nonce for the next request.
    fn responded(&self, headers: &HeaderMap) {
        let _ = headers;
    }

    /// Reports that the server rejected a request with the authorization of this version. Returns whether a new one is
    /// available, so that the request can be sent again.
    fn refused<'a>(
        &'a self,
        version: TokenVersion,
        required: &'a AuthRequired,
    ) -> BoxFuture<'a, Result<bool, OAuthError>>;

    /// Returns the number of the current token. It changes with every new token.
    fn number(&self) -> u64;

    /// Returns whether the store has a newer token, for example because another process signed in. Sends no request and
    /// does not prompt the user.
    fn has_newer_token(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }
}

/// The request that needs authorization.
#[derive(Clone, Copy, Debug)]
pub struct RequestTarget<'a> {
    /// The HTTP method.
    pub method: &'a Method,
    /// The URL.
    pub url: &'a Uri,
}

/// The headers that authorize one request.
#[derive(Clone, Debug, Default)]
pub struct RequestAuth {
    /// The value of `Authorization`; `None` without a token.
    pub authorization: Option<HeaderValue>,
    /// The value of `DPoP`, for a token that is bound to a key.
    pub proof: Option<HeaderValue>,
    /// The version of both.
    pub version: TokenVersion,
}

/// Identifies the token and the nonce of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenVersion {
    /// The number of the token.
    pub token: u64,
    /// The number of the server's nonce. It changes with every new nonce.
    pub nonce: u64,
}

impl RequestAuth {
    /// Authorizes a request with a bearer token.
    pub fn bearer(token: Option<&Secret>, number: u64) -> Self {
        let version = TokenVersion { token: number, nonce: 0 };
        Self { authorization: token.and_then(|token| authorization("Bearer", token)), proof: None, version }
    }

    /// Authorizes a request with a token that is bound to a key.
    #[cfg(feature = "oauth")]
    pub(super) fn bound(token: &Secret, proof: HeaderValue, version: TokenVersion) -> Self {
        Self { authorization: authorization("DPoP", token), proof: Some(proof), version }
    }
}

fn authorization(scheme: &str, token: &Secret) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("{scheme} {}", token.expose())).ok()?;
    value.set_sensitive(true);
    Some(value)
}
