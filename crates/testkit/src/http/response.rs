//! Responses: whole ones, stalled ones, and event streams.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use super::output::Output;
use super::server::{HttpScripted, UnknownSession};

pub(super) type Response = http::Response<UnsyncBoxBody<Bytes, Infallible>>;

/// The length that a stalled response announces.
const STALLED_LENGTH: usize = 1000;

/// How the script ends a connection.
#[derive(Default)]
pub(super) struct Ending {
    /// Drops the connection now.
    pub(super) cut: Notify,
    /// Whether dropping it sends a reset.
    pub(super) reset: AtomicBool,
    /// Ends the connection after the current response.
    pub(super) after_this: Notify,
}

impl Ending {
    pub(super) fn cut(&self, reset: bool) {
        self.reset.store(reset, Ordering::Relaxed);
        self.cut.notify_one();
    }
}

pub(super) fn empty(status: u16) -> Response {
    whole(status, &[], Bytes::new())
}

pub(super) fn not_allowed(allowed: &str) -> Response {
    whole(405, &[(ALLOW.as_str(), allowed)], Bytes::new())
}

pub(super) fn json(status: u16, body: impl Into<Bytes>) -> Response {
    whole(status, &[(CONTENT_TYPE.as_str(), "application/json")], body)
}

pub(super) fn whole(status: u16, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Response {
    with_body(status, headers, Full::new(body.into()))
}

/// Returns the head of a valid response without a body.
pub(super) fn stalled() -> Response {
    let length = STALLED_LENGTH.to_string();
    let headers = [(CONTENT_TYPE.as_str(), "application/json"), (CONTENT_LENGTH.as_str(), &length)];
    with_body(200, &headers, PendingBody)
}

pub(super) fn events(stream: EventStream) -> Response {
    let headers = [(CONTENT_TYPE.as_str(), "text/event-stream"), (CACHE_CONTROL.as_str(), "no-cache")];
    with_body(200, &headers, stream)
}

/// Returns the response to a request of an unknown session.
pub(super) fn unknown_session(response: &UnknownSession, id: &Value) -> Response {
    let error = |code: i64, message: &str| json!({"code": code, "message": message});
    match response {
        UnknownSession::NotFound => empty(404),
        UnknownSession::NotFoundRpc => {
            json(404, json!({"jsonrpc": "2.0", "id": id, "error": error(-32001, "Session not found")}).to_string())
        }
        UnknownSession::BadRequestNoId => {
            let error = error(-32000, "Bad Request: No valid session ID provided");
            json(400, json!({"jsonrpc": "2.0", "error": error}).to_string())
        }
        UnknownSession::OkRpc(code, message) => {
            json(200, json!({"jsonrpc": "2.0", "id": id, "error": error(*code, message)}).to_string())
        }
        UnknownSession::Custom(status, body) => {
            let body = body.replace("{id}", &id.to_string());
            let is_json = serde_json::from_str::<Value>(&body).is_ok();
            let kind = if is_json { "application/json" } else { "text/plain" };
            whole(*status, &[(CONTENT_TYPE.as_str(), kind)], body)
        }
    }
}

fn with_body(
    status: u16,
    headers: &[(&str, &str)],
    body: impl Body<Data = Bytes, Error = Infallible> + Send + 'static,
) -> Response {
    let builder = http::Response::builder().status(status);
    let builder = headers.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
    builder.body(body.boxed_unsync()).expect("scripts contain valid responses")
}

/// A body that never arrives.
struct PendingBody;

impl Body for PendingBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

/// How outputs become an event stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// A stream of messages: lines become events, and hanging up ends the connection.
    Messages,
    /// A scripted GET: lines are sent unchanged, and hanging up ends only the stream.
    Lines,
}

/// Outputs as the body of a response.
pub(super) struct EventStream {
    server: HttpScripted,
    outputs: mpsc::Receiver<Output>,
    framing: Framing,
    ending: Arc<Ending>,
    first: Option<Bytes>,
    cutting: Option<Cut>,
}

#[derive(Clone, Copy)]
struct Cut {
    reset: bool,
}

impl EventStream {
    pub(super) fn new(
        server: HttpScripted,
        outputs: mpsc::Receiver<Output>,
        framing: Framing,
        ending: Arc<Ending>,
    ) -> Self {
        Self { server, outputs, framing, ending, first: None, cutting: None }
    }

    /// Sends this before all outputs.
    pub(super) fn starting_with(mut self, first: impl Into<Bytes>) -> Self {
        self.first = Some(first.into());
        self
    }

    fn event(&self, data: &str) -> Bytes {
        let mut event = String::new();
        if self.server.event_ids {
            let id = self.server.shared.next_event.fetch_add(1, Ordering::Relaxed);
            let _ = writeln!(event, "id: {id}");
        }
        event.push_str("event: message\n");
        for line in data.split('\n') {
            let _ = writeln!(event, "data: {line}");
        }
        event.push('\n');
        event.into()
    }
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if let Some(Cut { reset }) = this.cutting {
            this.ending.cut(reset);
            return Poll::Pending;
        }
        if let Some(first) = this.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        loop {
            let bytes = match ready!(this.outputs.poll_recv(context)) {
                None | Some(Output::End) => return Poll::Ready(None),
                Some(Output::HangUp) if this.framing == Framing::Lines => return Poll::Ready(None),
                Some(output @ (Output::HangUp | Output::Reset)) => {
                    // Earlier output is flushed before the next poll.
                    this.cutting = Some(Cut { reset: matches!(output, Output::Reset) });
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Some(Output::Message(message)) => this.event(&message.to_string()),
                Some(Output::Line(line)) if this.framing == Framing::Lines => format!("{line}\n").into(),
                Some(Output::Line(line)) => this.event(&line),
                Some(Output::Raw(bytes)) => bytes,
                // The head has already been sent.
                Some(Output::Response { .. } | Output::Stall) => continue,
            };
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
    }
}
