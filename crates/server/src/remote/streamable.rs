//! Streamable HTTP at `/mcp`: rmcp responds; this module adapts its event streams.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, Stream, StreamExt as _};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::response::Parts;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;

use super::connection::Shared;
use super::event_stream;
use super::reply::{self, Body, Reply};

/// The header with the method of a request, since 2026-07-28.
const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

pub(crate) async fn handle(shared: &Shared, request: Request<Incoming>) -> Reply {
    let over = shared.until_forgotten();
    let keep_alive = shared.options.keep_alive;
    let posted = request.method() == Method::POST;
    let is_modern = is_modern(request.headers());
    let waits_for_first_message = posted && is_modern;
    // Held until the response, after which the session itself counts.
    let _slot = if posted && !is_modern && !request.headers().contains_key(SESSION_ID) {
        match shared.reserve_session().await {
            Ok(slot) => Some(slot),
            Err(refusal) => return *refusal,
        }
    } else {
        None
    };
    let (head, body) = request.into_parts();
    let body = match reply::read(body, shared.options.max_message_bytes).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let responding = shared.backend.handle(Request::from_parts(head, Full::new(body)));
    let mut preparing = Box::pin(prepare(responding, posted && shared.options.json_responses));
    let prepared = async {
        if waits_for_first_message {
            tokio::time::timeout(keep_alive, &mut preparing).await.ok()
        } else {
            Some((&mut preparing).await)
        }
    };
    match over.run_until_cancelled(prepared).await {
        Some(Some(Prepared::Whole(reply))) => reply,
        Some(Some(Prepared::Events(head, events))) => {
            Reply::from_parts(head, event_stream::body(events, keep_alive, over))
        }
        // For 2026-07-28 rmcp holds back the head of its response until the first message. No proxy waits for as long as
        // a tool may run, so the stream starts without it.
        Some(None) => {
            let events = stream::once(preparing).flat_map(Prepared::into_events);
            event_stream::reply(event_stream::body(events, keep_alive, over))
        }
        None => event_stream::reply(event_stream::body(stream::empty(), keep_alive, over)),
    }
}

/// Returns whether a request belongs to no session. The response to `initialize` names its session in the head.
fn is_modern(headers: &HeaderMap) -> bool {
    headers.get(MCP_METHOD).is_some_and(|method| method != "initialize")
}

enum Prepared {
    /// Not an event stream.
    Whole(Reply),
    Events(Parts, BoxStream<'static, Bytes>),
}

impl Prepared {
    /// Returns the messages of a response whose head has already been sent.
    fn into_events(self) -> BoxStream<'static, Bytes> {
        match self {
            Self::Whole(reply) => stream::once(as_event(reply.into_body())).boxed(),
            Self::Events(_, events) => events,
        }
    }
}

async fn as_event(message: Body) -> Bytes {
    let Ok(message) = message.collect().await;
    let message = message.to_bytes();
    Bytes::from([b"data: ", &*message, b"\n\n"].concat())
}

async fn prepare(responding: BoxFuture<'static, Reply>, json_responses: bool) -> Prepared {
    let (mut head, body) = responding.await.into_parts();
    if !event_stream::is_event_stream(&head.headers) {
        return Prepared::Whole(Reply::from_parts(head, body));
    }
    event_stream::forbid_buffering(&mut head.headers);
    let mut events = body.into_data_stream().map(|Ok(event)| event).boxed();
    let mut read = Vec::new();
    if json_responses
        && head.status == StatusCode::OK
        && let Some(response) = sole_response(&mut events, &mut read).await
    {
        head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        head.headers.remove(CONTENT_LENGTH);
        return Prepared::Whole(Reply::from_parts(head, Full::new(response).boxed_unsync()));
    }
    Prepared::Events(head, stream::iter(read).chain(events).boxed())
}

/// Returns the response if it is the first message of the stream, since then one JSON document is enough. Everything else
/// that was read goes to `read`.
///
/// Within a session rmcp only responds with streams, although the protocol leaves the choice to the server.
async fn sole_response(events: &mut (impl Stream<Item = Bytes> + Unpin), read: &mut Vec<Bytes>) -> Option<Bytes> {
    loop {
        let event = events.next().await?;
        let data = data(&event);
        if let Some(data) = &data
            && is_response(data)
        {
            return Some(data.clone());
        }
        read.push(event);
        if data.is_some() {
            return None;
        }
    }
}

/// Returns the data of an event, which rmcp writes as one line. Events that only prime a stream have none.
fn data(event: &Bytes) -> Option<Bytes> {
    let data = event.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"data:"))?.trim_ascii();
    (!data.is_empty()).then(|| event.slice_ref(data))
}

fn is_response(message: &[u8]) -> bool {
    let message = serde_json::from_slice::<serde_json::Value>(message).unwrap_or_default();
    message.get("result").or(message.get("error")).is_some()
}
