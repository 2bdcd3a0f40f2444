//! Serves turns over HTTP, with their faults.

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

use super::fake::FakeModels;
use super::turn::{Fault, Turn};
use super::{anthropic, openai};
use crate::seen_request::SeenRequest;

/// Interval of the data that [`Fault::Drip`] sends.
const DRIP_INTERVAL: Duration = Duration::from_secs(1);

/// How a request for a summary begins.
const SUMMARY_REQUEST: &str = "You summarize the first part of a conversation";

/// Accepts connections until it is dropped.
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
    let stale = Arc::new(AtomicBool::new(false));
    let service = service_fn(move |request| handle(models.clone(), request, number, Arc::clone(&stale)));
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

type Response = http::Response<ChunkedBody>;

/// The API of a request.
#[derive(Clone, Copy)]
enum Api {
    Anthropic,
    OpenAi,
}

async fn handle(
    models: FakeModels,
    request: Request<Incoming>,
    connection: u64,
    stale: Arc<AtomicBool>,
) -> io::Result<Response> {
    if stale.load(Ordering::Relaxed) {
        return Err(io::Error::other("stale connection"));
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
    let api = match head.uri.path() {
        path if path.ends_with("/v1/messages") => Api::Anthropic,
        path if path.ends_with("/chat/completions") => Api::OpenAi,
        path if path.ends_with("/embeddings") && models.state().turns.is_empty() => {
            return Ok(embeddings(&models, &serde_json::from_slice(&body).unwrap_or_default()));
        }
        // A turn with a fault.
        path if path.ends_with("/embeddings") => Api::OpenAi,
        path if path.ends_with("/models") && !models.state().models.is_null() => {
            return Ok(json_document(200, models.state().models.to_string()));
        }
        path => return Ok(json_document(404, format!("{{\"error\":{{\"message\":\"unknown path {path}\"}}}}"))),
    };
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    if let (Api::Anthropic, Some(error)) = (&api, anthropic::validation_error(&request)) {
        let error = json!({"type": "invalid_request_error", "message": error});
        return Ok(json_document(400, json!({"type": "error", "error": error}).to_string()));
    }
    let is_summary = String::from_utf8_lossy(&body).contains(SUMMARY_REQUEST);
    let summary = models.state().summary.clone().filter(|_| is_summary).map(Turn::text);
    let Some(turn) = summary.or_else(|| models.state().turns.pop_front()) else {
        return Ok(json_document(400, "{\"error\":{\"message\":\"no turns left in the script\"}}".to_owned()));
    };
    stale.store(turn.has(&Fault::StaleConnection), Ordering::Relaxed);
    for fault in &turn.faults {
        match fault {
            Fault::Status(status, headers, body) => {
                let mut response = http::Response::builder().status(*status);
                if headers.iter().all(|(name, _)| name != "content-type") {
                    response = response.header("content-type", "application/json");
                }
                let response = headers.iter().fold(response, |response, (name, value)| response.header(name, value));
                return response.body(ChunkedBody::whole(body.clone().into())).map_err(io::Error::other);
            }
            Fault::HangBeforeHead => std::future::pending().await,
            Fault::HangUp => return Err(io::Error::other("hung up")),
            _ => {}
        }
    }
    let model = request["model"].as_str().unwrap_or("fake").to_owned();
    let stream = request["stream"] == true && !turn.has(&Fault::NotStreamed);
    Ok(if stream { streamed(&turn, api, &model) } else { unstreamed(&turn, api, &model) })
}

/// Returns the vectors of texts, the last one first: the order of the list has no meaning.
fn embeddings(models: &FakeModels, request: &Value) -> Response {
    let state = models.state();
    let texts: Vec<&str> = request["input"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut data = Vec::new();
    for (index, text) in texts.iter().enumerate().rev() {
        let Some(vector) = state.vectors.get(*text) else {
            let error =
                json!({"error": {"message": format!("no vector for {text:?}"), "type": "invalid_request_error"}});
            return json_document(400, error.to_string());
        };
        data.push(json!({"object": "embedding", "index": index, "embedding": vector}));
    }
    let tokens = 4 * texts.len();
    let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
    let document = json!({"object": "list", "data": data, "model": request["model"], "usage": usage});
    json_document(200, document.to_string())
}

fn json_document(status: u16, body: String) -> Response {
    let response = http::Response::builder().status(status).header("content-type", "application/json");
    response.body(ChunkedBody::whole(body.into())).expect("a plain response")
}

/// Returns the response as one document, or the first half of it.
fn unstreamed(turn: &Turn, api: Api, model: &str) -> Response {
    let mut text = match api {
        Api::Anthropic => anthropic::document(turn, model),
        Api::OpenAi => openai::document(turn, model),
    };
    if turn.has(&Fault::Garbage) {
        "not JSON".clone_into(&mut text);
    }
    let half = || Bytes::from(text.as_bytes()[..text.len() / 2].to_vec());
    let body = if turn.has(&Fault::CutMidEvent) || turn.has(&Fault::EndEarly) {
        ChunkedBody::of([half()], Ending::Cut)
    } else if turn.has(&Fault::HangMidway) {
        ChunkedBody::of([half()], Ending::Hang)
    } else if turn.has(&Fault::HangAfterHead) {
        ChunkedBody::of([], Ending::Hang)
    } else if turn.has(&Fault::Drip) {
        ChunkedBody::of([half()], Ending::Drip(" "))
    } else {
        ChunkedBody::whole(text.into())
    };
    let response = http::Response::builder().status(200).header("content-type", "application/json");
    response.body(body).expect("a plain response")
}

/// Returns the response as events, as far as its faults allow.
fn streamed(turn: &Turn, api: Api, model: &str) -> Response {
    let mut events = match api {
        Api::Anthropic => anthropic::events(turn, model),
        Api::OpenAi => openai::events(turn, model),
    };
    let half = events.len() / 2;
    let error = match api {
        Api::Anthropic => anthropic::error(turn).map(|error| format!("event: error\ndata: {error}\n\n")),
        Api::OpenAi => openai::error(turn).map(|error| format!("data: {error}\n\n")),
    };
    let mut ending = Ending::End;
    if let Some(error) = error {
        events.truncate(half);
        events.push(error);
    }
    if turn.has(&Fault::Garbage) {
        events.truncate(half);
        events.push("data: <html>not JSON\n\n".to_owned());
    }
    if turn.has(&Fault::EndEarly) {
        events.truncate(half);
    }
    if turn.has(&Fault::HangMidway) {
        events.truncate(half);
        ending = Ending::Hang;
    }
    if turn.has(&Fault::HangAfterHead) {
        events.clear();
        ending = Ending::Hang;
    }
    if turn.has(&Fault::Drip) {
        events.truncate(half);
        ending = Ending::Drip(match api {
            Api::Anthropic => "event: ping\ndata: {\"type\":\"ping\"}\n\n",
            Api::OpenAi => "data: {\"choices\":[]}\n\n",
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
    let chunks: Vec<Bytes> = if turn.split.bytes == 0 {
        events.into_iter().map(Bytes::from).collect()
    } else {
        events.concat().as_bytes().chunks(turn.split.bytes).map(Bytes::copy_from_slice).collect()
    };
    let response = http::Response::builder().header("content-type", "text/event-stream; charset=utf-8");
    response.body(ChunkedBody::of(chunks, ending)).expect("a plain response")
}

/// How a body ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    End,
    Hang,
    Cut,
    /// Sends the same data forever.
    Drip(&'static str),
}

/// A body of chunks.
struct ChunkedBody {
    chunks: VecDeque<Bytes>,
    ending: Ending,
    /// Whether earlier chunks are flushed, which must happen before the connection breaks.
    flushed: bool,
    pause: Option<Pin<Box<Sleep>>>,
}

impl ChunkedBody {
    fn whole(body: Bytes) -> Self {
        Self::of([body], Ending::End)
    }

    fn of(chunks: impl IntoIterator<Item = Bytes>, ending: Ending) -> Self {
        Self { chunks: chunks.into_iter().collect(), ending, flushed: false, pause: None }
    }
}

impl Body for ChunkedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(chunk) = self.chunks.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        match self.ending {
            Ending::End => Poll::Ready(None),
            Ending::Hang => Poll::Pending,
            Ending::Cut if !self.flushed => {
                self.flushed = true;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Ending::Drip(data) => {
                let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(DRIP_INTERVAL)));
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(data.as_bytes())))))
            }
            Ending::Cut => Poll::Ready(Some(Err(io::Error::other("connection cut")))),
        }
    }
}
