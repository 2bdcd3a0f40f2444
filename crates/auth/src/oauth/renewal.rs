//! How a sign-in is renewed, by one at a time, and kept: also where the disk is full, and where others renew it too.

use super::{ENDED, Inner};
use crate::OAuthError;
use crate::challenge::Challenge;
use crate::store::SignIn;
use crate::token::Tokens;
use wharf_io::unix_now;

impl Inner {
    /// Whether somebody else has signed in meanwhile, maybe in another process. It is adopted.
    pub(super) async fn finds_another(&self) -> Result<bool, OAuthError> {
        let Some(kept) = self.options.store.sign_in(&self.account).await? else { return Ok(false) };
        let current = self.snapshot();
        let known = current.sign_in.iter().chain(&current.unkept).any(|known| known.access == kept.access);
        if !known {
            self.adopt(Some(kept));
        }
        Ok(!known)
    }

    /// Tries once more to keep what could not be kept, unless another has been kept since.
    pub(super) async fn keep_again(&self) {
        let _turn = self.turn.acquire().await;
        let current = self.snapshot();
        let (Some(sign_in), Some(unkept)) = (current.sign_in, current.unkept) else { return };
        let keeping = async {
            let store = &self.options.store;
            let _turn_of_all = store.turn(&self.account).await?;
            if store.sign_in(&self.account).await?.as_ref() == Some(&unkept) {
                store.keep(&self.account, sign_in).await?;
            }
            Ok::<_, OAuthError>(())
        };
        match keeping.await {
            Ok(()) => self.current().unkept = None,
            Err(error) => tracing::warn!(server = %self.account.endpoint, %error, "a sign-in cannot be kept"),
        }
    }

    /// Gets a new token for the old one. Whoever comes later, here or in another process, finds the new one.
    pub(super) async fn renew(&self, number: u64) -> Result<(), OAuthError> {
        let _turn = self.turn.acquire().await;
        let current = self.snapshot();
        if current.number != number {
            return Ok(());
        }
        if !self.options.grant.needs_person() {
            return self.by_itself(&Challenge::default()).await;
        }
        let _turn_of_all = self.options.store.turn(&self.account).await?;
        let Some(mut kept) = self.options.store.sign_in(&self.account).await? else {
            self.adopt(None);
            return Ok(());
        };
        let behind = kept.clone();
        if let Some(newer) = current.sign_in.clone().filter(|_| current.unkept.as_ref() == Some(&kept)) {
            kept = newer;
        } else if current.sign_in.as_ref().is_none_or(|known| known.access != kept.access) {
            let ended = kept.expires_at.is_some_and(|at| at <= unix_now());
            self.adopt(Some(kept.clone()));
            if !ended {
                return Ok(());
            }
        }
        let Some(refresh) = &kept.refresh else { return Ok(()) };
        let (http, nearest) = self.reach().await?;
        let posts = self.posts(&http, nearest, &kept.issuer);
        let mut parameters = vec![("grant_type", "refresh_token"), ("refresh_token", refresh.expose())];
        parameters.extend(kept.resource.as_deref().map(|resource| ("resource", resource)));
        match posts.tokens(&kept.token_endpoint, &kept.client, &parameters).await {
            Ok(tokens) => {
                let renewed = renewed_by(kept, tokens);
                // Kept before it is used: what is used and not kept is lost with this process. Where it cannot be kept, it
                // is used all the same: what is kept may be worth nothing any more.
                let keeping = self.options.store.keep(&self.account, renewed.clone()).await;
                self.adopt(Some(renewed));
                if let Err(error) = keeping {
                    tracing::warn!(server = %self.account.endpoint, %error, "a sign-in cannot be kept");
                    self.current().unkept = Some(behind);
                }
                Ok(())
            }
            Err(OAuthError::Denied { error, .. }) if ENDED.contains(&error.as_str()) => {
                tracing::debug!(server = %self.account.endpoint, error, "the sign-in has ended");
                self.forget_client_after(&error, &kept.issuer).await?;
                self.options.store.remove(&self.account).await?;
                self.adopt(None);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// An issuer that does not know us any more will know us when we have registered again.
    pub(super) async fn forget_client_after(&self, error: &str, issuer: &str) -> Result<(), OAuthError> {
        if error == "invalid_client" {
            self.options.store.forget_client(issuer, &self.options.profile).await?;
        }
        Ok(())
    }
}

fn renewed_by(kept: SignIn, tokens: Tokens) -> SignIn {
    SignIn {
        access: tokens.access,
        // One that is not replaced stays good.
        refresh: tokens.refresh.or(kept.refresh),
        expires_at: tokens.expires_in.map(|seconds| unix_now().saturating_add(seconds)),
        scopes: tokens.scopes.unwrap_or(kept.scopes),
        ..kept
    }
}
