//! Reports the tokens of a server to a redactor before they are sent.

use std::sync::Arc;

use wharf_auth::{OAuthError, TokenProvider};
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

    fn refused<'a>(&'a self, number: u64, required: &'a AuthRequired) -> BoxFuture<'a, Result<bool, OAuthError>> {
        self.inner.refused(number, required)
    }

    fn number(&self) -> u64 {
        self.inner.number()
    }

    fn has_newer_token(&self) -> BoxFuture<'_, bool> {
        self.inner.has_newer_token()
    }
}
