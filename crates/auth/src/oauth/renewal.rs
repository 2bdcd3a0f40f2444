//! Refreshes tokens, one process at a time, also if they cannot be stored or another process refreshes them too.

use wharf_io::unix_now;

use super::state::Shared;
use crate::challenge::Challenge;
use crate::error::OAuthError;
use crate::store::SignIn;
use crate::token::{TokenClient, Tokens};

/// Error codes for a refresh token that is no longer valid. The last one is GitHub's `invalid_grant`.
const ENDED: [&str; 4] = ["invalid_grant", "invalid_client", "unauthorized_client", "bad_refresh_token"];

impl Shared {
    /// Adopts newer credentials from the store, for example of another process. Returns whether there were any.
    pub(super) async fn adopt_newer(&self) -> Result<bool, OAuthError> {
        let Some(stored) = self.options.store.sign_in(&self.account).await? else { return Ok(false) };
        let current = self.snapshot();
        let is_known = current.sign_in.iter().chain(&current.outdated).any(|known| known.access == stored.access);
        if !is_known {
            self.adopt(Some(stored));
        }
        Ok(!is_known)
    }

    /// Stores credentials that could not be stored before, unless the store has newer ones.
    pub(super) async fn store_again(&self) {
        let _turn = self.turn.acquire().await;
        let current = self.snapshot();
        let (Some(sign_in), Some(outdated)) = (current.sign_in, current.outdated) else { return };
        let stored = async {
            let store = &self.options.store;
            let _guard = store.turn(&self.account).await?;
            if store.sign_in(&self.account).await?.as_ref() == Some(&outdated) {
                store.keep(&self.account, sign_in).await?;
            }
            Ok::<_, OAuthError>(())
        };
        match stored.await {
            Ok(()) => self.current().outdated = None,
            Err(error) => tracing::warn!(server = %self.account.endpoint, %error, "cannot store credentials"),
        }
    }

    /// Refreshes the token of this number. Later callers, also in other processes, find the new one.
    pub(super) async fn renew(&self, number: u64) -> Result<(), OAuthError> {
        let _turn = self.turn.acquire().await;
        let current = self.snapshot();
        if current.number != number {
            return Ok(());
        }
        if !self.options.grant.needs_user() {
            return self.authorize_client(&Challenge::default()).await;
        }
        let _guard = self.options.store.turn(&self.account).await?;
        let Some(mut stored) = self.options.store.sign_in(&self.account).await? else {
            self.adopt(None);
            return Ok(());
        };
        let before = stored.clone();
        if let Some(newer) = &current.sign_in
            && current.outdated.as_ref() == Some(&stored)
        {
            stored = newer.clone();
        } else if current.sign_in.as_ref().is_none_or(|known| known.access != stored.access) {
            let is_expired = stored.expires_at.is_some_and(|at| at <= unix_now());
            self.adopt(Some(stored.clone()));
            if !is_expired {
                return Ok(());
            }
        }
        let Some(refresh) = &stored.refresh else { return Ok(()) };
        let (http, nearest) = self.metadata_client().await?;
        let binding = self.stored_binding(&stored)?;
        let client = TokenClient {
            binding: binding.as_ref().map(|binding| binding.of(&self.nonces)),
            ..self.token_client(&http, nearest, &stored.issuer)
        };
        let mut parameters = vec![("grant_type", "refresh_token"), ("refresh_token", refresh.expose())];
        parameters.extend(stored.resource.as_deref().map(|resource| ("resource", resource)));
        match client.tokens(&stored.token_endpoint, &stored.client, &parameters).await {
            Ok(tokens) => {
                let renewed = renewed(stored, tokens);
                // Stored before it is used: otherwise it would be lost with this process. If it cannot be stored, it is
                // used anyway: the stored token may be invalid by now.
                let result = self.options.store.keep(&self.account, renewed.clone()).await;
                self.adopt(Some(renewed));
                if let Err(error) = result {
                    tracing::warn!(server = %self.account.endpoint, %error, "cannot store credentials");
                    self.current().outdated = Some(before);
                }
                Ok(())
            }
            Err(OAuthError::Denied { error, .. }) if ENDED.contains(&error.as_str()) => {
                tracing::debug!(server = %self.account.endpoint, error, "the refresh token is no longer valid");
                self.forget_client_after(&error, &stored.issuer).await?;
                self.options.store.remove(&self.account).await?;
                self.adopt(None);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Deletes a client that the issuer no longer knows, so that a new one is registered.
    pub(super) async fn forget_client_after(&self, error: &str, issuer: &str) -> Result<(), OAuthError> {
        if error == "invalid_client" {
            self.options.store.forget_client(issuer, &self.options.profile).await?;
        }
        Ok(())
    }
}

fn renewed(stored: SignIn, tokens: Tokens) -> SignIn {
    SignIn {
        access: tokens.access,
        // A refresh token that is not replaced stays valid.
        refresh: tokens.refresh.or(stored.refresh),
        expires_at: tokens.expires_in.map(|seconds| unix_now().saturating_add(seconds)),
        scopes: tokens.scopes.unwrap_or(stored.scopes),
        ..stored
    }
}
