//! How a sign-in comes about: with a person on a page, or with nobody.

use std::time::Duration;

use wharf_protocol::Secret;

use super::Inner;
use crate::challenge::{Challenge, words};
use crate::discovery::{Found, Issuer};
use crate::grant::Wanted;
use crate::query::{form, query};
use crate::store::{RegisteredClient, SignIn};
use crate::token::Tokens;
use crate::{OAuthError, browser, chance, registration};
use wharf_io::unix_now;

/// How long a person may take. Nobody else can sign in meanwhile.
const PATIENCE: Duration = Duration::from_secs(60 * 60);

/// What a person came back with, and what it goes with.
pub(super) struct Permit {
    issuer: Issuer,
    client: RegisteredClient,
    scopes: Vec<String>,
    resource: String,
    redirect_uri: String,
    verifier: Secret,
    code: Secret,
}

impl Inner {
    /// Has a person sign in, and come back with what can be exchanged for tokens.
    pub(super) async fn visit(&self, challenge: &Challenge) -> Result<Permit, OAuthError> {
        let Some(visitor) = &self.options.visitor else {
            return Err(OAuthError::Nobody("there is nobody to ask".to_owned()));
        };
        let (http, nearest) = self.reach().await?;
        let found = self.explorer(&http, nearest).find(challenge).await?;
        let issuer = &found.issuer;
        let Some(page) = &issuer.authorization_endpoint else {
            return Err(OAuthError::NoPage(issuer.name.clone()));
        };
        self.keep_secret_from(&issuer.name)?;
        let known = self.options.store.client(&issuer.name, &self.options.profile).await?;
        let before = known.as_ref().and_then(|known| known.redirect_uri.as_deref());
        let visit = in_time(visitor.begin(before)).await?;
        let redirect_uri = visit.redirect_uri().to_owned();
        let posts = self.posts(&http, nearest, &issuer.name);
        let client = registration::client(&posts, &found, &self.options, &redirect_uri).await?;

        let (scopes, resource) = (self.scopes(challenge, &found), self.resource(&found));
        let (state, verifier) = (chance::random()?, chance::random()?);
        let (proof, wanted) = (chance::challenge(&verifier), scopes.join(" "));
        let mut parameters = vec![
            ("response_type", "code"),
            ("client_id", &client.id),
            ("redirect_uri", &redirect_uri),
            ("state", state.expose()),
            ("code_challenge", &proof),
            ("code_challenge_method", "S256"),
            ("resource", &resource),
        ];
        if !scopes.is_empty() {
            parameters.push(("scope", &wanted));
        }
        if scopes.iter().any(|scope| scope == "offline_access") {
            // Without it, OpenID providers pass the wish over.
            parameters.push(("prompt", "consent"));
        }
        let url = format!("{page}{}{}", if page.contains('?') { '&' } else { '?' }, form(&parameters));
        browser::check(&url).map_err(|error| OAuthError::Refused {
            server: self.account.endpoint.clone(),
            url: page.clone(),
            reason: error.to_string(),
        })?;
        let back = in_time(visit.go(url, state.expose().to_owned())).await?;
        let code = code(&back, &state, &found)?;
        Ok(Permit { issuer: found.issuer, client, scopes, resource, redirect_uri, verifier, code })
    }

    /// Exchanges what a person came back with for tokens.
    pub(super) async fn redeem(&self, permit: Permit) -> Result<(), OAuthError> {
        let Permit { issuer, client, scopes, resource, redirect_uri, verifier, code } = permit;
        let (http, nearest) = self.reach().await?;
        let posts = self.posts(&http, nearest, &issuer.name);
        let parameters = [
            ("grant_type", "authorization_code"),
            ("code", code.expose()),
            ("redirect_uri", &redirect_uri),
            ("code_verifier", verifier.expose()),
            ("resource", &resource),
        ];
        // Whoever renews the sign-in before this one must be done with it.
        let _turn_of_all = self.options.store.turn(&self.account).await?;
        let tokens = posts.tokens(&issuer.token_endpoint, &client, &parameters).await;
        if let Err(OAuthError::Denied { error, .. }) = &tokens {
            self.forget_client_after(error, &issuer.name).await?;
        }
        self.received(tokens?, (issuer, client), scopes, resource).await
    }

    /// Gets a token as who we are, or by somebody's word for us.
    pub(super) async fn by_itself(&self, challenge: &Challenge) -> Result<(), OAuthError> {
        let (http, nearest) = self.reach().await?;
        let found = self.explorer(&http, nearest).find(challenge).await?;
        let issuer = &found.issuer;
        self.keep_secret_from(&issuer.name)?;
        let posts = self.posts(&http, nearest, &issuer.name);
        let client = registration::client(&posts, &found, &self.options, "").await?;
        let (scopes, resource) = (self.scopes(challenge, &found), self.resource(&found));
        let wanted = Wanted {
            endpoint: &issuer.token_endpoint,
            issuer: &issuer.name,
            client: &client,
            resource: &resource,
            scope: &scopes.join(" "),
        };
        let _turn_of_all = self.options.store.turn(&self.account).await?;
        let tokens = self.options.grant.tokens(&posts, &wanted).await?;
        self.received(tokens, (found.issuer, client), scopes, resource).await
    }

    /// Keeps tokens that have come, and uses them from now on.
    async fn received(
        &self,
        tokens: Tokens,
        (issuer, client): (Issuer, RegisteredClient),
        scopes: Vec<String>,
        resource: String,
    ) -> Result<(), OAuthError> {
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
        };
        self.options.store.keep(&self.account, sign_in.clone()).await?;
        self.adopt(Some(sign_in));
        Ok(())
    }

    /// A server that names another authorization server than before might be after the secret that the one before knows.
    fn keep_secret_from(&self, issuer: &str) -> Result<(), OAuthError> {
        let before = self.snapshot().sign_in.map(|sign_in| sign_in.issuer).filter(|before| before != issuer);
        let secret = self.options.client.as_ref().is_some_and(|client| client.secret.is_some());
        let Some(before) = before.filter(|_| secret) else { return Ok(()) };
        let reason = format!("the client's secret belongs to {before}; sign out first if it is the same there");
        let (server, url) = (self.account.endpoint.clone(), issuer.to_owned());
        Err(OAuthError::Refused { server, url, reason })
    }

    /// What the token is for: the server as it calls itself.
    fn resource(&self, found: &Found) -> String {
        let named = found.resource.as_ref().and_then(|resource| resource.name.clone());
        named.unwrap_or_else(|| self.account.endpoint.clone())
    }

    /// What the token is to be good for: what was asked for before, what the server wants now, and being there when nobody
    /// is, where that is on offer.
    fn scopes(&self, challenge: &Challenge, found: &Found) -> Vec<String> {
        let current = self.snapshot();
        let before = current.sign_in.filter(|sign_in| sign_in.issuer == found.issuer.name);
        let mut scopes = before.map(|sign_in| sign_in.asked).unwrap_or_default();
        let offered = || found.resource.as_ref().and_then(|resource| resource.scopes_supported.clone());
        let wanted = self.options.scopes.clone().or_else(|| challenge.scopes.clone());
        scopes.extend(wanted.or_else(offered).unwrap_or_default());
        let returns = self.options.grant.needs_person();
        if returns && found.issuer.scopes_supported.iter().any(|scope| scope == "offline_access") {
            scopes.push("offline_access".to_owned());
        }
        words(&scopes.join(" "))
    }
}

/// The code that a person came back with.
fn code(back: &str, state: &Secret, found: &Found) -> Result<Secret, OAuthError> {
    let given = query(back);
    let get = |name: &str| given.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    if get("state") != Some(state.expose()) {
        return Err(OAuthError::Forged("it came back for another sign-in (its state is not ours)"));
    }
    match get("iss") {
        Some(iss) if iss != found.issuer.name => {
            return Err(OAuthError::Forged("another authorization server answered than the one that was asked"));
        }
        None if found.issuer.says_iss => {
            return Err(OAuthError::Forged("it does not say which authorization server answered"));
        }
        _ => {}
    }
    if let Some(error) = get("error") {
        let (url, error) = (found.issuer.name.clone(), error.to_owned());
        return Err(OAuthError::Denied { url, error, description: get("error_description").map(str::to_owned) });
    }
    get("code").map(Secret::new).ok_or(OAuthError::Forged("it came back without a code"))
}

/// What a person does, if they do it at all.
async fn in_time<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, OAuthError> {
    let late = || Err("they did not come back".to_owned());
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| late()).map_err(OAuthError::Nobody)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_person_who_never_comes_back_is_not_waited_for_without_end() {
        let never = in_time(std::future::pending::<Result<(), String>>());
        let waited = tokio::time::timeout(2 * PATIENCE, never).await;
        assert!(matches!(waited, Ok(Err(OAuthError::Nobody(_)))), "{waited:?}");
    }
}
