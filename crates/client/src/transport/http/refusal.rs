//! What a status that is no success means: a lost session, a question who we are, a wish to be asked later, an error of
//! the protocol that came with it, or just that status.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::header::{LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, Response};

use super::loss::{TERMINATED, names_lost_session, session_loss};
use crate::transport::PostError;
use crate::wire::{Message, RpcError, read_shared};
use crate::{AuthRequired, HttpStatus};
use wharf_io::{Body, jittered};

/// How much of a refusal is read.
const MOST_READ: usize = 64 * 1024;
/// How long its content may take.
const CONTENT_LIMIT: Duration = Duration::from_secs(5);
/// How much of it an error keeps.
const KEPT: usize = 1024;

/// A refusal, and what it turned out to be.
pub(super) struct Refusal {
    pub(super) status: HttpStatus,
    pub(super) meaning: Meaning,
}

pub(super) enum Meaning {
    /// An error of the protocol.
    Rpc(RpcError),
    Other(PostError),
}

impl Refusal {
    /// Whether other headers might have been welcome.
    pub(super) fn is_about_headers(&self) -> bool {
        matches!(self.status.status, 401 | 403)
    }

    /// What the server wants to know, if it wants to know who we are.
    pub(super) fn required(&self) -> Option<&AuthRequired> {
        match &self.meaning {
            Meaning::Other(PostError::Auth(required)) => Some(required),
            _ => None,
        }
    }

    /// As an error, for who has no use for an answer.
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

/// Reads a refusal; `session` tells whether the request named one.
pub(super) async fn read(response: Response<Body>, session: bool) -> Refusal {
    let (head, mut body) = response.into_parts();
    let content = body.read_head(MOST_READ, CONTENT_LIMIT).await;
    let text = String::from_utf8_lossy(&content).into_owned();
    let mut body: String = text.chars().take(KEPT).collect();
    if let Some(location) = head.headers.get(LOCATION).filter(|_| head.status.is_redirection()) {
        body = format!("it is at `{}`", String::from_utf8_lossy(location.as_bytes()));
    }
    let status = HttpStatus { status: head.status.as_u16(), body, retry_after: retry_after(&head.headers) };
    let meaning = meaning(&status, challenge(&head.headers), &text, session);
    Refusal { status, meaning }
}

fn meaning(refused: &HttpStatus, challenge: Option<Box<str>>, text: &str, session: bool) -> Meaning {
    let status = refused.status;
    if status == 401 || (status == 403 && challenge.is_some()) {
        return Meaning::Other(PostError::Auth(AuthRequired { status, challenge, reason: None }));
    }
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

/// What a server asks for, in one header or in several.
pub(in crate::transport) fn challenge(headers: &HeaderMap) -> Option<Box<str>> {
    let asked = headers.get_all(WWW_AUTHENTICATE).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    asked.map(std::borrow::Cow::into_owned).reduce(|one, other| format!("{one}, {other}")).map(Into::into)
}

/// The error of the protocol in a content, if it is one.
pub(super) fn rpc_error(text: &str) -> Option<RpcError> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    match read_shared(&Arc::new(text.to_owned())).messages.pop()? {
        Message::Answer { answer: Err(error), .. } => Some(error),
        _ => None,
    }
}

/// In seconds, or a date.
#[expect(clippy::disallowed_methods, reason = "a date can only be compared with the date")]
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

/// How often, and for how long, a server that asks for later is given it.
pub(super) struct Patience {
    tries: u32,
    left: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { tries: 3, left: Duration::from_secs(30) }
    }
}

impl Patience {
    /// The shortest pause.
    const SHORTEST: Duration = Duration::from_millis(200);

    /// How long to wait before the same request is sent again; `None` if the answer stands. A server that wants more
    /// than we have is not asked earlier than it said.
    pub(super) fn pause(&mut self, status: &HttpStatus) -> Option<Duration> {
        let wish = status.retry_after.filter(|_| matches!(status.status, 429 | 503))?;
        if self.tries == 0 || wish > self.left {
            return None;
        }
        self.tries -= 1;
        self.left = self.left.saturating_sub(wish);
        Some(jittered(wish.max(Self::SHORTEST)))
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
    fn a_pause_is_told_in_seconds_or_as_a_date_and_nonsense_is_none() {
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert_eq!(after("99999999999999999999999"), Some(Duration::from_secs(u64::MAX)));
        assert_eq!(after("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        let later = after("Fri, 01 Jan 2100 00:00:00 GMT").unwrap();
        assert!(later > Duration::from_secs(60 * 60 * 24 * 365));
        assert_eq!(after("-3"), None);
        assert_eq!(after("soon"), None);
    }

    #[test]
    fn a_server_is_waited_for_a_few_times_and_half_a_minute_in_all() {
        let status = |status, seconds: Option<u64>| HttpStatus {
            status,
            body: String::new(),
            retry_after: seconds.map(Duration::from_secs),
        };
        let waits = |statuses: &[HttpStatus]| {
            let mut patience = Patience::default();
            statuses.iter().map(|status| patience.pause(status).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(waits(&[status(429, Some(1)), status(503, Some(1)), status(429, Some(0))]), [true; 3]);
        let fourth = [status(429, Some(0)), status(429, Some(0)), status(429, Some(0)), status(429, Some(0))];
        assert!(!waits(&fourth)[3]);
        assert_eq!(waits(&[status(429, Some(20)), status(429, Some(20))]), [true, false]);
        assert_eq!(waits(&[status(429, Some(u64::MAX))]), [false]);
        assert_eq!(waits(&[status(500, Some(1)), status(429, None), status(502, None)]), [false; 3]);
    }
}
