//! Sends messages to one HTTP endpoint: adds the headers, retries when the server asks for that or for other headers, and
//! classifies error responses.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri};
use wharf_auth::RequestTarget;
use wharf_io::{Body, HttpError};

use super::HttpEndpoint;
use super::headers::{HeaderRetries, HeaderVersion};
use super::refusal::{self, Meaning, Refusal, RetryBudget};
use super::session_loss::session_loss;
use crate::jsonrpc::RpcError;
use crate::transport::PostError;

const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");

/// Time for the server to accept a notification.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an unused response is read, so that its connection can be reused.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// How many bytes of an unused response are read.
pub(super) const MAX_DRAINED_BYTES: usize = 64 * 1024;

/// Why an event stream cannot be opened.
pub(super) enum EventStreamError {
    NotSent(PostError),
    Refused(Refusal),
}

/// The outcome of a POST that the server processed.
pub(super) enum PostOutcome {
    Success(Response<Body>),
    /// A JSON-RPC error with an HTTP error status.
    Rpc(RpcError),
}

/// A message to send with POST.
pub(super) struct HttpPost<'a> {
    pub(super) to: &'a Uri,
    pub(super) content: &'a Bytes,
    /// The headers of the connection.
    pub(super) own: &'a HeaderMap,
    /// The method of the message, if a header must repeat it.
    pub(super) method: Option<HeaderValue>,
    /// The headers of this message.
    pub(super) extra: Option<&'a HeaderMap>,
    /// Whether it names a session that the server could have lost.
    pub(super) session: bool,
}

impl HttpEndpoint {
    /// Posts a message until the server accepts it or finally refuses it. Retries after `Retry-After` and with refreshed
    /// headers: in both cases the server has not processed the message.
    pub(super) async fn post(&self, post: HttpPost<'_>) -> Result<PostOutcome, PostError> {
        let mut budget = RetryBudget::default();
        let mut header_retries = HeaderRetries::default();
        loop {
            let target = RequestTarget { method: &Method::POST, url: post.to };
            let (mut headers, version) = self.headers_with(target, post.own).await?;
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            if let Some(method) = &post.method {
                headers.insert(MCP_METHOD, method.clone());
            }
            for (name, value) in post.extra.into_iter().flatten() {
                headers.insert(name.clone(), value.clone());
            }
            let response = self.send(Method::POST, post.to, headers, post.content.clone()).await?;
            if response.status().is_success() {
                return Ok(PostOutcome::Success(response));
            }
            let refusal = refusal::read(response, post.session).await;
            if refusal.may_need_other_headers()
                && self.headers.refresh(version, &mut header_retries, refusal.auth_required()).await?
            {
                continue;
            }
            if let Some(delay) = budget.next_delay(&refusal.status) {
                tokio::time::sleep(delay).await;
                continue;
            }
            return match refusal.meaning {
                Meaning::Rpc(error) => Ok(PostOutcome::Rpc(error)),
                Meaning::Other(error) => Err(error),
            };
        }
    }

    /// Posts a message that has no answer.
    pub(super) async fn notify(&self, post: HttpPost<'_>) -> Result<(), PostError> {
        let session = post.session;
        let sending = async {
            match self.post(post).await? {
                PostOutcome::Success(response) => {
                    // Reading the body frees the connection; some servers report a lost session in it.
                    let content = response.into_body().read_head(MAX_DRAINED_BYTES, DRAIN_TIMEOUT).await;
                    let error = refusal::rpc_error(&String::from_utf8_lossy(&content));
                    match error.filter(|error| session && session_loss(error.code, &error.message)) {
                        Some(RpcError { code, message, .. }) => Err(PostError::SessionLost { code, message }),
                        None => Ok(()),
                    }
                }
                PostOutcome::Rpc(RpcError { code, message, .. }) if session && session_loss(code, &message) => {
                    Err(PostError::SessionLost { code, message })
                }
                PostOutcome::Rpc(error) => {
                    Err(PostError::Malformed(format!("error {}: {}", error.code, error.message)))
                }
            }
        };
        let timeout = || PostError::Lost(format!("did not accept a message within {} s", NOTIFY_TIMEOUT.as_secs()));
        tokio::time::timeout(NOTIFY_TIMEOUT, sending).await.unwrap_or_else(|_| Err(timeout()))
    }

    /// Opens an event stream, with refreshed headers if the server refuses the current ones.
    pub(super) async fn get_events(&self, own: &HeaderMap, session: bool) -> Result<Response<Body>, EventStreamError> {
        let mut header_retries = HeaderRetries::default();
        loop {
            let target = RequestTarget { method: &Method::GET, url: &self.url };
            let (headers, version) = self.headers_with(target, own).await.map_err(EventStreamError::NotSent)?;
            let response = self.send(Method::GET, &self.url, headers, Bytes::new()).await;
            let response = response.map_err(EventStreamError::NotSent)?;
            if response.status().is_success() {
                return Ok(response);
            }
            let refusal = refusal::read(response, session).await;
            let refreshed = if refusal.may_need_other_headers() {
                self.headers.refresh(version, &mut header_retries, refusal.auth_required()).await
            } else {
                Ok(false)
            };
            if !refreshed.map_err(|error| EventStreamError::NotSent(error.into()))? {
                return Err(EventStreamError::Refused(refusal));
            }
        }
    }

    /// Returns the configured headers with `own` added, and the version of the configured ones.
    pub(super) async fn headers_with(
        &self,
        request: RequestTarget<'_>,
        own: &HeaderMap,
    ) -> Result<(HeaderMap, HeaderVersion), PostError> {
        let (mut headers, version) = self.headers.get(request).await?;
        headers.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
        Ok((headers, version))
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
        let response = self.client.send(request).await.map_err(|error| send_error(&error))?;
        self.headers.responded(response.headers());
        Ok(response)
    }
}

pub(super) fn has_content_type(response: &Response<Body>, expected: &str) -> bool {
    let given = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    given.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(expected)
}

fn send_error(error: &HttpError) -> PostError {
    match error {
        HttpError::Broken(reason) => PostError::Lost(format!("broke the connection ({reason})")),
        HttpError::Unreachable(reason) => PostError::NotSent(reason.clone()),
        HttpError::Untrusted(_) => PostError::Untrusted(error.to_string()),
        HttpError::Redirected(_) => PostError::Unusable(error.to_string()),
    }
}
