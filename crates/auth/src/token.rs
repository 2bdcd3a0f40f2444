//! Requests to an authorization server: obtaining, exchanging and revoking tokens.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request};
use serde::{Deserialize, Serialize};
use wharf_io::percent::encode;
use wharf_io::{HttpClient, HttpError};
use wharf_protocol::Secret;

use crate::assertion::SigningKey;
use crate::challenge::unique_words;
use crate::discovery::{MAX_RESPONSE_BYTES, REQUEST_TIMEOUT};
use crate::error::OAuthError;
use crate::network_zone::{NetworkZone, refusal};
use crate::query::form;
use crate::store::RegisteredClient;

const CLIENT_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// Parameters with secret values.
const SECRET_PARAMETERS: [&str; 8] = [
    "code",
    "code_verifier",
    "refresh_token",
    "client_secret",
    "token",
    "assertion",
    "client_assertion",
    "subject_token",
];
/// Error codes of temporary failures.
const TEMPORARY_ERRORS: [&str; 3] = ["server_error", "temporarily_unavailable", "slow_down"];
/// Maximum length of an authorization server's text in an error.
const MAX_ERROR_CHARS: usize = 200;

/// Sends requests to an authorization server.
pub(super) struct TokenClient<'a> {
    pub(super) http: &'a HttpClient,
    pub(super) nearest: NetworkZone,
    /// The MCP server, for errors.
    pub(super) server: &'a str,
    /// The key for `private_key_jwt`.
    pub(super) key: Option<&'a SigningKey>,
    /// The audience of assertions.
    pub(super) issuer: &'a str,
}

/// A successful token response.
#[derive(Clone, Debug)]
pub(super) struct Tokens {
    pub(super) access: Secret,
    pub(super) refresh: Option<Secret>,
    /// Lifetime of the access token in seconds.
    pub(super) expires_in: Option<u64>,
    /// The granted scopes; `None` if they are the requested ones.
    pub(super) scopes: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    token_type: Option<String>,
    expires_in: Option<serde_json::Value>,
    refresh_token: Option<String>,
    scope: Option<String>,
}

#[derive(Default, Deserialize)]
struct ErrorResponse {
    #[serde(default)]
    error: String,
    error_description: Option<String>,
}

impl TokenClient<'_> {
    /// Requests tokens. Adds the client authentication to the parameters.
    pub(super) async fn tokens(
        &self,
        endpoint: &str,
        client: &RegisteredClient,
        parameters: &[(&str, &str)],
    ) -> Result<Tokens, OAuthError> {
        let content = self.form(endpoint, client, parameters).await?;
        let malformed = |reason: &str| OAuthError::Malformed { url: endpoint.to_owned(), reason: reason.to_owned() };
        // The content contains secrets, so errors do not quote it.
        let response: TokenResponse = serde_json::from_slice(&content).map_err(|_| malformed("no access token"))?;
        if response.token_type.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
            return Err(malformed("not a bearer token"));
        }
        if response.access_token.is_empty() || HeaderValue::from_str(&response.access_token).is_err() {
            return Err(malformed("the access token contains invalid characters"));
        }
        let seconds = |value: serde_json::Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
        Ok(Tokens {
            access: response.access_token.into(),
            refresh: response.refresh_token.filter(|token| !token.is_empty()).map(Secret::from),
            expires_in: response.expires_in.and_then(seconds),
            scopes: response.scope.as_deref().map(unique_words),
        })
    }

    /// Revokes a token (RFC 7009).
    pub(super) async fn revoke(
        &self,
        endpoint: &str,
        client: &RegisteredClient,
        token: &Secret,
    ) -> Result<(), OAuthError> {
        self.form(endpoint, client, &[("token", token.expose())]).await.map(drop)
    }

    /// Exchanges a token for one of another type (RFC 8693).
    pub(super) async fn exchange(
        &self,
        endpoint: &str,
        client: &RegisteredClient,
        parameters: &[(&str, &str)],
    ) -> Result<Secret, OAuthError> {
        let content = self.form(endpoint, client, parameters).await?;
        let response = serde_json::from_slice::<TokenResponse>(&content);
        let malformed = |_| OAuthError::Malformed { url: endpoint.to_owned(), reason: "no token".to_owned() };
        Ok(response.map_err(malformed)?.access_token.into())
    }

    fn assertion(&self, client: &RegisteredClient) -> Result<Secret, OAuthError> {
        match (client.token_endpoint_auth_method.as_str(), self.key) {
            ("private_key_jwt", Some(key)) => key.assertion(&client.id, self.issuer),
            ("private_key_jwt", None) => Err(OAuthError::NoKey),
            _ => Ok(Secret::default()),
        }
    }

    /// Posts a form with client authentication.
    async fn form(
        &self,
        endpoint: &str,
        client: &RegisteredClient,
        parameters: &[(&str, &str)],
    ) -> Result<Vec<u8>, OAuthError> {
        let mut parameters = parameters.to_vec();
        let assertion = self.assertion(client)?;
        let secret = client.secret.as_ref().map_or("", Secret::expose);
        let mut authorization = None;
        match client.token_endpoint_auth_method.as_str() {
            "client_secret_basic" => {
                let pair = format!("{}:{}", encode(&client.id), encode(secret));
                authorization = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair))).ok();
            }
            "client_secret_post" => parameters.extend([("client_id", &*client.id), ("client_secret", secret)]),
            "private_key_jwt" => parameters.extend([
                ("client_id", &*client.id),
                ("client_assertion_type", CLIENT_ASSERTION),
                ("client_assertion", assertion.expose()),
            ]),
            _ => parameters.push(("client_id", &client.id)),
        }
        let content = form(&parameters);
        let sent = authorization.clone();
        let result = self.post(endpoint, "application/x-www-form-urlencoded", content.into(), authorization).await;
        result.map_err(|error| match error {
            // Some authorization servers quote the request.
            OAuthError::Denied { url, error, description } => {
                let sent = sent.as_ref().and_then(|value| value.to_str().ok()?.strip_prefix("Basic "));
                let secrets =
                    parameters.iter().filter(|(name, _)| SECRET_PARAMETERS.contains(name)).map(|(_, secret)| *secret);
                let secrets: Vec<&str> = secrets.chain([secret]).chain(sent).collect();
                let description = description.map(|text| redact(&secrets, &text));
                OAuthError::Denied { url, error: redact(&secrets, &error), description }
            }
            other => other,
        })
    }

    /// Posts JSON and parses the JSON response.
    pub(super) async fn json<T: for<'d> Deserialize<'d>>(
        &self,
        endpoint: &str,
        object: &impl Serialize,
    ) -> Result<T, OAuthError> {
        let malformed = |reason: String| OAuthError::Malformed { url: endpoint.to_owned(), reason };
        let content = serde_json::to_vec(object).map_err(|error| malformed(error.to_string()))?;
        let content = self.post(endpoint, "application/json", content.into(), None).await?;
        serde_json::from_slice(&content).map_err(|_| malformed("unexpected content".to_owned()))
    }

    async fn post(
        &self,
        endpoint: &str,
        content_type: &'static str,
        content: Bytes,
        authorization: Option<HeaderValue>,
    ) -> Result<Vec<u8>, OAuthError> {
        let refused =
            |reason: String| OAuthError::Refused { server: self.server.to_owned(), url: endpoint.to_owned(), reason };
        if let Some(reason) = refusal(endpoint, self.nearest) {
            return Err(refused(reason));
        }
        let mut request = Request::new(content);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = endpoint.parse().map_err(|_| refused("invalid URL".to_owned()))?;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(mut authorization) = authorization {
            authorization.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, authorization);
        }
        let unreachable = |reason: String| OAuthError::Unreachable { url: endpoint.to_owned(), reason };
        let exchange = async {
            let response = self.http.send(request).await.map_err(|error| match error {
                HttpError::Redirected(_) => refused(error.to_string()),
                error => unreachable(error.to_string()),
            })?;
            let status = response.status();
            let mut body = response.into_body();
            let content = body.read_all(MAX_RESPONSE_BYTES).await.map_err(|error| unreachable(error.to_string()))?;
            let failure: ErrorResponse = serde_json::from_slice(&content).unwrap_or_default();
            // Some authorization servers send errors with status 200.
            if status.is_success() && failure.error.is_empty() {
                return Ok(content);
            }
            let is_temporary = TEMPORARY_ERRORS.contains(&failure.error.as_str());
            if is_temporary || status.is_server_error() || matches!(status.as_u16(), 408 | 429) {
                return Err(unreachable(format!("HTTP {}", status.as_u16())));
            }
            let error = if failure.error.is_empty() { format!("HTTP {}", status.as_u16()) } else { failure.error };
            Err(OAuthError::Denied { url: endpoint.to_owned(), error, description: failure.error_description })
        };
        let timed_out = || unreachable(format!("no response within {} s", REQUEST_TIMEOUT.as_secs()));
        tokio::time::timeout(REQUEST_TIMEOUT, exchange).await.unwrap_or_else(|_| Err(timed_out()))
    }
}

/// Removes secrets and control characters from an authorization server's text, and truncates it.
fn redact(secrets: &[&str], text: &str) -> String {
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        for spelling in [(*secret).to_owned(), encode(secret)] {
            text = text.replace(&spelling, "…");
        }
    }
    text.chars().filter(|character| !character.is_control()).take(MAX_ERROR_CHARS).collect()
}
