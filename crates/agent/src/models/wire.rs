//! One request to a provider and its answer, in one piece or as events; every wait has an end, every length a bound.
//!
//! What the answer means is known to each adapter. What a refusal means is known to `classify`, for all of them.

mod after;
mod classify;
mod raw;

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Request, Response};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};
use wharf_io::{Body, BodyError, HttpError, SseError, SseReader};
use wharf_protocol::Json;

use super::endpoint::Endpoint;
use crate::{ModelError, ModelErrorKind};

pub(super) use classify::complaint;
pub(super) use raw::{as_object, as_written, object_of, with_field};

/// The longest answer that is read.
const LONGEST_ANSWER: usize = 64 * 1024 * 1024;
/// The longest single event of one.
const LONGEST_EVENT: usize = 16 * 1024 * 1024;
/// How much is read of what a provider says when it refuses.
const LONGEST_REFUSAL: usize = 64 * 1024;
/// How long the end of a stream is waited for, when all has been said.
const LAST_MOMENT: Duration = Duration::from_millis(100);
/// How soon a kept connection breaks, if it was not there any more.
const STALE: Duration = Duration::from_secs(1);

/// An answer that is no refusal.
pub(super) enum Reply<'a> {
    /// In one piece.
    Document(String),
    /// Piece by piece.
    Events(Box<Stream<'a>>),
}

/// What is expected, where the provider does not say what it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expect {
    Document,
    Events,
}

impl Expect {
    pub(super) fn events(stream: bool) -> Self {
        if stream { Self::Events } else { Self::Document }
    }
}

/// An answer that comes piece by piece.
pub(super) struct Stream<'a> {
    endpoint: &'a Endpoint,
    events: SseReader,
    read: usize,
    until: Instant,
}

/// One event.
pub(super) struct Piece {
    pub(super) kind: String,
    pub(super) data: Json,
}

/// What came instead of a piece.
pub(super) enum Next {
    Piece(Piece),
    /// The word that some providers end with.
    Done,
    /// The stream is over, in good order.
    Over,
}

/// Asks with a body.
pub(super) async fn post<'a>(
    endpoint: &'a Endpoint,
    path: &str,
    body: &impl Serialize,
    expect: Expect,
) -> Result<Reply<'a>, ModelError> {
    let body = serde_json::to_vec(body)
        .map_err(|error| endpoint.error(ModelErrorKind::Invalid, format!("the request cannot be written: {error}")))?;
    send(endpoint, Method::POST, path, body.into(), expect).await
}

/// Asks for a document.
pub(super) async fn get(endpoint: &Endpoint, path: &str) -> Result<String, ModelError> {
    match send(endpoint, Method::GET, path, Bytes::new(), Expect::Document).await? {
        Reply::Document(text) => Ok(text),
        Reply::Events(_) => {
            Err(endpoint.error(ModelErrorKind::Malformed, "there are events where none were asked for"))
        }
    }
}

async fn send<'a>(
    endpoint: &'a Endpoint,
    method: Method,
    path: &str,
    body: Bytes,
    expect: Expect,
) -> Result<Reply<'a>, ModelError> {
    let waits = endpoint.waits;
    let until = Instant::now() + waits.whole;
    let request = endpoint.request(method, path, body)?;
    let head = timeout_at(until.min(Instant::now() + waits.head), reach(endpoint, request)).await;
    let late = |_| endpoint.error(ModelErrorKind::Timeout, format!("no answer within {} s", waits.head.as_secs_f64()));
    let response = head.map_err(late)?.map_err(|error| unreached(endpoint, &error))?;
    let (head, mut body) = response.into_parts();
    if !head.status.is_success() {
        let content = body.read_head(LONGEST_REFUSAL, waits.idle).await;
        return Err(classify::refusal(endpoint, &head, &content));
    }
    match sent(&head.headers, expect) {
        Expect::Events => {
            let events = SseReader::new(body, LONGEST_EVENT);
            Ok(Reply::Events(Box::new(Stream { endpoint, events, read: 0, until })))
        }
        Expect::Document => document(endpoint, &mut body, until).await.map(Reply::Document),
    }
}

/// Sends a request, and sends it again if the connection it went out on had been left by the far end. llama.cpp promises
/// to keep a connection and closes it right after a stream. A question has no effect but its answer, so nothing is done
/// twice.
async fn reach(endpoint: &Endpoint, request: Request<Bytes>) -> Result<Response<Body>, HttpError> {
    let http = &endpoint.http;
    let (opened, began) = (http.connections_opened(), Instant::now());
    match http.send(request.clone()).await {
        Err(HttpError::Broken(_)) if http.connections_opened() == opened && began.elapsed() < STALE => {
            http.close_idle();
            http.send(request).await
        }
        outcome => outcome,
    }
}

/// What the answer is, by its own account. Not everybody who was asked for events sends some.
fn sent(headers: &HeaderMap, expect: Expect) -> Expect {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "text/event-stream" => Expect::Events,
        "" | "text/plain" | "application/octet-stream" => expect,
        _ => Expect::Document,
    }
}

async fn document(endpoint: &Endpoint, body: &mut Body, until: Instant) -> Result<String, ModelError> {
    let idle = endpoint.waits.idle;
    let mut content = Vec::new();
    loop {
        let chunk = timeout_at(until.min(Instant::now() + idle), body.chunk()).await;
        let chunk = match chunk.map_err(|_| silent(endpoint))? {
            None => break,
            Some(Ok(chunk)) => chunk,
            Some(Err(BodyError::Broken(why))) => return Err(cut(endpoint, &why)),
            Some(Err(BodyError::TooLong(_))) => return Err(too_long(endpoint)),
        };
        if content.len() + chunk.len() > LONGEST_ANSWER {
            return Err(too_long(endpoint));
        }
        content.extend_from_slice(&chunk);
    }
    String::from_utf8(content).map_err(|_| malformed(endpoint, "it is no text"))
}

impl Stream<'_> {
    /// The next event. One that is called an error is one, whatever is in it.
    pub(super) async fn next(&mut self) -> Result<Next, ModelError> {
        let endpoint = self.endpoint;
        let deadline = self.until.min(Instant::now() + endpoint.waits.idle);
        let event = timeout_at(deadline, self.events.next()).await.map_err(|_| silent(endpoint))?;
        let event = match event {
            None => return Ok(Next::Over),
            Some(Ok(event)) => event,
            Some(Err(SseError::Broken(why))) => return Err(cut(endpoint, &why)),
            Some(Err(SseError::TooLong(_))) => return Err(too_long(endpoint)),
        };
        self.read += event.data.len();
        if self.read > LONGEST_ANSWER {
            return Err(too_long(endpoint));
        }
        if event.data == b"[DONE]" {
            return Ok(Next::Done);
        }
        let text = String::from_utf8(event.data).map_err(|_| malformed(endpoint, "an event is no text"))?;
        if event.kind == "error" {
            let value = serde_json::from_str(&text).unwrap_or_else(|_| serde_json::Value::from(text));
            return Err(complaint(endpoint, &value));
        }
        let data = Json::parse(text).map_err(|error| malformed(endpoint, &format!("an event is no JSON: {error}")))?;
        Ok(Next::Piece(Piece { kind: event.kind, data }))
    }

    /// The answer is complete. Only a connection that is read to its end can be used again, so it has a moment to end.
    pub(super) async fn finish(mut self) {
        let until = Instant::now() + LAST_MOMENT;
        while let Ok(Some(Ok(_))) = timeout_at(until, self.events.next()).await {}
    }

    /// The stream was over before the answer was.
    pub(super) fn cut(&self) -> ModelError {
        cut(self.endpoint, "the stream ended before the answer did")
    }
}

/// An answer that makes no sense.
pub(super) fn malformed(endpoint: &Endpoint, why: &str) -> ModelError {
    endpoint.error(ModelErrorKind::Malformed, format!("the answer cannot be read: {why}"))
}

fn cut(endpoint: &Endpoint, why: &str) -> ModelError {
    endpoint.error(ModelErrorKind::Network, format!("the answer was cut off: {why}"))
}

fn silent(endpoint: &Endpoint) -> ModelError {
    endpoint.error(ModelErrorKind::Timeout, "the answer began and did not go on in time")
}

fn too_long(endpoint: &Endpoint) -> ModelError {
    endpoint.error(ModelErrorKind::Malformed, "the answer is longer than anything a model says")
}

fn unreached(endpoint: &Endpoint, error: &HttpError) -> ModelError {
    let kind = match error {
        HttpError::Unreachable(_) | HttpError::Untrusted(_) | HttpError::Broken(_) => ModelErrorKind::Network,
        HttpError::Redirected(_) => ModelErrorKind::Invalid,
    };
    endpoint.error(kind, error.to_string())
}
