//! HTTP requests to providers, with streamed or unstreamed responses. Every wait has a timeout, every length a limit.
//!
//! The adapters parse the responses. `provider_error` classifies the errors of all providers.

mod edit;
mod provider_error;
mod retry_after;
mod web_page;

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Request, Response};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};
use wharf_io::{Body, BodyError, HttpError, SseError, SseReader};
use wharf_protocol::Json;

use super::endpoint::{Endpoint, ProviderTimeouts};
use crate::{ModelError, ModelErrorKind};

pub(super) use edit::{as_object, object_of, unwrap_invalid, with_field};
pub(super) use provider_error::provider_error;

/// Maximum size of a response.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;
/// Maximum size of one event of a stream.
const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;
/// Maximum size of an error response; the rest is not read.
const MAX_ERROR_BYTES: usize = 64 * 1024;
/// Maximum number of characters of an error text that is not JSON.
const MAX_ERROR_CHARS: usize = 500;
/// How long to wait for the end of a stream after its last event.
const STREAM_END_TIMEOUT: Duration = Duration::from_millis(100);
/// A reused connection that breaks within this time was closed before the request.
const STALE_CONNECTION_WINDOW: Duration = Duration::from_secs(1);

/// A successful response.
pub(super) enum Reply<'a> {
    /// Unstreamed: the whole body.
    Document(String),
    /// Streamed.
    Events(Box<EventStream<'a>>),
}

/// The kind of a response body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyKind {
    Document,
    Events,
}

impl BodyKind {
    /// Returns the kind that a request asks for.
    pub(super) fn requested(stream: bool) -> Self {
        if stream { Self::Events } else { Self::Document }
    }
}

/// A streamed response.
pub(super) struct EventStream<'a> {
    endpoint: &'a Endpoint,
    events: SseReader,
    bytes_read: usize,
    deadline: Instant,
    /// When the first event must have arrived. Local servers send the head at once, and then read the whole prompt.
    first_event_deadline: Option<Instant>,
}

/// A server-sent event.
pub(super) struct ServerEvent {
    pub(super) kind: String,
    pub(super) data: Json,
}

/// The next item of a stream.
pub(super) enum StreamItem {
    Event(ServerEvent),
    /// The `[DONE]` marker of some providers.
    Done,
    /// The end of the stream.
    End,
}

/// Sends a JSON body.
pub(super) async fn post<'a>(
    endpoint: &'a Endpoint,
    path: &str,
    body: &impl Serialize,
    requested: BodyKind,
) -> Result<Reply<'a>, ModelError> {
    let body = serde_json::to_vec(body).map_err(|error| {
        endpoint.error(ModelErrorKind::Invalid, format!("failed to serialize the request: {error}"))
    })?;
    send(endpoint, Method::POST, path, body.into(), requested).await
}

/// Requests a document.
pub(super) async fn get(endpoint: &Endpoint, path: &str) -> Result<String, ModelError> {
    match send(endpoint, Method::GET, path, Bytes::new(), BodyKind::Document).await? {
        Reply::Document(text) => Ok(text),
        Reply::Events(_) => Err(endpoint.error(ModelErrorKind::Malformed, "unexpected event stream")),
    }
}

async fn send<'a>(
    endpoint: &'a Endpoint,
    method: Method,
    path: &str,
    body: Bytes,
    requested: BodyKind,
) -> Result<Reply<'a>, ModelError> {
    let timeouts = endpoint.timeouts;
    let start = Instant::now();
    let deadline = start + timeouts.total;
    let first_byte = deadline.min(start + timeouts.first_byte);
    let request = endpoint.request(method, path, body)?;
    let head = timeout_at(first_byte, send_on_live_connection(endpoint, request)).await;
    let response = head.map_err(|_| late(endpoint))?.map_err(|error| transport_error(endpoint, &error))?;
    let (head, mut body) = response.into_parts();
    if !head.status.is_success() {
        let content = body.read_head(MAX_ERROR_BYTES, timeouts.idle).await;
        return Err(provider_error::http_error(endpoint, &head, &content));
    }
    match body_kind(&head.headers, requested) {
        BodyKind::Events => {
            let events = SseReader::new(body, MAX_EVENT_BYTES);
            let first_event_deadline = Some(first_byte);
            Ok(Reply::Events(Box::new(EventStream { endpoint, events, bytes_read: 0, deadline, first_event_deadline })))
        }
        BodyKind::Document => {
            let text = document(endpoint, &mut body, BodyDeadlines { first_byte, total: deadline }).await?;
            match web_page::describe(&text) {
                Some(page) => {
                    let error = endpoint.error(ModelErrorKind::WrongUrl, page);
                    Err(ModelError { status: Some(head.status.as_u16()), ..error })
                }
                None => Ok(Reply::Document(text)),
            }
        }
    }
}

/// Sends a request, and sends it again if the server had already closed the reused connection. llama.cpp promises to
/// keep a connection and closes it right after a stream. A model request has no effect except for its response, so
/// repeating it is safe.
async fn send_on_live_connection(endpoint: &Endpoint, request: Request<Bytes>) -> Result<Response<Body>, HttpError> {
    let http = &endpoint.http;
    let opened = http.connections_opened();
    let start = Instant::now();
    match http.send(request.clone()).await {
        Err(HttpError::Broken(_))
            if http.connections_opened() == opened && start.elapsed() < STALE_CONNECTION_WINDOW =>
        {
            http.close_idle();
            http.send(request).await
        }
        outcome => outcome,
    }
}

/// Returns the kind of a response body. Not every provider streams when asked to.
fn body_kind(headers: &HeaderMap, requested: BodyKind) -> BodyKind {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "text/event-stream" => BodyKind::Events,
        "" | "text/plain" | "application/octet-stream" => requested,
        _ => BodyKind::Document,
    }
}

/// When the parts of a body must have arrived.
struct BodyDeadlines {
    first_byte: Instant,
    total: Instant,
}

async fn document(endpoint: &Endpoint, body: &mut Body, deadlines: BodyDeadlines) -> Result<String, ModelError> {
    let idle = endpoint.timeouts.idle;
    let mut content = Vec::new();
    loop {
        let is_first = content.is_empty();
        let deadline = if is_first { deadlines.first_byte } else { deadlines.total.min(Instant::now() + idle) };
        let chunk = timeout_at(deadline, body.chunk()).await;
        let chunk = match chunk.map_err(|_| if is_first { late(endpoint) } else { stalled(endpoint) })? {
            None => break,
            Some(Ok(chunk)) => chunk,
            Some(Err(BodyError::Broken(why))) => return Err(truncated(endpoint, &why)),
            Some(Err(BodyError::TooLong(_))) => return Err(too_long(endpoint)),
        };
        if content.len() + chunk.len() > MAX_RESPONSE_BYTES {
            return Err(too_long(endpoint));
        }
        content.extend_from_slice(&chunk);
    }
    String::from_utf8(content).map_err(|_| malformed(endpoint, "not valid UTF-8"))
}

impl EventStream<'_> {
    /// Returns the next event. An event of the type `error` is an error, whatever its data.
    pub(super) async fn next(&mut self) -> Result<StreamItem, ModelError> {
        let endpoint = self.endpoint;
        let first = self.first_event_deadline;
        let deadline = first.unwrap_or_else(|| self.deadline.min(Instant::now() + endpoint.timeouts.idle));
        let event = timeout_at(deadline, self.events.next()).await;
        let event = event.map_err(|_| if first.is_some() { late(endpoint) } else { stalled(endpoint) })?;
        self.first_event_deadline = None;
        let event = match event {
            None => return Ok(StreamItem::End),
            Some(Ok(event)) => event,
            Some(Err(SseError::Broken(why))) => return Err(truncated(endpoint, &why)),
            Some(Err(SseError::TooLong(_))) => return Err(too_long(endpoint)),
        };
        self.bytes_read += event.data.len();
        if self.bytes_read > MAX_RESPONSE_BYTES {
            return Err(too_long(endpoint));
        }
        if event.data == b"[DONE]" {
            return Ok(StreamItem::Done);
        }
        let text = String::from_utf8(event.data).map_err(|_| malformed(endpoint, "an event is not valid UTF-8"))?;
        if event.kind == "error" {
            let value = serde_json::from_str(&text).unwrap_or_else(|_| serde_json::Value::from(text));
            return Err(provider_error(endpoint, &value));
        }
        let data = Json::parse(text).map_err(|error| malformed(endpoint, &format!("an event is not JSON: {error}")))?;
        Ok(StreamItem::Event(ServerEvent { kind: event.kind, data }))
    }

    /// Reads the stream to its end for a moment. Only then can the connection be reused.
    pub(super) async fn finish(mut self) {
        let deadline = Instant::now() + STREAM_END_TIMEOUT;
        while let Ok(Some(Ok(_))) = timeout_at(deadline, self.events.next()).await {}
    }

    /// Returns the error of a stream that ended before the response was complete.
    pub(super) fn truncated(&self) -> ModelError {
        truncated(self.endpoint, "the stream ended early")
    }
}

/// Returns the error of a response that cannot be parsed.
pub(super) fn malformed(endpoint: &Endpoint, why: &str) -> ModelError {
    endpoint.error(ModelErrorKind::Malformed, format!("invalid response: {why}"))
}

fn truncated(endpoint: &Endpoint, why: &str) -> ModelError {
    endpoint.error(ModelErrorKind::Network, format!("incomplete response: {why}"))
}

/// Returns the error of a response that did not begin in time.
fn late(endpoint: &Endpoint) -> ModelError {
    let seconds = endpoint.timeouts.first_byte.min(endpoint.timeouts.total).as_secs_f64();
    endpoint.error(ModelErrorKind::Timeout, format!("no response within {seconds} s"))
}

/// Returns the error of a response that began and did not continue in time.
fn stalled(endpoint: &Endpoint) -> ModelError {
    let ProviderTimeouts { idle, total, .. } = endpoint.timeouts;
    let (idle, total) = (idle.as_secs_f64(), total.as_secs_f64());
    let message = format!("the response stalled: nothing for {idle} s, or not complete within {total} s");
    endpoint.error(ModelErrorKind::Timeout, message)
}

/// Returns the beginning of a text, in one line.
fn brief(text: &str, otherwise: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() {
        return otherwise.to_owned();
    }
    wharf_protocol::cut(&text, MAX_ERROR_CHARS).unwrap_or(text)
}

fn too_long(endpoint: &Endpoint) -> ModelError {
    endpoint.error(ModelErrorKind::Malformed, format!("response larger than {MAX_RESPONSE_BYTES} bytes"))
}

fn transport_error(endpoint: &Endpoint, error: &HttpError) -> ModelError {
    let kind = match error {
        HttpError::Unreachable(_) | HttpError::Untrusted(_) | HttpError::Broken(_) => ModelErrorKind::Network,
        HttpError::Redirected(_) => ModelErrorKind::WrongUrl,
    };
    endpoint.error(kind, error.to_string())
}
