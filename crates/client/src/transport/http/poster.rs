//! Posts messages to one server: with all headers, again where the server asks for later or for fresh headers, and with a
//! typed error for everything that is no success.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri};
use wharf_io::{Body, HttpError};

use super::Reached;
use super::headers::{Said, Tried};
use super::loss::session_loss;
use super::refusal::{self, Meaning, Patience, Refusal};
use crate::transport::PostError;
use crate::wire::{RpcError, TELL_LIMIT};

const METHOD: HeaderName = HeaderName::from_static("mcp-method");

/// How long content that nobody waits for is read, so that its connection can be used again.
pub(super) const REST: Duration = Duration::from_secs(1);
/// How much of it.
pub(super) const MOST_IGNORED: usize = 64 * 1024;

/// Why there is no stream.
pub(super) enum Refused {
    Unsent(PostError),
    Answered(Refusal),
}

/// What a message met with.
pub(super) enum Met {
    Success(Response<Body>),
    /// An error of the protocol, with whatever status.
    Rpc(RpcError),
}

/// A message with what is particular about it.
pub(super) struct Letter<'a> {
    pub(super) to: &'a Uri,
    pub(super) content: &'a Bytes,
    /// Our own headers.
    pub(super) own: &'a HeaderMap,
    /// The method of the message, where a header has to say it.
    pub(super) method: Option<HeaderValue>,
    /// Headers of this message alone.
    pub(super) extra: Option<&'a HeaderMap>,
    /// Whether it names a session that the server could have lost.
    pub(super) session: bool,
}

impl Reached {
    /// Posts a message until the server takes it or refuses it for good. What it asks to wait for, and headers that have
    /// become stale, are seen to here: in both cases it has done nothing with the message yet.
    pub(super) async fn post(&self, letter: Letter<'_>) -> Result<Met, PostError> {
        let (mut patience, mut tried) = (Patience::default(), Tried::default());
        loop {
            let (mut headers, said) = self.with_own(letter.own).await?;
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            if let Some(method) = &letter.method {
                headers.insert(METHOD, method.clone());
            }
            for (name, value) in letter.extra.into_iter().flatten() {
                headers.insert(name.clone(), value.clone());
            }
            let response = self.send(Method::POST, letter.to, headers, letter.content.clone()).await?;
            if response.status().is_success() {
                return Ok(Met::Success(response));
            }
            let refusal = refusal::read(response, letter.session).await;
            if refusal.is_about_headers() && self.headers.refresh(said, &mut tried, refusal.required()).await? {
                continue;
            }
            if let Some(pause) = patience.pause(&refusal.status) {
                tokio::time::sleep(pause).await;
                continue;
            }
            return match refusal.meaning {
                Meaning::Rpc(error) => Ok(Met::Rpc(error)),
                Meaning::Other(error) => Err(error),
            };
        }
    }

    /// Posts something nobody waits for an answer to.
    pub(super) async fn tell(&self, letter: Letter<'_>) -> Result<(), PostError> {
        let session = letter.session;
        let telling = async {
            match self.post(letter).await? {
                Met::Success(response) => {
                    // Any success will do. Read, it frees its connection; and some servers say no in it.
                    let content = response.into_body().read_head(MOST_IGNORED, REST).await;
                    let lost = refusal::rpc_error(&String::from_utf8_lossy(&content));
                    match lost.filter(|error| session && session_loss(error.code, &error.message)) {
                        Some(RpcError { code, message, .. }) => Err(PostError::SessionLost { code, message }),
                        None => Ok(()),
                    }
                }
                Met::Rpc(RpcError { code, message, .. }) if session && session_loss(code, &message) => {
                    Err(PostError::SessionLost { code, message })
                }
                Met::Rpc(error) => Err(PostError::Malformed(format!("error {}: {}", error.code, error.message))),
            }
        };
        let late = || PostError::Lost(format!("did not take a message within {} s", TELL_LIMIT.as_secs()));
        tokio::time::timeout(TELL_LIMIT, telling).await.unwrap_or_else(|_| Err(late()))
    }

    /// Gets a stream of events, with fresh headers if the server does not take those there are.
    pub(super) async fn get_events(&self, own: &HeaderMap, session: bool) -> Result<Response<Body>, Refused> {
        let mut tried = Tried::default();
        loop {
            let (headers, said) = self.with_own(own).await.map_err(Refused::Unsent)?;
            let response = self.send(Method::GET, &self.url, headers, Bytes::new()).await.map_err(Refused::Unsent)?;
            if response.status().is_success() {
                return Ok(response);
            }
            let refusal = refusal::read(response, session).await;
            let refreshed = if refusal.is_about_headers() {
                self.headers.refresh(said, &mut tried, refusal.required()).await
            } else {
                Ok(false)
            };
            if !refreshed.map_err(|none| Refused::Unsent(none.into()))? {
                return Err(Refused::Answered(refusal));
            }
        }
    }

    /// All headers, and which they are.
    pub(super) async fn with_own(&self, own: &HeaderMap) -> Result<(HeaderMap, Said), PostError> {
        let (mut headers, said) = self.headers.get().await?;
        headers.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
        Ok((headers, said))
    }

    pub(super) async fn send(
        &self,
        method: Method,
        to: &Uri,
        headers: HeaderMap,
        content: Bytes,
    ) -> Result<Response<Body>, PostError> {
        let mut request = Request::new(content);
        *request.method_mut() = method;
        *request.uri_mut() = to.clone();
        *request.headers_mut() = headers;
        self.client.send(request).await.map_err(|error| not_sent(&error))
    }
}

/// Whether an answer is of this kind.
pub(super) fn is(response: &Response<Body>, kind: &str) -> bool {
    let given = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    given.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(kind)
}

fn not_sent(error: &HttpError) -> PostError {
    match error {
        HttpError::Broken(reason) => PostError::Lost(format!("broke the connection ({reason})")),
        HttpError::Unreachable(reason) => PostError::NotSent(reason.clone()),
        HttpError::Untrusted(_) => PostError::Untrusted(error.to_string()),
        HttpError::Redirected(_) => PostError::Unusable(error.to_string()),
    }
}
