//! Obtains tokens: with a user on the authorization page, or without a user.

use std::time::Duration;

use wharf_io::unix_now;
use wharf_protocol::Secret;

use super::binding::KeyBinding;
use super::state::Shared;
use crate::challenge::{Challenge, unique_words};
use crate::discovery::{IssuerMetadata, Metadata};
use crate::error::OAuthError;
use crate::grant::TokenRequest;
use crate::query::{form, query};
use crate::random::{pkce_challenge, random_text};
use crate::store::{RegisteredClient, SignIn};
use crate::token::{TokenClient, Tokens};
use crate::ui::SecretRecipient;
use crate::{browser, registration};

/// Maximum time for the user. Other authorizations wait meanwhile.
const USER_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// An authorization code, and what is needed to exchange it.
pub(super) struct PendingExchange {
    authorized: Authorized,
    redirect_uri: String,
    verifier: Secret,
    code: Secret,
}

/// What was authorized: by which issuer, for which client, and with which scopes.
struct Authorized {
    issuer: IssuerMetadata,
    client: RegisteredClient,
    scopes: Vec<String>,
    resource: String,
    binding: Option<KeyBinding>,
}

impl Shared {
    /// Opens the authorization page and waits for the code.
    pub(super) async fn authorize_user(&self, challenge: &Challenge) -> Result<PendingExchange, OAuthError> {
        let Some(ui) = &self.options.ui else {
            return Err(OAuthError::Nobody("no user interface is available".to_owned()));
        };
        let (http, nearest) = self.metadata_client().await?;
        let metadata = self.discovery(&http, nearest).find(challenge).await?;
        let issuer = &metadata.issuer;
        let Some(page) = &issuer.authorization_endpoint else {
            return Err(OAuthError::NoPage(issuer.name.clone()));
        };
        self.check_secret_issuer(&issuer.name).await?;
        let known = self.options.store.client(&issuer.name, &self.options.profile).await?;
        let before = known.as_ref().and_then(|known| known.redirect_uri.as_deref());
        let flow = with_timeout(ui.begin(before)).await?;
        let redirect_uri = flow.redirect_uri().to_owned();
        let token_client = self.token_client(&http, nearest, &issuer.name);
        let client = registration::client(&token_client, issuer, &self.options, &redirect_uri).await?;

        let scopes = self.scopes(challenge, &metadata);
        let scope = scopes.join(" ");
        let resource = self.resource(&metadata);
        let binding = self.binding(challenge, &metadata)?;
        let thumbprint = binding.as_ref().map(|binding| binding.key.thumbprint());
        let state = random_text()?;
        let verifier = random_text()?;
        let code_challenge = pkce_challenge(&verifier);
        let mut parameters = vec![
            ("response_type", "code"),
            ("client_id", &client.id),
            ("redirect_uri", &redirect_uri),
            ("state", state.expose()),
            ("code_challenge", &code_challenge),
            ("code_challenge_method", "S256"),
            ("resource", &resource),
        ];
        if !scopes.is_empty() {
            parameters.push(("scope", &scope));
        }
        if scopes.iter().any(|scope| scope == "offline_access") {
            // Without it, OpenID providers ignore `offline_access`.
            parameters.push(("prompt", "consent"));
        }
        // Only this client can then redeem the code.
        parameters.extend(thumbprint.as_deref().map(|thumbprint| ("dpop_jkt", thumbprint)));
        let url = format!("{page}{}{}", if page.contains('?') { '&' } else { '?' }, form(&parameters));
        browser::check(&url).map_err(|error| OAuthError::Refused {
            server: self.account.endpoint.clone(),
            url: page.clone(),
            reason: error.to_string(),
        })?;
        let redirect = with_timeout(flow.go(url, state.expose().to_owned())).await?;
        let code = read_code(&redirect, &state, issuer)?;
        let authorized = Authorized { issuer: metadata.issuer, client, scopes, resource, binding };
        Ok(PendingExchange { authorized, redirect_uri, verifier, code })
    }

    /// Exchanges the code for tokens.
    pub(super) async fn redeem(&self, pending: PendingExchange) -> Result<(), OAuthError> {
        let PendingExchange { authorized, redirect_uri, verifier, code } = pending;
        let Authorized { issuer, client, resource, binding, .. } = &authorized;
        let (http, nearest) = self.metadata_client().await?;
        let token_client = TokenClient {
            binding: binding.as_ref().map(|binding| binding.of(&self.nonces)),
            ..self.token_client(&http, nearest, &issuer.name)
        };
        let parameters = [
            ("grant_type", "authorization_code"),
            ("code", code.expose()),
            ("redirect_uri", &redirect_uri),
            ("code_verifier", verifier.expose()),
            ("resource", resource),
        ];
        // A refresh of the previous credentials must be complete.
        let _guard = self.options.store.turn(&self.account).await?;
        let tokens = token_client.tokens(&issuer.token_endpoint, client, &parameters).await;
        if let Err(OAuthError::Denied { error, .. }) = &tokens {
            self.forget_client_after(error, &issuer.name).await?;
        }
        self.store(tokens?, authorized).await
    }

    /// Obtains tokens without a user.
    pub(super) async fn authorize_client(&self, challenge: &Challenge) -> Result<(), OAuthError> {
        let (http, nearest) = self.metadata_client().await?;
        let metadata = self.discovery(&http, nearest).find(challenge).await?;
        let issuer = &metadata.issuer;
        self.check_secret_issuer(&issuer.name).await?;
        let binding = self.binding(challenge, &metadata)?;
        let token_client = TokenClient {
            binding: binding.as_ref().map(|binding| binding.of(&self.nonces)),
            ..self.token_client(&http, nearest, &issuer.name)
        };
        let client = registration::client(&token_client, issuer, &self.options, "").await?;
        let scopes = self.scopes(challenge, &metadata);
        let resource = self.resource(&metadata);
        let request = TokenRequest {
            endpoint: &issuer.token_endpoint,
            issuer: &issuer.name,
            client: &client,
            resource: &resource,
            scope: &scopes.join(" "),
        };
        let _guard = self.options.store.turn(&self.account).await?;
        let tokens = self.options.grant.tokens(&token_client, &request).await?;
        self.store(tokens, Authorized { issuer: metadata.issuer, client, scopes, resource, binding }).await
    }

    /// Stores new tokens, and uses them from now on.
    async fn store(&self, tokens: Tokens, authorized: Authorized) -> Result<(), OAuthError> {
        let Authorized { issuer, client, scopes, resource, binding } = authorized;
        let binding = binding.filter(|_| tokens.is_bound);
        let sign_in = SignIn {
            issuer: issuer.name,
            client,
            access: tokens.access,
            refresh: tokens.refresh,
            expires_at: tokens.expires_in.map(|seconds| unix_now().saturating_add(seconds)),
            scopes: tokens.scopes.unwrap_or_else(|| scopes.clone()),
            asked: scopes,
            resource: Some(resource),
            token_endpoint: issuer.token_endpoint,
            revocation_endpoint: issuer.revocation_endpoint,
            dpop_key: binding.map(|binding| binding.key.stored().clone()),
        };
        self.options.store.keep(&self.account, sign_in.clone()).await?;
        self.adopt(Some(sign_in));
        Ok(())
    }

    /// Refuses to send the configured client secret to an issuer that only the server named: the server could name its
    /// own authorization server to obtain it. The issuer must be configured with the secret, the same as before, or
    /// confirmed by the user.
    async fn check_secret_issuer(&self, issuer: &str) -> Result<(), OAuthError> {
        let Some(client) = self.options.client.as_ref().filter(|client| client.secret.is_some()) else { return Ok(()) };
        let before = self.snapshot().sign_in;
        if let Some(SignIn { issuer: before, .. }) = before.as_ref().filter(|before| before.issuer != issuer) {
            return Err(OAuthError::Refused {
                server: self.account.endpoint.clone(),
                url: issuer.to_owned(),
                reason: format!("the client secret belongs to {before}; sign out first if it is valid there too"),
            });
        }
        let is_known = before.is_some_and(|before| before.client.secret == client.secret);
        if is_known || self.options.issuer_metadata_url.is_some() {
            return Ok(());
        }
        let is_confirmed = match &self.options.ui {
            Some(ui) => with_timeout(ui.confirm_secret(SecretRecipient { issuer, client_id: &client.id })).await?,
            None => false,
        };
        if is_confirmed {
            return Ok(());
        }
        Err(OAuthError::UnconfirmedIssuer { server: self.account.endpoint.clone(), issuer: issuer.to_owned() })
    }

    /// Returns the resource indicator (RFC 8707): the identifier of the server.
    fn resource(&self, metadata: &Metadata) -> String {
        let named = metadata.resource.as_ref().and_then(|resource| resource.name.clone());
        named.unwrap_or_else(|| self.account.endpoint.clone())
    }

    /// Returns the scopes to request: those requested before, those that the server requires now, and `offline_access` if
    /// it is supported.
    fn scopes(&self, challenge: &Challenge, metadata: &Metadata) -> Vec<String> {
        let current = self.snapshot();
        let before = current.sign_in.filter(|sign_in| sign_in.issuer == metadata.issuer.name);
        let mut scopes = before.map(|sign_in| sign_in.asked).unwrap_or_default();
        let supported = || metadata.resource.as_ref().and_then(|resource| resource.scopes_supported.clone());
        let required = self.options.scopes.clone().or_else(|| challenge.scopes.clone());
        scopes.extend(required.or_else(supported).unwrap_or_default());
        let needs_user = self.options.grant.needs_user();
        if needs_user && metadata.issuer.scopes_supported.iter().any(|scope| scope == "offline_access") {
            scopes.push("offline_access".to_owned());
        }
        unique_words(&scopes.join(" "))
    }
}

/// Returns the authorization code of a redirect, after checking that the redirect belongs to this authorization.
fn read_code(redirect: &str, state: &Secret, issuer: &IssuerMetadata) -> Result<Secret, OAuthError> {
    let given = query(redirect);
    let get = |name: &str| given.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    if get("state") != Some(state.expose()) {
        return Err(OAuthError::Forged("`state` does not match"));
    }
    match get("iss") {
        Some(iss) if iss != issuer.name => {
            return Err(OAuthError::Forged("`iss` does not match the authorization server"));
        }
        None if issuer.returns_iss => {
            return Err(OAuthError::Forged("`iss` is missing"));
        }
        _ => {}
    }
    if let Some(error) = get("error") {
        let description = get("error_description").map(str::to_owned);
        return Err(OAuthError::Denied { url: issuer.name.clone(), error: error.to_owned(), description });
    }
    get("code").map(Secret::new).ok_or(OAuthError::Forged("`code` is missing"))
}

/// Waits for the user, for a limited time.
async fn with_timeout<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, OAuthError> {
    let timed_out = || Err("the user did not return in time".to_owned());
    tokio::time::timeout(USER_TIMEOUT, work).await.unwrap_or_else(|_| timed_out()).map_err(OAuthError::Nobody)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waiting_for_the_user_times_out() {
        let never = with_timeout(std::future::pending::<Result<(), String>>());
        let waited = tokio::time::timeout(2 * USER_TIMEOUT, never).await;
        assert!(matches!(waited, Ok(Err(OAuthError::Nobody(_)))), "{waited:?}");
    }
}
