//! Asking an authorization server for tokens, and taking them back.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request};
use serde::{Deserialize, Serialize};
use wharf_io::{HttpClient, HttpError};
use wharf_protocol::Secret;

use super::OAuthError;
use super::assertion::SigningKey;
use super::challenge::words;
use super::discovery::{LIMIT, MOST_READ};
use super::query::form;
use super::reach::{Nearness, refusal};
use super::store::RegisteredClient;
use wharf_io::percent::encode;

const CLIENT_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// The parameters that nobody else may see.
const SECRET: [&str; 8] = [
    "code",
    "code_verifier",
    "refresh_token",
    "client_secret",
    "token",
    "assertion",
    "client_assertion",
    "subject_token",
];
/// What an authorization server says of trouble that is its own.
const PASSING: [&str; 3] = ["server_error", "temporarily_unavailable", "slow_down"];
/// How much of an authorization server's words an error shows.
const MOST_WORDS: usize = 200;

/// Posts to an authorization server.
pub(super) struct Posts<'a> {
    pub(super) http: &'a HttpClient,
    pub(super) nearest: Nearness,
    /// For whose sake, for errors.
    pub(super) server: &'a str,
    /// With what we prove who we are, where that is a key.
    pub(super) key: Option<&'a SigningKey>,
    /// Whom that is made out to.
    pub(super) issuer: &'a str,
}

/// Tokens as they came.
#[derive(Clone, Debug)]
pub(super) struct Tokens {
    pub(super) access: Secret,
    pub(super) refresh: Option<Secret>,
    /// How long the first is good, in seconds.
    pub(super) expires_in: Option<u64>,
    /// What it is good for, where that is not what was asked for.
    pub(super) scopes: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Answer {
    access_token: String,
    token_type: Option<String>,
    expires_in: Option<serde_json::Value>,
    refresh_token: Option<String>,
    scope: Option<String>,
}

#[derive(Default, Deserialize)]
struct Complaint {
    #[serde(default)]
    error: String,
    error_description: Option<String>,
}

impl Posts<'_> {
    /// Asks for tokens. The parameters say for what; who asks is added.
    pub(super) async fn tokens(
        &self,
        endpoint: &str,
        client: &RegisteredClient,
        parameters: &[(&str, &str)],
    ) -> Result<Tokens, OAuthError> {
        let content = self.form(endpoint, client, parameters).await?;
        let malformed = |reason: &str| OAuthError::Malformed { url: endpoint.to_owned(), reason: reason.to_owned() };
        // The content is full of secrets, so errors do not quote it.
        let answer: Answer = serde_json::from_slice(&content).map_err(|_| malformed("it holds no access token"))?;
        if answer.token_type.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
            return Err(malformed("its token is not for bearers"));
        }
        if answer.access_token.is_empty() || HeaderValue::from_str(&answer.access_token).is_err() {
            return Err(malformed("its access token cannot be sent"));
        }
        let seconds = |value: serde_json::Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
        Ok(Tokens {
            access: answer.access_token.into(),
            refresh: answer.refresh_token.filter(|token| !token.is_empty()).map(Secret::from),
            expires_in: answer.expires_in.and_then(seconds),
            scopes: answer.scope.as_deref().map(words),
        })
    }

    /// Takes a token back (RFC 7009).
    pub(super) async fn revoke(
        &self,
        endpoint: &str,
        client: &RegisteredClient,
        token: &Secret,
    ) -> Result<(), OAuthError> {
        self.form(endpoint, client, &[("token", token.expose())]).await.map(drop)
    }

    /// Exchanges a token for one of another kind, which nobody uses as it is (RFC 8693).
    pub(super) async fn exchange(
        &self,
        endpoint: &str,
        client: &RegisteredClient,
        parameters: &[(&str, &str)],
    ) -> Result<Secret, OAuthError> {
        let content = self.form(endpoint, client, parameters).await?;
        let answer = serde_json::from_slice::<Answer>(&content);
        let malformed = |_| OAuthError::Malformed { url: endpoint.to_owned(), reason: "it holds no token".to_owned() };
        Ok(answer.map_err(malformed)?.access_token.into())
    }

    fn assertion(&self, client: &RegisteredClient) -> Result<Secret, OAuthError> {
        match (client.token_endpoint_auth_method.as_str(), self.key) {
            ("private_key_jwt", Some(key)) => key.assertion(&client.id, self.issuer),
            ("private_key_jwt", None) => Err(OAuthError::NoKey),
            _ => Ok(Secret::default()),
        }
    }

    /// Posts a form as a client that proves who it is.
    async fn form(
        &self,
        endpoint: &str,
        client: &RegisteredClient,
        parameters: &[(&str, &str)],
    ) -> Result<Vec<u8>, OAuthError> {
        let (mut parameters, assertion) = (parameters.to_vec(), self.assertion(client)?);
        let secret = client.secret.as_ref().map_or("", Secret::expose);
        let mut proof = None;
        match client.token_endpoint_auth_method.as_str() {
            "client_secret_basic" => {
                let pair = format!("{}:{}", encode(&client.id), encode(secret));
                proof = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair))).ok();
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
        let shown = proof.clone();
        let answered = self.post(endpoint, "application/x-www-form-urlencoded", content.into(), proof).await;
        answered.map_err(|error| match error {
            // Some quote what they were sent.
            OAuthError::Denied { url, error, description } => {
                let shown = shown.as_ref().and_then(|proof| proof.to_str().ok()?.strip_prefix("Basic "));
                let secrets = parameters.iter().filter(|(name, _)| SECRET.contains(name)).map(|(_, secret)| *secret);
                let secrets: Vec<&str> = secrets.chain([secret]).chain(shown).collect();
                let description = description.map(|words| without(&secrets, &words));
                OAuthError::Denied { url, error: without(&secrets, &error), description }
            }
            other => other,
        })
    }

    /// Posts an object and reads one.
    pub(super) async fn json<T: for<'d> Deserialize<'d>>(
        &self,
        endpoint: &str,
        object: &impl Serialize,
    ) -> Result<T, OAuthError> {
        let malformed = |reason: String| OAuthError::Malformed { url: endpoint.to_owned(), reason };
        let content = serde_json::to_vec(object).map_err(|error| malformed(error.to_string()))?;
        let content = self.post(endpoint, "application/json", content.into(), None).await?;
        serde_json::from_slice(&content).map_err(|_| malformed("it is not what was asked for".to_owned()))
    }

    async fn post(
        &self,
        endpoint: &str,
        kind: &'static str,
        content: Bytes,
        proof: Option<HeaderValue>,
    ) -> Result<Vec<u8>, OAuthError> {
        let refused =
            |reason: String| OAuthError::Refused { server: self.server.to_owned(), url: endpoint.to_owned(), reason };
        if let Some(reason) = refusal(endpoint, self.nearest) {
            return Err(refused(reason));
        }
        let mut request = Request::new(content);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = endpoint.parse().map_err(|_| refused("it cannot be read".to_owned()))?;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(mut proof) = proof {
            proof.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, proof);
        }
        let unreachable = |reason: String| OAuthError::Unreachable { url: endpoint.to_owned(), reason };
        let posting = async {
            let response = self.http.send(request).await.map_err(|error| match error {
                HttpError::Redirected(_) => refused(error.to_string()),
                error => unreachable(error.to_string()),
            })?;
            let (status, mut body) = (response.status(), response.into_body());
            let content = body.read_all(MOST_READ).await.map_err(|error| unreachable(error.to_string()))?;
            let complaint: Complaint = serde_json::from_slice(&content).unwrap_or_default();
            // Some say no with a good status.
            if status.is_success() && complaint.error.is_empty() {
                return Ok(content);
            }
            let passing = PASSING.contains(&complaint.error.as_str());
            if passing || status.is_server_error() || matches!(status.as_u16(), 408 | 429) {
                return Err(unreachable(format!("HTTP {}", status.as_u16())));
            }
            let error = if complaint.error.is_empty() { format!("HTTP {}", status.as_u16()) } else { complaint.error };
            Err(OAuthError::Denied { url: endpoint.to_owned(), error, description: complaint.error_description })
        };
        let late = || unreachable(format!("no answer within {} s", LIMIT.as_secs()));
        tokio::time::timeout(LIMIT, posting).await.unwrap_or_else(|_| Err(late()))
    }
}

/// Somebody else's words without our secrets in them, on one line and not too many.
fn without(secrets: &[&str], words: &str) -> String {
    let mut words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        for spelling in [(*secret).to_owned(), encode(secret)] {
            words = words.replace(&spelling, "…");
        }
    }
    words.chars().filter(|letter| !letter.is_control()).take(MOST_WORDS).collect()
}
