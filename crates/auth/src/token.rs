//! Requests to an authorization server: obtaining, exchanging and revoking tokens.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Uri};
use serde::{Deserialize, Serialize};
use wharf_io::percent::encode;
use wharf_io::{HttpClient, HttpError};
use wharf_protocol::Secret;

use crate::assertion::SigningKey;
use crate::challenge::unique_words;
use crate::discovery::{MAX_RESPONSE_BYTES, REQUEST_TIMEOUT, origin};
use crate::dpop::{Binding, Nonces, PROOF, ProofTarget, USE_NONCE};
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
/// How often a token request is sent again because the authorization server requires another nonce.
const MAX_NONCE_RETRIES: u32 = 3;

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
    /// The key that tokens are bound to.
    pub(super) binding: Option<Binding<'a>>,
}

/// The content of a request, and its client authentication.
#[derive(Clone)]
struct Post {
    content_type: &'static str,
    content: Bytes,
    authorization: Option<HeaderValue>,
}

/// The proof of possession of a request, and where the nonce of its response belongs.
struct Proof<'a> {
    value: HeaderValue,
    origin: &'a str,
    nonces: &'a Nonces,
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
    /// Whether the access token is bound to the key of the request.
    pub(super) is_bound: bool,
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
        let content = self.form(endpoint, client, parameters, self.binding).await?;
        let malformed = |reason: &str| OAuthError::Malformed { url: endpoint.to_owned(), reason: reason.to_owned() };
        // The content contains secrets, so errors do not quote it.
        let response: TokenResponse = serde_json::from_slice(&content).map_err(|_| malformed("no access token"))?;
        let token_type = response.token_type.as_deref().unwrap_or("Bearer");
        let is_bound = self.binding.is_some() && token_type.eq_ignore_ascii_case("dpop");
        if !is_bound && self.binding.is_some_and(|binding| binding.is_required) {
            return Err(malformed("the access token is not bound to the client's key"));
        }
        if !is_bound && !token_type.eq_ignore_ascii_case("bearer") {
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
            is_bound,
        })
    }

    /// Revokes a token (RFC 7009).
    pub(super) async fn revoke(
        &self,
        endpoint: &str,
        client: &RegisteredClient,
        token: &Secret,
    ) -> Result<(), OAuthError> {
        self.form(endpoint, client, &[("token", token.expose())], None).await.map(drop)
    }

    /// Exchanges a token for one of another type (RFC 8693).
    pub(super) async fn exchange(
        &self,
        endpoint: &str,
        client: &RegisteredClient,
        parameters: &[(&str, &str)],
    ) -> Result<Secret, OAuthError> {
        let content = self.form(endpoint, client, parameters, None).await?;
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

    /// Posts a form with client authentication, and with a proof of possession if the response is bound to a key.
    async fn form(
        &self,
        endpoint: &str,
        client: &RegisteredClient,
        parameters: &[(&str, &str)],
        binding: Option<Binding<'_>>,
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
        let content = form(&parameters).into();
        let sent = authorization.clone();
        let post = Post { content_type: "application/x-www-form-urlencoded", content, authorization };
        let result = match binding {
            Some(binding) => self.post_bound(endpoint, post, binding).await,
            None => self.post(endpoint, post, None).await,
        };
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
        let post = Post { content_type: "application/json", content: content.into(), authorization: None };
        let content = self.post(endpoint, post, None).await?;
        serde_json::from_slice(&content).map_err(|_| malformed("unexpected content".to_owned()))
    }

    /// Posts with a proof of possession, and again with each new nonce that the authorization server requires.
    async fn post_bound(&self, endpoint: &str, post: Post, binding: Binding<'_>) -> Result<Vec<u8>, OAuthError> {
        let invalid = |_| OAuthError::Malformed { url: endpoint.to_owned(), reason: "invalid URL".to_owned() };
        let url: Uri = endpoint.parse().map_err(invalid)?;
        let origin = origin(&url);
        let mut retries = 0;
        loop {
            let nonce = binding.nonces.issuer(&origin);
            let target = ProofTarget { method: &Method::POST, url: &url, token: None, nonce: nonce.as_deref() };
            let proof = Proof { value: binding.key.proof(target)?, origin: &origin, nonces: binding.nonces };
            match self.post(endpoint, post.clone(), Some(proof)).await {
                Err(OAuthError::Denied { error, .. })
                    if error == USE_NONCE && retries < MAX_NONCE_RETRIES && binding.nonces.issuer(&origin) != nonce =>
                {
                    retries += 1;
                }
                result => return result,
            }
        }
    }

    async fn post(&self, endpoint: &str, post: Post, proof: Option<Proof<'_>>) -> Result<Vec<u8>, OAuthError> {
        let Post { content_type, content, authorization } = post;
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
        if let Some(proof) = &proof {
            request.headers_mut().insert(PROOF, proof.value.clone());
        }
        let unreachable = |reason: String| OAuthError::Unreachable { url: endpoint.to_owned(), reason };
        let exchange = async {
            let response = self.http.send(request).await.map_err(|error| match error {
                HttpError::Redirected(_) => refused(error.to_string()),
                error => unreachable(error.to_string()),
            })?;
            if let Some(proof) = &proof {
                proof.nonces.issuer_responded(proof.origin, response.headers());
            }
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
