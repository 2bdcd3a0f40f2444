//! The sign-in of one server: loaded from the store, authorized by the user, and refreshed before it expires.

mod authorization;
mod binding;
mod renewal;
mod state;

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{HeaderMap, Uri};
use wharf_io::unix_now;
use wharf_protocol::Secret;

use self::state::{Current, Shared};
use crate::auth_required::AuthRequired;
use crate::challenge::Challenge;
use crate::dpop::{ProofTarget, USE_NONCE};
use crate::error::OAuthError;
use crate::options::OAuthOptions;
use crate::token_provider::{RequestAuth, RequestTarget, TokenProvider, TokenVersion};

/// A token is refreshed this long before it expires.
const REFRESH_MARGIN: Duration = Duration::from_secs(30);

/// The OAuth client of one server. Clones share the credentials.
#[derive(Clone)]
pub struct OAuth {
    shared: Arc<Shared>,
}

impl OAuth {
    /// Creates a client for the server at `endpoint`. Sends no request.
    ///
    /// # Errors
    /// Returns [`OAuthError::Endpoint`] if the URL is invalid.
    pub fn new(endpoint: &str, options: OAuthOptions) -> Result<Self, OAuthError> {
        let invalid = || OAuthError::Endpoint(endpoint.to_owned());
        let parsed: Uri = endpoint.parse().map_err(|_| invalid())?;
        if parsed.host().is_none_or(str::is_empty) {
            return Err(invalid());
        }
        Ok(Self { shared: Arc::new(Shared::new(parsed, options)) })
    }

    /// Signs the user in, even if credentials exist. `required` is the server's refusal, if it sent one.
    ///
    /// # Errors
    /// If the authorization fails or the user does not complete it.
    pub async fn sign_in(&self, required: Option<&AuthRequired>) -> Result<(), OAuthError> {
        let challenge = required.and_then(|required| required.challenge.as_deref());
        let challenge = challenge.map(Challenge::read).unwrap_or_default();
        self.shared.observe(required.and_then(|required| required.zone));
        let _turn = self.shared.turn.acquire().await;
        self.shared.load().await?;
        // The future of an authorization is large.
        Box::pin(self.authorize(&challenge)).await
    }

    /// Revokes and deletes the credentials. Returns `false` if there were none.
    ///
    /// # Errors
    /// If the tokens cannot be revoked. They are deleted from the store anyway.
    pub async fn sign_out(&self) -> Result<bool, OAuthError> {
        let shared = &self.shared;
        let _turn = shared.turn.acquire().await;
        // A concurrent refresh would store them again.
        let _guard = shared.options.store.turn(&shared.account).await?;
        let stored = shared.options.store.remove(&shared.account).await?;
        shared.adopt(None);
        let Some(sign_in) = stored else { return Ok(false) };
        if let Some(endpoint) = &sign_in.revocation_endpoint {
            let (http, nearest) = shared.metadata_client().await?;
            let client = shared.token_client(&http, nearest, &sign_in.issuer);
            let token = sign_in.refresh.as_ref().unwrap_or(&sign_in.access);
            client.revoke(endpoint, &sign_in.client, token).await?;
        }
        Ok(true)
    }
}

impl TokenProvider for OAuth {
    fn token(&self) -> BoxFuture<'_, Result<(Option<Secret>, u64), OAuthError>> {
        Box::pin(async move {
            let current = self.valid().await?;
            Ok((current.sign_in.map(|sign_in| sign_in.access), current.number))
        })
    }

    fn authorize<'a>(&'a self, request: RequestTarget<'a>) -> BoxFuture<'a, Result<RequestAuth, OAuthError>> {
        Box::pin(async move {
            let current = self.valid().await?;
            let Some(sign_in) = &current.sign_in else { return Ok(RequestAuth::bearer(None, current.number)) };
            let token = &sign_in.access;
            let Some(binding) = self.shared.stored_binding(sign_in)? else {
                return Ok(RequestAuth::bearer(Some(token), current.number));
            };
            let (nonce, nonce_number) = self.shared.nonces.server();
            let RequestTarget { method, url } = request;
            let target = ProofTarget { method, url, token: Some(token), nonce: nonce.as_deref() };
            let version = TokenVersion { token: current.number, nonce: nonce_number };
            Ok(RequestAuth::bound(token, binding.key.proof(target)?, version))
        })
    }

    fn responded(&self, headers: &HeaderMap) {
        self.shared.nonces.server_responded(headers);
    }

    fn refused<'a>(
        &'a self,
        version: TokenVersion,
        required: &'a AuthRequired,
    ) -> BoxFuture<'a, Result<bool, OAuthError>> {
        Box::pin(async move {
            let shared = &self.shared;
            let number = version.token;
            shared.observe(required.zone);
            let challenge = required.challenge.as_deref().map(Challenge::read).unwrap_or_default();
            let needs_scopes = required.status == 403 || challenge.wants_more();
            let current = shared.snapshot();
            let is_bound = current.sign_in.as_ref().is_some_and(|sign_in| sign_in.dpop_key.is_some());
            if is_bound && challenge.error.as_deref() == Some(USE_NONCE) {
                // The token is valid. Without a new nonce, the next proof would be refused, too.
                return Ok(shared.nonces.server().1 != version.nonce);
            }
            if current.number != number
                && let Some(result) = current.result()
            {
                return result;
            }
            if let Some(sign_in) = &current.sign_in
                && !needs_scopes
                // A refreshed bearer token would still be one.
                && (is_bound || !challenge.requires_dpop())
            {
                let (http, nearest) = shared.metadata_client().await?;
                let discovery = shared.discovery(&http, nearest);
                // The tokens of one authorization server are never sent to another.
                let is_same = discovery.still_names(&challenge, &sign_in.issuer).await?;
                if is_same && sign_in.refresh.is_some() {
                    self.renew(number).await?;
                    if shared.current().sign_in.is_some() {
                        return Ok(true);
                    }
                }
            }
            let turn = Arc::clone(&shared.turn).acquire_owned().await;
            let latest = shared.snapshot();
            if latest.number != current.number
                && let Some(result) = latest.result()
            {
                return result;
            }
            if shared.adopt_newer().await? {
                return Ok(true);
            }
            let has_no_user = shared.options.ui.is_none() && shared.options.grant.needs_user();
            if has_no_user || (needs_scopes && !shared.try_step_up()) {
                return Ok(false);
            }
            // Users take longer than the timeout of a call. Later calls find the pending authorization and its result.
            let this = self.clone();
            let authorization = async move {
                let _turn = turn;
                this.authorize(&challenge).await
            };
            self.run_to_completion(authorization).await?;
            Ok(true)
        })
    }

    fn number(&self) -> u64 {
        self.shared.current().number
    }

    fn has_newer_token(&self) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            // The holder of the turn reads the store anyway.
            let Ok(_turn) = self.shared.turn.try_acquire() else { return false };
            self.shared.adopt_newer().await.unwrap_or(false)
        })
    }
}

impl OAuth {
    /// Returns the credentials for the next request, refreshed if they expire soon.
    async fn valid(&self) -> Result<Current, OAuthError> {
        let shared = &self.shared;
        if !shared.current().is_loaded {
            let _turn = shared.turn.acquire().await;
            shared.load().await?;
        }
        if shared.current().outdated.is_some() {
            shared.store_again().await;
        }
        let current = shared.snapshot();
        let Some(sign_in) = &current.sign_in else { return Ok(current) };
        let left = sign_in.expires_at.map(|at| at.saturating_sub(unix_now()));
        let is_renewable = sign_in.refresh.is_some() || !shared.options.grant.needs_user();
        if left.is_none_or(|left| left > REFRESH_MARGIN.as_secs()) || !is_renewable {
            return Ok(current);
        }
        match self.renew(current.number).await {
            // The token is still valid for a while.
            Err(error) if error.is_transient() && left.is_some_and(|left| left > 0) => {
                tracing::debug!(%error, "cannot refresh a token before it expires");
            }
            renewed => renewed?,
        }
        Ok(shared.snapshot())
    }

    /// Refreshes the token of this number, once for all callers.
    async fn renew(&self, number: u64) -> Result<(), OAuthError> {
        let shared = Arc::clone(&self.shared);
        self.run_to_completion(async move { shared.renew(number).await }).await
    }

    /// Obtains tokens with or without a user, and records a failure for all waiting requests.
    async fn authorize(&self, challenge: &Challenge) -> Result<(), OAuthError> {
        let shared = Arc::clone(&self.shared);
        let authorization = async {
            if !shared.options.grant.needs_user() {
                let challenge = challenge.clone();
                return self.run_to_completion(async move { shared.authorize_client(&challenge).await }).await;
            }
            let pending = self.shared.authorize_user(challenge).await?;
            self.run_to_completion(async move { shared.redeem(pending).await }).await
        };
        let result = authorization.await;
        if let Err(error) = &result {
            let mut current = self.shared.current();
            current.number += 1;
            current.failure = Some(error.clone());
        }
        result
    }

    /// Runs work that continues even if the caller is dropped: a single-use code or refresh token may be used up as soon
    /// as it is sent, and what replaces it must be stored.
    async fn run_to_completion(
        &self,
        work: impl Future<Output = Result<(), OAuthError>> + Send + 'static,
    ) -> Result<(), OAuthError> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        {
            let mut tasks = self.shared.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            while tasks.try_join_next().is_some() {}
            tasks.spawn(async move {
                let _ = sender.send(work.await);
            });
        }
        receiver.await.unwrap_or_else(|_| Err(OAuthError::Nobody("the authorization was aborted".to_owned())))
    }
}
