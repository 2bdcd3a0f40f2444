//! Streamable HTTP at `/mcp`: rmcp answers, we see to it that its event streams are like ours.

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;

use super::event_stream;
use super::reply::{self, Reply};
use super::router::Shared;

pub(crate) async fn answer(shared: &Shared, request: Request<Incoming>) -> Reply {
    let over = shared.until_forgotten();
    let posted = request.method() == Method::POST;
    let (head, body) = request.into_parts();
    let body = match reply::read(body, shared.options.largest_message).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let (mut head, body) = shared.backend.answer(Request::from_parts(head, Full::new(body))).await.into_parts();
    if !event_stream::is_event_stream(&head.headers) {
        return Reply::from_parts(head, body);
    }
    event_stream::forbid_buffering(&mut head.headers);
    let mut events = body.into_data_stream().map(|Ok(event)| event).boxed();
    let mut read = Vec::new();
    if shared.options.json_answers && posted && head.status == StatusCode::OK {
        let sole_answer = over.run_until_cancelled(sole_answer(&mut events, &mut read)).await.flatten();
        if let Some(answer) = sole_answer {
            head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            head.headers.remove(CONTENT_LENGTH);
            return Reply::from_parts(head, Full::new(answer).boxed_unsync());
        }
    }
    let events = stream::iter(read).chain(events);
    Reply::from_parts(head, event_stream::body(events, shared.options.keep_alive, over))
}

/// The answer, if it is the first message of the stream: then there is nothing to stream. What else was read on the way
/// is in `read`.
///
/// Rmcp answers within a session only by streams, although the protocol leaves the choice to the server.
async fn sole_answer(events: &mut (impl Stream<Item = Bytes> + Unpin), read: &mut Vec<Bytes>) -> Option<Bytes> {
    loop {
        let event = events.next().await?;
        let data = data(&event);
        if let Some(data) = &data
            && is_answer(data)
        {
            return Some(data.clone());
        }
        read.push(event);
        if data.is_some() {
            return None;
        }
    }
}

/// What an event carries; rmcp writes it as one line. Events that only prime a stream carry nothing.
fn data(event: &Bytes) -> Option<Bytes> {
    let data = event.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"data:"))?.trim_ascii();
    (!data.is_empty()).then(|| event.slice_ref(data))
}

fn is_answer(message: &[u8]) -> bool {
    let message = serde_json::from_slice::<serde_json::Value>(message).unwrap_or_default();
    message.get("result").or(message.get("error")).is_some()
}
