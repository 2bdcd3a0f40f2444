//! Posts messages to one server: with all headers, again where the server asks for later or for fresh headers, and with a
//! typed error for everything that is no success.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use wharf_io::{Body, HttpError};

use super::Reached;
use super::refusal::{self, Patience, Refusal};
use crate::transport::PostError;
use crate::wire::RpcError;

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
    /// Headers of this message alone.
    pub(super) extra: Option<&'a HeaderMap>,
    /// Whether it names a session that the server could have lost.
    pub(super) session: bool,
}

impl Reached {
    /// Posts a message until the server takes it or refuses it for good. What it asks to wait for, and headers that have
    /// become stale, are seen to here: in both cases it has done nothing with the message yet.
    pub(super) async fn post(&self, letter: Letter<'_>) -> Result<Met, PostError> {
        let (mut patience, mut refreshed) = (Patience::default(), false);
        loop {
            let (mut headers, said) = self.with_own(letter.own).await?;
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            for (name, value) in letter.extra.into_iter().flatten() {
                headers.insert(name.clone(), value.clone());
            }
            let response = self.send(Method::POST, letter.to, headers, letter.content.clone()).await?;
            if response.status().is_success() {
                return Ok(Met::Success(response));
            }
            let refusal = match refusal::read(response, letter.session).await {
                Refusal::Rpc(error) => return Ok(Met::Rpc(error)),
                Refusal::Other(refusal) => refusal,
            };
            let stale = matches!(&refusal, PostError::Auth(_))
                || matches!(&refusal, PostError::Status(status) if status.status == 403);
            if stale && !refreshed && self.headers.refresh(said).await.map_err(PostError::Unusable)? {
                refreshed = true;
                continue;
            }
            match &refusal {
                PostError::Status(status) => match patience.pause(status) {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => return Err(refusal),
                },
                _ => return Err(refusal),
            }
        }
    }

    /// All headers, and which saying of the helper they hold.
    pub(super) async fn with_own(&self, own: &HeaderMap) -> Result<(HeaderMap, u64), PostError> {
        let (mut headers, said) = self.headers.get().await.map_err(PostError::Unusable)?;
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
        self.client.send(request).await.map_err(not_sent)
    }
}

/// Whether an answer is of this kind.
pub(super) fn is(response: &Response<Body>, kind: &str) -> bool {
    let given = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    given.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(kind)
}

fn not_sent(error: HttpError) -> PostError {
    match &error {
        HttpError::Broken(reason) => PostError::Lost(format!("broke the connection ({reason})")),
        HttpError::Unreachable(reason) => PostError::NotSent(reason.clone()),
        HttpError::Untrusted(_) | HttpError::Redirected(_) => PostError::Unusable(error.to_string()),
    }
}
