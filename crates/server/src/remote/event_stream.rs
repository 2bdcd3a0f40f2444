//! Event stream responses, the same for HTTP+SSE and Streamable HTTP.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::reply::{Body, Reply};

const KEEP_ALIVE: Bytes = Bytes::from_static(b": keep-alive\n\n");
const EVENT_STREAM: &str = "text/event-stream";
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Returns a body of whole events, with a comment after every `keep_alive` of silence. It ends with the events or with
/// `over`, whichever is first.
pub(crate) fn body(
    events: impl Stream<Item = Bytes> + Send + 'static,
    keep_alive: Duration,
    over: CancellationToken,
) -> Body {
    let frames = stream::unfold((Box::pin(events), over), move |(mut events, over)| async move {
        let quiet_until = Instant::now() + keep_alive;
        let chunk = tokio::select! {
            biased;
            () = over.cancelled() => None,
            event = events.next() => event,
            () = tokio::time::sleep_until(quiet_until) => Some(KEEP_ALIVE),
        };
        chunk.map(|chunk| (Ok(Frame::data(chunk)), (events, over)))
    });
    StreamBody::new(frames).boxed_unsync()
}

pub(crate) fn reply(body: Body) -> Reply {
    let mut reply = Reply::new(body);
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    forbid_buffering(headers);
    reply
}

/// Makes proxies forward each event immediately.
pub(crate) fn forbid_buffering(headers: &mut HeaderMap) {
    headers.entry(X_ACCEL_BUFFERING).or_insert(HeaderValue::from_static("no"));
}

pub(crate) fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(EVENT_STREAM))
}
