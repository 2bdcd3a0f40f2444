//! A provider's base URL, credentials and timeouts.
//!
//! API keys stay in here: they are not in `Debug`, and are removed from the messages of providers.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use wharf_io::HttpClient;
use wharf_io::address::{self, HTTP_SCHEMES, InvalidAddress};
use wharf_protocol::Secret;

use crate::{ModelError, ModelErrorKind};

/// The `User-Agent` of requests.
const WHARF_USER_AGENT: &str = concat!("wharf/", env!("CARGO_PKG_VERSION"));

/// Minimum length of a secret that is redacted. Shorter texts may be part of any word.
const MIN_SECRET_LENGTH: usize = 6;

/// A provider's base URL with credentials, headers, timeouts and HTTP client.
#[derive(Clone)]
pub struct Endpoint {
    base: Uri,
    key: Option<Secret>,
    headers: HeaderMap,
    /// Texts that must not appear in error messages.
    secrets: Vec<Secret>,
    pub(super) http: HttpClient,
    pub(super) timeouts: ProviderTimeouts,
}

/// Timeouts of requests to a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderTimeouts {
    /// Until the first part of the response. An unstreamed response starts when it is complete.
    pub first_byte: Duration,
    /// Between two parts of the response.
    pub idle: Duration,
    /// Of the whole request.
    pub total: Duration,
}

/// An invalid endpoint. The messages contain neither the URL nor the key: both may contain secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEndpoint {
    /// The base URL is invalid.
    #[error("invalid base URL: expected an http or https URL")]
    Address,
    /// The base URL contains a user name or a password.
    #[error("invalid base URL: it contains a user name or a password; use the setting for the key instead")]
    Credentials,
    /// The key is invalid in a header.
    #[error("invalid API key: it contains characters that cannot be sent, for example a line break")]
    Key,
    /// A custom header is invalid.
    #[error("invalid header: its name or value contains characters that cannot be sent")]
    Header,
}

impl Default for ProviderTimeouts {
    fn default() -> Self {
        let minutes = |number: u64| Duration::from_secs(number * 60);
        Self { first_byte: minutes(10), idle: minutes(5), total: minutes(60) }
    }
}

impl Endpoint {
    /// Creates an endpoint from a base URL, including the version: `https://api.openai.com/v1`.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid, or contains a password.
    pub fn new(base_url: &str, key: Option<Secret>, http: HttpClient) -> Result<Self, InvalidEndpoint> {
        let base = address::parse(base_url.trim(), HTTP_SCHEMES).map_err(|invalid| match invalid {
            InvalidAddress::Credentials => InvalidEndpoint::Credentials,
            _ => InvalidEndpoint::Address,
        })?;
        let key = key.filter(|key| !key.expose().trim().is_empty());
        let secrets = key.iter().cloned().collect();
        Ok(Self { base, key, headers: HeaderMap::new(), secrets, http, timeouts: ProviderTimeouts::default() })
    }

    /// Adds a header. Its value is treated as a secret.
    ///
    /// # Errors
    /// Returns an error if the name or the value is invalid.
    pub fn with_header(mut self, name: &str, value: Secret) -> Result<Self, InvalidEndpoint> {
        let name: HeaderName = name.parse().map_err(|_| InvalidEndpoint::Header)?;
        self.headers.insert(name, sensitive(value.expose()).ok_or(InvalidEndpoint::Header)?);
        self.secrets.push(value);
        Ok(self)
    }

    /// Sets the timeouts.
    #[must_use]
    pub fn with_timeouts(mut self, timeouts: ProviderTimeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Sends the key, if there is one, in this header after the prefix. A header set by the caller has precedence.
    pub(super) fn with_key_header(mut self, name: &'static str, prefix: &str) -> Result<Self, InvalidEndpoint> {
        if let Some(key) = &self.key
            && !self.headers.contains_key(name)
        {
            let value = sensitive(&format!("{prefix}{}", key.expose().trim())).ok_or(InvalidEndpoint::Key)?;
            self.headers.insert(name, value);
        }
        Ok(self)
    }

    /// Adds a header that is not secret, unless the caller set it.
    pub(super) fn with_default_header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.entry(name).or_insert(HeaderValue::from_static(value));
        self
    }

    /// Removes a suffix of the URL's path.
    pub(super) fn without_suffix(mut self, suffix: &str) -> Self {
        let path = self.base.path().trim_end_matches('/');
        if let Some(shorter) = path.strip_suffix(suffix).map(str::to_owned)
            && let Some(base) = self.with_path(&shorter)
        {
            self.base = base;
        }
        self
    }

    /// Creates a request to a path below the base URL.
    pub(super) fn request(&self, method: Method, path: &str, body: Bytes) -> Result<Request<Bytes>, ModelError> {
        let whole = format!("{}{path}", self.base.path().trim_end_matches('/'));
        let uri = self
            .with_path(&whole)
            .ok_or_else(|| self.error(ModelErrorKind::Invalid, "invalid base URL: it cannot have a path"))?;
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = self.headers.clone();
        let headers = request.headers_mut();
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(WHARF_USER_AGENT));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        Ok(request)
    }

    /// Returns the base URL with another path and the same query.
    fn with_path(&self, path: &str) -> Option<Uri> {
        let query = self.base.query().map(|query| format!("?{query}")).unwrap_or_default();
        let path = if path.is_empty() { "/" } else { path };
        let mut parts = self.base.clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::try_from(format!("{path}{query}")).ok()?);
        Uri::from_parts(parts).ok()
    }

    /// Creates an error with the base URL, without secrets in its message.
    pub(super) fn error(&self, kind: ModelErrorKind, message: impl Into<String>) -> ModelError {
        ModelError { url: Some(self.redact(self.base_url())), ..ModelError::new(kind, self.redact(message.into())) }
    }

    /// Returns the base URL without its query, which may contain a key.
    fn base_url(&self) -> String {
        let scheme = self.base.scheme_str().unwrap_or_default();
        let authority = self.base.authority().map_or("", |authority| authority.as_str());
        format!("{scheme}://{authority}{}", self.base.path().trim_end_matches('/'))
    }

    /// Removes secrets from a text: providers repeat what they were sent.
    fn redact(&self, text: String) -> String {
        let secrets = self.secrets.iter().map(|secret| secret.expose().trim());
        let secrets = secrets.filter(|secret| secret.len() >= MIN_SECRET_LENGTH);
        secrets.fold(text, |text, secret| if text.contains(secret) { text.replace(secret, "***") } else { text })
    }
}

fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.keys().map(HeaderName::as_str).collect();
        f.debug_struct("Endpoint")
            .field("base", &format_args!("{}", self.base_url()))
            .field("key", &self.key)
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use wharf_io::HttpSettings;

    use super::*;

    fn endpoint(base: &str, key: &str) -> Result<Endpoint, InvalidEndpoint> {
        Endpoint::new(base, Some(Secret::new(key)), HttpClient::new(HttpSettings::default()).unwrap())
    }

    #[test]
    fn a_path_is_appended_to_the_base_url_before_its_query() {
        let uri = |base: &str| {
            let endpoint = endpoint(base, "").unwrap().without_suffix("/v1");
            endpoint.request(Method::POST, "/v1/messages", Bytes::new()).unwrap().uri().to_string()
        };
        assert_eq!(uri("https://a.test"), "https://a.test/v1/messages");
        assert_eq!(uri("https://a.test/v1/"), "https://a.test/v1/messages");
        assert_eq!(uri("http://a.test:8080/proxy/v1?version=2"), "http://a.test:8080/proxy/v1/messages?version=2");
    }

    #[test]
    fn an_invalid_base_url_is_rejected_without_showing_it() {
        for (base, expected) in [
            ("api.openai.com/v1", InvalidEndpoint::Address),
            ("ftp://a.test", InvalidEndpoint::Address),
            ("http://a.test:8o/", InvalidEndpoint::Address),
            ("https://me:hunter2@a.test", InvalidEndpoint::Credentials),
        ] {
            let error = endpoint(base, "").unwrap_err();
            assert_eq!(error, expected, "{base}");
            assert!(!error.to_string().contains("hunter2"));
        }
        assert_eq!(
            endpoint("http://a.test", "a\nb").unwrap().with_key_header("x-api-key", "").unwrap_err(),
            InvalidEndpoint::Key
        );
    }

    #[test]
    fn secrets_are_neither_shown_nor_repeated() {
        let endpoint = endpoint("https://a.test/v1?key=s3cret", "s3cret\n").unwrap();
        let endpoint = endpoint.with_header("x-other", Secret::new("hidden")).unwrap();
        let endpoint = endpoint.with_key_header("authorization", "Bearer ").unwrap();
        let request = endpoint.request(Method::POST, "/x", Bytes::new()).unwrap();
        assert_eq!(request.headers()["authorization"], "Bearer s3cret");
        let error = endpoint.error(ModelErrorKind::Auth, "no such key: s3cret (hidden)");
        let shown = format!("{endpoint:?} {:?} {error:?} {error}", request.headers());
        assert!(!shown.contains("s3cret") && !shown.contains("hidden"), "{shown}");
        assert!(shown.contains("no such key: *** (***) (https://a.test/v1)"), "{shown}");
    }
}
