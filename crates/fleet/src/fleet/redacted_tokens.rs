//! Reports the tokens of a server to a redactor before they are sent.

use std::sync::Arc;

use http::HeaderMap;
use wharf_auth::{OAuthError, RequestAuth, RequestTarget, TokenProvider, TokenVersion};
use wharf_client::{AuthRequired, BoxFuture};
use wharf_protocol::{Redactor, Secret};

/// A token provider whose tokens are redacted from what is stored.
pub(super) struct RedactedTokens {
    pub(super) inner: Arc<dyn TokenProvider>,
    pub(super) redactor: Redactor,
}

impl TokenProvider for RedactedTokens {
    fn token(&self) -> BoxFuture<'_, Result<(Option<Secret>, u64), OAuthError>> {
        Box::pin(async move {
            let (token, number) = self.inner.token().await?;
            if let Some(token) = &token {
                self.redactor.add(token);
            }
            Ok((token, number))
        })
    }

    fn authorize<'a>(&'a self, request: RequestTarget<'a>) -> BoxFuture<'a, Result<RequestAuth, OAuthError>> {
        Box::pin(async move {
            let auth = self.inner.authorize(request).await?;
            // The token follows its scheme.
            let value = auth.authorization.as_ref().and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
            if let Some((_, token)) = value.and_then(|value| value.split_once(' ')) {
                self.redactor.add(&Secret::new(token));
            }
            Ok(auth)
        })
    }

    fn responded(&self, headers: &HeaderMap) {
        self.inner.responded(headers);
    }

    fn refused<'a>(
        &'a self,
        version: TokenVersion,
        required: &'a AuthRequired,
    ) -> BoxFuture<'a, Result<bool, OAuthError>> {
        self.inner.refused(version, required)
    }

    fn number(&self) -> u64 {
        self.inner.number()
    }

    fn has_newer_token(&self) -> BoxFuture<'_, bool> {
        self.inner.has_newer_token()
    }
}
