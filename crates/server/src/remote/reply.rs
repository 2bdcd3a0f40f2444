//! Short responses, and reading request bodies.

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

/// Time limit for the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

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

/// Reads the body of a request. Fails with the response for one that is too large, too slow or incomplete.
pub(crate) async fn read(body: Incoming, max_bytes: usize) -> Result<Bytes, Reply> {
    let too_large = || plain(StatusCode::PAYLOAD_TOO_LARGE, "Payload Too Large");
    // A client that announces too much is refused before it has sent everything.
    if usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX) > max_bytes {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, max_bytes).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(plain(StatusCode::BAD_REQUEST, "the body is incomplete")),
        Err(_) => Err(plain(StatusCode::REQUEST_TIMEOUT, "the body took too long")),
    }
}
