//! What a token is given for: a person's sign-in, or something that needs nobody.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use wharf_protocol::Secret;

use super::OAuthError;
use super::discovery::LIMIT;
use super::store::RegisteredClient;
use super::token::{Posts, Tokens};

const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";

/// What a token is given for.
#[derive(Clone, Debug, Default)]
pub enum Grant {
    /// A person signs in on a page.
    #[default]
    Person,
    /// We are let in as who we are: a service among services.
    Client,
    /// Somebody else says who we are: the platform that runs us.
    Workload(AssertionSource),
    /// The company's own sign-in stands for all of its servers.
    Enterprise(Enterprise),
}

/// Gives a statement of somebody else about who we are, made out to `audience`. It is asked for every token, because such
/// statements do not live long.
#[derive(Clone)]
pub struct AssertionSource(Arc<Ask>);

type Ask = dyn Fn(&str) -> BoxFuture<'static, Result<Secret, String>> + Send + Sync;

/// A sign-in at a company's identity provider.
#[derive(Clone, Debug)]
pub struct Enterprise {
    /// Where the identity provider exchanges it.
    pub token_endpoint: String,
    /// Who we are to the identity provider.
    pub client: RegisteredClient,
    /// The identity token that says who the person is.
    pub id_token: Secret,
}

impl AssertionSource {
    /// By asking this every time.
    pub fn new(ask: impl Fn(&str) -> BoxFuture<'static, Result<Secret, String>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }
}

impl fmt::Debug for AssertionSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vouching")
    }
}

/// What a token that needs nobody is asked for with.
pub(super) struct Wanted<'a> {
    pub(super) endpoint: &'a str,
    pub(super) issuer: &'a str,
    pub(super) client: &'a RegisteredClient,
    pub(super) resource: &'a str,
    pub(super) scope: &'a str,
}

impl Grant {
    /// Whether a person has to be there.
    pub(super) fn needs_person(&self) -> bool {
        matches!(self, Self::Person)
    }

    /// Asks for a token.
    pub(super) async fn tokens(&self, posts: &Posts<'_>, wanted: &Wanted<'_>) -> Result<Tokens, OAuthError> {
        let assertion;
        let mut parameters = vec![("resource", wanted.resource)];
        if !wanted.scope.is_empty() {
            parameters.push(("scope", wanted.scope));
        }
        match self {
            Self::Person => return Err(OAuthError::Nobody("there is nobody to ask".to_owned())),
            Self::Client => parameters.push(("grant_type", "client_credentials")),
            Self::Workload(vouching) => {
                let late = |_| OAuthError::Nobody("there was no word for us in time".to_owned());
                let word = tokio::time::timeout(LIMIT, (vouching.0)(wanted.issuer)).await.map_err(late)?;
                assertion = word.map_err(OAuthError::Nobody)?;
                parameters.extend([("grant_type", JWT_BEARER), ("assertion", assertion.expose())]);
            }
            Self::Enterprise(enterprise) => {
                assertion = exchanged(posts, enterprise, wanted).await?;
                parameters.extend([("grant_type", JWT_BEARER), ("assertion", assertion.expose())]);
            }
        }
        posts.tokens(wanted.endpoint, wanted.client, &parameters).await
    }
}

/// The company's word for us, made out to the server's authorization server.
async fn exchanged(posts: &Posts<'_>, enterprise: &Enterprise, wanted: &Wanted<'_>) -> Result<Secret, OAuthError> {
    let mut parameters = vec![
        ("grant_type", TOKEN_EXCHANGE),
        ("requested_token_type", ID_JAG),
        ("audience", wanted.issuer),
        ("resource", wanted.resource),
        ("subject_token", enterprise.id_token.expose()),
        ("subject_token_type", ID_TOKEN),
    ];
    if !wanted.scope.is_empty() {
        parameters.push(("scope", wanted.scope));
    }
    posts.exchange(&enterprise.token_endpoint, &enterprise.client, &parameters).await
}

#[cfg(test)]
mod tests {
    use wharf_io::{HttpClient, HttpSettings};

    use super::*;
    use crate::reach::Nearness;

    #[tokio::test(start_paused = true)]
    async fn somebody_who_never_vouches_for_us_is_not_waited_for_without_end() {
        let grant = Grant::Workload(AssertionSource::new(|_| Box::pin(std::future::pending())));
        let (http, client) = (HttpClient::new(HttpSettings::default()).unwrap(), RegisteredClient::public("me"));
        let (issuer, endpoint) = ("https://as.example", "https://as.example/token");
        let posts = Posts { http: &http, nearest: Nearness::Public, server: "s", key: None, issuer };
        let wanted = Wanted { endpoint, issuer, client: &client, resource: "r", scope: "" };
        let asked = tokio::time::timeout(2 * LIMIT, grant.tokens(&posts, &wanted)).await;
        assert!(matches!(asked, Ok(Err(OAuthError::Nobody(_)))), "{asked:?}");
    }
}
