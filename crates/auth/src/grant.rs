//! OAuth grants: the authorization of a user, and grants without a user.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use wharf_protocol::Secret;

use crate::discovery::REQUEST_TIMEOUT;
use crate::error::OAuthError;
use crate::store::RegisteredClient;
use crate::token::{TokenClient, Tokens};

const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";

/// How tokens are obtained.
#[derive(Clone, Debug, Default)]
pub enum Grant {
    /// A user signs in on the authorization page (authorization code grant).
    #[default]
    Person,
    /// The client authenticates as itself (client credentials grant).
    Client,
    /// The platform that runs the client asserts its identity (JWT bearer grant, RFC 7523).
    Workload(AssertionSource),
    /// A sign-in at an enterprise identity provider grants access (token exchange, RFC 8693).
    Enterprise(Enterprise),
}

/// Provides a JWT that asserts the identity of the client to an audience. It is called for every token, because assertions
/// are short-lived.
#[derive(Clone)]
pub struct AssertionSource(Arc<Provide>);

type Provide = dyn Fn(&str) -> BoxFuture<'static, Result<Secret, String>> + Send + Sync;

/// A sign-in at an enterprise identity provider.
#[derive(Clone, Debug)]
pub struct Enterprise {
    /// The token endpoint of the identity provider.
    pub token_endpoint: String,
    /// The client that is registered with the identity provider.
    pub client: RegisteredClient,
    /// The ID token of the user.
    pub id_token: Secret,
}

impl AssertionSource {
    /// Creates a source from a function of the audience.
    pub fn new(provide: impl Fn(&str) -> BoxFuture<'static, Result<Secret, String>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(provide))
    }
}

impl fmt::Debug for AssertionSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AssertionSource")
    }
}

/// The parameters of a token request.
pub(super) struct TokenRequest<'a> {
    pub(super) endpoint: &'a str,
    pub(super) issuer: &'a str,
    pub(super) client: &'a RegisteredClient,
    pub(super) resource: &'a str,
    pub(super) scope: &'a str,
}

impl Grant {
    /// Returns whether a user must sign in.
    pub(super) fn needs_user(&self) -> bool {
        matches!(self, Self::Person)
    }

    /// Requests tokens.
    pub(super) async fn tokens(
        &self,
        client: &TokenClient<'_>,
        request: &TokenRequest<'_>,
    ) -> Result<Tokens, OAuthError> {
        let assertion;
        let mut parameters = vec![("resource", request.resource)];
        if !request.scope.is_empty() {
            parameters.push(("scope", request.scope));
        }
        match self {
            Self::Person => return Err(OAuthError::Nobody("no user interface is available".to_owned())),
            Self::Client => parameters.push(("grant_type", "client_credentials")),
            Self::Workload(source) => {
                let timed_out = |_| OAuthError::Nobody("the assertion source timed out".to_owned());
                let provided = tokio::time::timeout(REQUEST_TIMEOUT, (source.0)(request.issuer)).await;
                assertion = provided.map_err(timed_out)?.map_err(OAuthError::Nobody)?;
                parameters.extend([("grant_type", JWT_BEARER), ("assertion", assertion.expose())]);
            }
            Self::Enterprise(enterprise) => {
                assertion = exchange_id_token(client, enterprise, request).await?;
                parameters.extend([("grant_type", JWT_BEARER), ("assertion", assertion.expose())]);
            }
        }
        client.tokens(request.endpoint, request.client, &parameters).await
    }
}

/// Exchanges the ID token for an assertion to the server's authorization server.
async fn exchange_id_token(
    client: &TokenClient<'_>,
    enterprise: &Enterprise,
    request: &TokenRequest<'_>,
) -> Result<Secret, OAuthError> {
    let mut parameters = vec![
        ("grant_type", TOKEN_EXCHANGE),
        ("requested_token_type", ID_JAG),
        ("audience", request.issuer),
        ("resource", request.resource),
        ("subject_token", enterprise.id_token.expose()),
        ("subject_token_type", ID_TOKEN),
    ];
    if !request.scope.is_empty() {
        parameters.push(("scope", request.scope));
    }
    client.exchange(&enterprise.token_endpoint, &enterprise.client, &parameters).await
}

#[cfg(test)]
mod tests {
    use wharf_io::{HttpClient, HttpSettings};

    use super::*;
    use crate::network_zone::NetworkZone;

    #[tokio::test(start_paused = true)]
    async fn an_assertion_source_that_never_answers_times_out() {
        let grant = Grant::Workload(AssertionSource::new(|_| Box::pin(std::future::pending())));
        let http = HttpClient::new(HttpSettings::default()).unwrap();
        let registered = RegisteredClient::public("me");
        let issuer = "https://as.example";
        let endpoint = "https://as.example/token";
        let client =
            TokenClient { http: &http, nearest: NetworkZone::Public, server: "s", key: None, issuer, binding: None };
        let request = TokenRequest { endpoint, issuer, client: &registered, resource: "r", scope: "" };
        let result = tokio::time::timeout(2 * REQUEST_TIMEOUT, grant.tokens(&client, &request)).await;
        assert!(matches!(result, Ok(Err(OAuthError::Nobody(_)))), "{result:?}");
    }
}
