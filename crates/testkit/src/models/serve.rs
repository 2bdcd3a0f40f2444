//! HTTP: which request gets what, and how an answer breaks.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep};

use super::{FakeModels, Fault, Turn, anthropic, openai};
use crate::SeenRequest;

const BETWEEN_DROPS: Duration = Duration::from_secs(1);

/// Accepts connections for as long as it is polled.
pub(super) async fn accept(models: FakeModels, listener: TcpListener) {
    let mut connections = JoinSet::new();
    let mut number = 0;
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let _ = stream.set_nodelay(true);
                number += 1;
                connections.spawn(connection(models.clone(), stream, number));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

pub(super) async fn connection(
    models: FakeModels,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    number: u64,
) {
    let gone = Arc::new(AtomicBool::new(false));
    let service = service_fn(move |request| answer(models.clone(), request, number, Arc::clone(&gone)));
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

type Response = http::Response<Pieces>;

/// Which wire is spoken.
#[derive(Clone, Copy)]
enum Wire {
    Anthropic,
    OpenAi,
}

async fn answer(
    models: FakeModels,
    request: Request<Incoming>,
    connection: u64,
    gone: Arc<AtomicBool>,
) -> io::Result<Response> {
    if gone.load(Ordering::Relaxed) {
        return Err(io::Error::other("gone"));
    }
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let seen = SeenRequest {
        method: head.method.to_string(),
        path: head.uri.to_string(),
        headers: head.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
        connection,
    };
    models.state().requests.push(seen);
    let wire = match head.uri.path() {
        path if path.ends_with("/v1/messages") => Wire::Anthropic,
        path if path.ends_with("/chat/completions") => Wire::OpenAi,
        path if path.ends_with("/models") && !models.state().listed.is_null() => {
            return Ok(whole(200, models.state().listed.to_string()));
        }
        path => return Ok(whole(404, format!("{{\"error\":{{\"message\":\"there is no {path}\"}}}}"))),
    };
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    if let (Wire::Anthropic, Some(words)) = (&wire, super::anthropic::refusal(&request)) {
        let error = json!({"type": "invalid_request_error", "message": words});
        return Ok(whole(400, json!({"type": "error", "error": error}).to_string()));
    }
    let Some(turn) = models.state().turns.pop_front() else {
        return Ok(whole(400, "{\"error\":{\"message\":\"the script is over\"}}".to_owned()));
    };
    gone.store(turn.has(&Fault::StaleConnection), Ordering::Relaxed);
    for fault in &turn.faults {
        match fault {
            Fault::Status(status, headers, body) => {
                let mut response = http::Response::builder().status(*status);
                if headers.iter().all(|(name, _)| name != "content-type") {
                    response = response.header("content-type", "application/json");
                }
                let response = headers.iter().fold(response, |response, (name, value)| response.header(name, value));
                return response.body(Pieces::whole(body.clone().into())).map_err(io::Error::other);
            }
            Fault::HangBeforeHead => std::future::pending().await,
            Fault::HangUp => return Err(io::Error::other("hung up")),
            _ => {}
        }
    }
    let model = request["model"].as_str().unwrap_or("fake").to_owned();
    let stream = request["stream"] == true && !turn.has(&Fault::NotStreamed);
    Ok(if stream { streamed(&turn, wire, &model) } else { written(&turn, wire, &model) })
}

fn whole(status: u16, body: String) -> Response {
    let response = http::Response::builder().status(status).header("content-type", "application/json");
    response.body(Pieces::whole(body.into())).expect("a plain response")
}

/// An answer in one piece, or the first half of it.
fn written(turn: &Turn, wire: Wire, model: &str) -> Response {
    let mut text = match wire {
        Wire::Anthropic => anthropic::document(turn, model),
        Wire::OpenAi => openai::document(turn, model),
    };
    if turn.has(&Fault::Garbage) {
        "<html>this is no JSON".clone_into(&mut text);
    }
    let mut response = whole(200, String::new());
    let half = Bytes::from(text.as_bytes()[..text.len() / 2].to_vec());
    *response.body_mut() = match () {
        () if turn.has(&Fault::CutMidEvent) || turn.has(&Fault::EndEarly) => Pieces::of([half], Ending::Cut),
        () if turn.has(&Fault::HangMidway) => Pieces::of([half], Ending::Hang),
        () if turn.has(&Fault::Drip) => Pieces::of([half], Ending::Drip(" ")),
        () => Pieces::whole(text.into()),
    };
    response
}

/// An answer as events, as far as it comes.
fn streamed(turn: &Turn, wire: Wire, model: &str) -> Response {
    let mut events = match wire {
        Wire::Anthropic => anthropic::events(turn, model),
        Wire::OpenAi => openai::events(turn, model),
    };
    let half = events.len() / 2;
    let error = match wire {
        Wire::Anthropic => anthropic::error(turn).map(|error| format!("event: error\ndata: {error}\n\n")),
        Wire::OpenAi => openai::error(turn).map(|error| format!("data: {error}\n\n")),
    };
    let mut ending = Ending::End;
    if let Some(error) = error {
        events.truncate(half);
        events.push(error);
    }
    if turn.has(&Fault::Garbage) {
        events.truncate(half);
        events.push("data: <html>this is no JSON\n\n".to_owned());
    }
    if turn.has(&Fault::EndEarly) {
        events.truncate(half);
    }
    if turn.has(&Fault::HangMidway) {
        events.truncate(half);
        ending = Ending::Hang;
    }
    if turn.has(&Fault::Drip) {
        events.truncate(half);
        ending = Ending::Drip(match wire {
            Wire::Anthropic => "event: ping\ndata: {\"type\":\"ping\"}\n\n",
            Wire::OpenAi => "data: {\"choices\":[]}\n\n",
        });
    }
    if turn.has(&Fault::StayOpen) {
        ending = Ending::Hang;
    }
    if turn.has(&Fault::CutMidEvent) {
        let event = events[half].clone();
        events.truncate(half);
        events.push(event[..event.len() / 2].to_owned());
        ending = Ending::Cut;
    }
    let pieces: Vec<Bytes> = if turn.split.bytes == 0 {
        events.into_iter().map(Bytes::from).collect()
    } else {
        events.concat().as_bytes().chunks(turn.split.bytes).map(Bytes::copy_from_slice).collect()
    };
    let response = http::Response::builder().header("content-type", "text/event-stream; charset=utf-8");
    response.body(Pieces::of(pieces, ending)).expect("a plain response")
}

/// How a body ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    End,
    Hang,
    Cut,
    /// Again and again the same.
    Drip(&'static str),
}

/// A body in pieces.
struct Pieces {
    left: VecDeque<Bytes>,
    ending: Ending,
    /// What has been said is flushed before it breaks.
    flushed: bool,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Pieces {
    fn whole(body: Bytes) -> Self {
        Self::of([body], Ending::End)
    }

    fn of(pieces: impl IntoIterator<Item = Bytes>, ending: Ending) -> Self {
        Self { left: pieces.into_iter().collect(), ending, flushed: false, pause: None }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(piece) = self.left.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        match self.ending {
            Ending::End => Poll::Ready(None),
            Ending::Hang => Poll::Pending,
            Ending::Cut if !self.flushed => {
                self.flushed = true;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Ending::Drip(drop) => {
                let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(BETWEEN_DROPS)));
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(drop.as_bytes())))))
            }
            Ending::Cut => Poll::Ready(Some(Err(io::Error::other("cut")))),
        }
    }
}
