//! Short replies, and reading what a client posts.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};

pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;
pub(crate) type Reply = Response<Body>;

/// How long a client may take to send the body of a request.
const BODY_LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn plain(status: StatusCode, text: &'static str) -> Reply {
    full(status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}

pub(crate) fn json(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    full(status, "application/json", body.into())
}

pub(crate) fn method_not_allowed(allow: &'static str) -> Reply {
    let mut reply = plain(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    reply
}

fn full(status: StatusCode, content_type: &'static str, body: Bytes) -> Reply {
    let mut reply = Response::new(Full::new(body).boxed_unsync());
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply
}

/// The whole body of a request, or the reply to one that is too big, too slow or broken off.
pub(crate) async fn read(body: Incoming, largest: usize) -> Result<Bytes, Reply> {
    let too_large = || plain(StatusCode::PAYLOAD_TOO_LARGE, "Payload Too Large");
    // A client that announces too much is told so before it has sent everything.
    if usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX) > largest {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_LIMIT, Limited::new(body, largest).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(plain(StatusCode::BAD_REQUEST, "the body broke off")),
        Err(_) => Err(plain(StatusCode::REQUEST_TIMEOUT, "the body took too long")),
    }
}
