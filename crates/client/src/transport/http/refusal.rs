//! The meaning of an HTTP error status: a lost session, required authorization, a request to retry later, a JSON-RPC
//! error in the body, or just the status.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::header::{LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, Response};
use wharf_auth::{AuthRequired, NetworkZone};
use wharf_io::{Body, jittered};

use super::session_loss::{TERMINATED, names_lost_session, session_loss};
use crate::error::HttpStatus;
use crate::jsonrpc::{Message, RpcError, read_shared};
use crate::transport::PostError;

/// The maximum number of bytes read of an error's body.
const MAX_BODY_BYTES: usize = 64 * 1024;
/// Time for reading the body.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum number of characters of the body in an error.
const MAX_QUOTED_CHARS: usize = 1024;

/// An HTTP error status and its meaning.
pub(super) struct Refusal {
    pub(super) status: HttpStatus,
    pub(super) meaning: Meaning,
}

pub(super) enum Meaning {
    /// A JSON-RPC error in the body.
    Rpc(RpcError),
    Other(PostError),
}

impl Refusal {
    /// Returns whether other headers may be accepted.
    pub(super) fn may_need_other_headers(&self) -> bool {
        matches!(self.status.status, 401 | 403)
    }

    /// Returns the authorization that the server requires.
    pub(super) fn auth_required(&self) -> Option<&AuthRequired> {
        match &self.meaning {
            Meaning::Other(PostError::Auth(required)) => Some(required),
            _ => None,
        }
    }

    /// Converts the refusal of a message that has no answer.
    pub(super) fn into_error(self, session: bool) -> PostError {
        match self.meaning {
            Meaning::Other(error) => error,
            Meaning::Rpc(RpcError { code, message, .. }) if session && session_loss(code, &message) => {
                PostError::SessionLost { code, message }
            }
            Meaning::Rpc(error) => PostError::Malformed(format!("error {}: {}", error.code, error.message)),
        }
    }
}

/// Reads an error response. `session` is whether the request named a session.
pub(super) async fn read(response: Response<Body>, session: bool) -> Refusal {
    let (head, mut body) = response.into_parts();
    let zone = body.peer().map(NetworkZone::of);
    let content = body.read_head(MAX_BODY_BYTES, BODY_TIMEOUT).await;
    let text = String::from_utf8_lossy(&content).into_owned();
    let body = match head.headers.get(LOCATION) {
        Some(location) if head.status.is_redirection() => {
            format!("redirects to `{}`", String::from_utf8_lossy(location.as_bytes()))
        }
        _ => text.chars().take(MAX_QUOTED_CHARS).collect(),
    };
    let status = HttpStatus { status: head.status.as_u16(), body, retry_after: retry_after(&head.headers) };
    let challenge = challenge(&head.headers);
    let meaning = match status.status {
        401 => auth_required(401, challenge, zone),
        403 if challenge.is_some() => auth_required(403, challenge, zone),
        _ => meaning(&status, &text, session),
    };
    Refusal { status, meaning }
}

fn auth_required(status: u16, challenge: Option<Box<str>>, zone: Option<NetworkZone>) -> Meaning {
    Meaning::Other(PostError::Auth(AuthRequired { status, challenge, zone, reason: None }))
}

fn meaning(refused: &HttpStatus, text: &str, session: bool) -> Meaning {
    let status = refused.status;
    let rpc = rpc_error(text);
    if status == 404 && session {
        let (code, message) = rpc.map_or((TERMINATED, "HTTP 404".to_owned()), |rpc| (rpc.code, rpc.message));
        return Meaning::Other(PostError::SessionLost { code, message });
    }
    if let Some(rpc) = rpc {
        return Meaning::Rpc(rpc);
    }
    if status == 400 && session && names_lost_session(&refused.body) {
        return Meaning::Other(PostError::SessionLost { code: TERMINATED, message: refused.body.clone() });
    }
    Meaning::Other(PostError::Status(refused.clone()))
}

/// Returns the challenges of all `WWW-Authenticate` headers.
pub(in crate::transport) fn challenge(headers: &HeaderMap) -> Option<Box<str>> {
    let challenges = headers.get_all(WWW_AUTHENTICATE).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    challenges.map(std::borrow::Cow::into_owned).reduce(|one, other| format!("{one}, {other}")).map(Into::into)
}

/// Returns the JSON-RPC error in a body, if it is one.
pub(super) fn rpc_error(text: &str) -> Option<RpcError> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    match read_shared(&Arc::new(text.to_owned())).messages.pop()? {
        Message::Answer { answer: Err(error), .. } => Some(error),
        _ => None,
    }
}

/// Parses `Retry-After`, which is a number of seconds or a date.
#[expect(clippy::disallowed_methods, reason = "an HTTP date needs the wall clock")]
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

/// How often, and for how long in all, a request is retried when the server sends `Retry-After`.
pub(super) struct RetryBudget {
    retries: u32,
    left: Duration,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { retries: 3, left: Duration::from_secs(30) }
    }
}

impl RetryBudget {
    const MIN_DELAY: Duration = Duration::from_millis(200);

    /// Returns the delay before the next retry, or `None` if the response is final. A request is never retried earlier
    /// than the server allows.
    pub(super) fn next_delay(&mut self, status: &HttpStatus) -> Option<Duration> {
        if !matches!(status.status, 429 | 503) {
            return None;
        }
        let requested = status.retry_after?;
        if self.retries == 0 || requested > self.left {
            return None;
        }
        self.retries -= 1;
        self.left = self.left.saturating_sub(requested);
        Some(jittered(requested.max(Self::MIN_DELAY)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(value: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, value.parse().unwrap());
        retry_after(&headers)
    }

    #[test]
    fn retry_after_is_a_number_of_seconds_or_a_date() {
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert_eq!(after("99999999999999999999999"), Some(Duration::from_secs(u64::MAX)));
        assert_eq!(after("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        let later = after("Fri, 01 Jan 2100 00:00:00 GMT").unwrap();
        assert!(later > Duration::from_secs(60 * 60 * 24 * 365));
        assert_eq!(after("-3"), None);
        assert_eq!(after("soon"), None);
    }

    #[test]
    fn retries_are_limited_in_number_and_total_delay() {
        let status = |status, seconds: Option<u64>| HttpStatus {
            status,
            body: String::new(),
            retry_after: seconds.map(Duration::from_secs),
        };
        let retried = |statuses: &[HttpStatus]| {
            let mut budget = RetryBudget::default();
            statuses.iter().map(|status| budget.next_delay(status).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(retried(&[status(429, Some(1)), status(503, Some(1)), status(429, Some(0))]), [true; 3]);
        let fourth = [status(429, Some(0)), status(429, Some(0)), status(429, Some(0)), status(429, Some(0))];
        assert!(!retried(&fourth)[3]);
        assert_eq!(retried(&[status(429, Some(20)), status(429, Some(20))]), [true, false]);
        assert_eq!(retried(&[status(429, Some(u64::MAX))]), [false]);
        assert_eq!(retried(&[status(500, Some(1)), status(429, None), status(502, None)]), [false; 3]);
    }
}
