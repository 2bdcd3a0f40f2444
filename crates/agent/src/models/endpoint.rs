//! Where a provider is, with what it is to be told who asks, and how long it may take.
//!
//! Keys are in custody here: they are in no `Debug`, and whatever a provider says is cleaned of them.

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

/// What we call ourselves.
const AGENT: &str = concat!("wharf/", env!("CARGO_PKG_VERSION"));

/// What is shorter than this is no secret, and may be part of any word.
const SHORTEST_SECRET: usize = 6;

/// A provider's address, with everything that is needed to ask there.
#[derive(Clone)]
pub struct Endpoint {
    base: Uri,
    key: Option<Secret>,
    headers: HeaderMap,
    /// Everything that must not be told again.
    secrets: Vec<Secret>,
    pub(super) http: HttpClient,
    pub(super) waits: ProviderTimeouts,
}

/// How long a provider may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderTimeouts {
    /// To begin its answer; an answer in one piece begins when it is complete.
    pub head: Duration,
    /// Between two pieces of it.
    pub idle: Duration,
    /// For all of it.
    pub whole: Duration,
}

/// An endpoint that cannot be asked. Neither address nor key is shown: there may be secrets in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEndpoint {
    /// The address is none.
    #[error("the base URL is no http or https address")]
    Address,
    /// There is a password in it.
    #[error("the base URL has a user or a password in it; a key belongs into its own setting")]
    Credentials,
    /// The key cannot be sent.
    #[error("the key has characters that cannot be sent; is there a line break in it?")]
    Key,
    /// A header cannot be sent.
    #[error("a header has a name or a value that cannot be sent")]
    Header,
}

impl Default for ProviderTimeouts {
    fn default() -> Self {
        let minutes = |number: u64| Duration::from_secs(number * 60);
        Self { head: minutes(10), idle: minutes(3), whole: minutes(60) }
    }
}

impl Endpoint {
    /// A provider at this address, as far as its version: `https://api.openai.com/v1`.
    ///
    /// # Errors
    /// If it is no address, or has a password in it.
    pub fn new(base_url: &str, key: Option<Secret>, http: HttpClient) -> Result<Self, InvalidEndpoint> {
        let base = address::parse(base_url.trim(), HTTP_SCHEMES).map_err(|invalid| match invalid {
            InvalidAddress::Credentials => InvalidEndpoint::Credentials,
            _ => InvalidEndpoint::Address,
        })?;
        let key = key.filter(|key| !key.expose().trim().is_empty());
        let secrets = key.iter().cloned().collect();
        Ok(Self { base, key, headers: HeaderMap::new(), secrets, http, waits: ProviderTimeouts::default() })
    }

    /// With one more header, whose value is as secret as a key.
    ///
    /// # Errors
    /// If it cannot be sent.
    pub fn with_header(mut self, name: &str, value: Secret) -> Result<Self, InvalidEndpoint> {
        let name: HeaderName = name.parse().map_err(|_| InvalidEndpoint::Header)?;
        self.headers.insert(name, sensitive(value.expose()).ok_or(InvalidEndpoint::Header)?);
        self.secrets.push(value);
        Ok(self)
    }

    /// With other deadlines.
    #[must_use]
    pub fn with_waits(mut self, waits: ProviderTimeouts) -> Self {
        self.waits = waits;
        self
    }

    /// With the key, if there is one, in this header behind this word. A header that was given by hand is left alone.
    pub(super) fn authorized(mut self, name: &'static str, word: &str) -> Result<Self, InvalidEndpoint> {
        if let Some(key) = &self.key
            && !self.headers.contains_key(name)
        {
            let value = sensitive(&format!("{word}{}", key.expose().trim())).ok_or(InvalidEndpoint::Key)?;
            self.headers.insert(name, value);
        }
        Ok(self)
    }

    /// With a header that is no secret, unless it was given by hand.
    pub(super) fn saying(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.entry(name).or_insert(HeaderValue::from_static(value));
        self
    }

    /// Without this at the end of its path.
    pub(super) fn without_suffix(mut self, suffix: &str) -> Self {
        let path = self.base.path().trim_end_matches('/');
        if let Some(shorter) = path.strip_suffix(suffix).map(str::to_owned)
            && let Some(base) = self.at(&shorter)
        {
            self.base = base;
        }
        self
    }

    /// A request to a path under the address.
    pub(super) fn request(&self, method: Method, path: &str, body: Bytes) -> Result<Request<Bytes>, ModelError> {
        let whole = format!("{}{path}", self.base.path().trim_end_matches('/'));
        let uri = self.at(&whole).ok_or_else(|| self.error(ModelErrorKind::Invalid, "the base URL takes no path"))?;
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = self.headers.clone();
        let headers = request.headers_mut();
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        Ok(request)
    }

    /// The same address with another path; a query stays where it is.
    fn at(&self, path: &str) -> Option<Uri> {
        let query = self.base.query().map(|query| format!("?{query}")).unwrap_or_default();
        let path = if path.is_empty() { "/" } else { path };
        let mut parts = self.base.clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::try_from(format!("{path}{query}")).ok()?);
        Uri::from_parts(parts).ok()
    }

    /// A failure, in words without secrets.
    pub(super) fn error(&self, kind: ModelErrorKind, message: impl Into<String>) -> ModelError {
        ModelError::new(kind, self.clean(message.into()))
    }

    /// A text without secrets: providers like to repeat what they were sent.
    pub(super) fn clean(&self, text: String) -> String {
        let secrets = self.secrets.iter().map(|secret| secret.expose().trim());
        let secrets = secrets.filter(|secret| secret.len() >= SHORTEST_SECRET);
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
        let (scheme, authority) = (self.base.scheme_str().unwrap_or_default(), self.base.authority());
        let authority = authority.map_or("", |authority| authority.as_str());
        let names: Vec<&str> = self.headers.keys().map(HeaderName::as_str).collect();
        f.debug_struct("Endpoint")
            .field("base", &format_args!("{scheme}://{authority}{}", self.base.path()))
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
    fn a_path_goes_under_the_address_and_a_query_stays_behind_it() {
        let uri = |base: &str| {
            let endpoint = endpoint(base, "").unwrap().without_suffix("/v1");
            endpoint.request(Method::POST, "/v1/messages", Bytes::new()).unwrap().uri().to_string()
        };
        assert_eq!(uri("https://a.test"), "https://a.test/v1/messages");
        assert_eq!(uri("https://a.test/v1/"), "https://a.test/v1/messages");
        assert_eq!(uri("http://a.test:8080/proxy/v1?version=2"), "http://a.test:8080/proxy/v1/messages?version=2");
    }

    #[test]
    fn what_is_no_address_is_refused_without_showing_it() {
        for (base, why) in [
            ("api.openai.com/v1", InvalidEndpoint::Address),
            ("ftp://a.test", InvalidEndpoint::Address),
            ("http://a.test:8o/", InvalidEndpoint::Address),
            ("https://me:hunter2@a.test", InvalidEndpoint::Credentials),
        ] {
            let refused = endpoint(base, "").unwrap_err();
            assert_eq!(refused, why, "{base}");
            assert!(!refused.to_string().contains("hunter2"));
        }
        assert_eq!(
            endpoint("http://a.test", "a\nb").unwrap().authorized("x-api-key", "").unwrap_err(),
            InvalidEndpoint::Key
        );
    }

    #[test]
    fn secrets_are_neither_shown_nor_told_again() {
        let endpoint = endpoint("https://a.test/v1?key=s3cret", "s3cret\n").unwrap();
        let endpoint = endpoint.with_header("x-other", Secret::new("hidden")).unwrap();
        let endpoint = endpoint.authorized("authorization", "Bearer ").unwrap();
        let request = endpoint.request(Method::POST, "/x", Bytes::new()).unwrap();
        assert_eq!(request.headers()["authorization"], "Bearer s3cret");
        let error = endpoint.error(ModelErrorKind::Auth, "no such key: s3cret (hidden)");
        let shown = format!("{endpoint:?} {:?} {error:?} {error}", request.headers());
        assert!(!shown.contains("s3cret") && !shown.contains("hidden"), "{shown}");
        assert!(shown.contains("no such key: *** (***)"), "{shown}");
    }
}
