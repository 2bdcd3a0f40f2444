//! Streamable HTTP: each message is a POST, answered with JSON or an event stream, and a GET opens the stream of the
//! server's other messages.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use tokio::sync::mpsc;
use wharf_io::BodyError;

use super::answer_stream::{Classified, classify_sole, contains_answer, read_answer, utf8};
use super::exchange::{Exchange, InFlight, NegotiatedHeaders, SESSION_ID};
use super::notification_stream::listen;
use super::post::{HttpPost, PostOutcome, has_content_type};
use super::{HttpEndpoint, MAX_QUEUED_FRAMES};
use crate::transport::{
    Frame, Link, MAX_MESSAGE_BYTES, OutgoingRequest, Outward, PeerHandle, PostError, Reply, RequestTransport,
};

/// Creates a connection. Nothing is sent before the first request.
pub(super) fn open(endpoint: HttpEndpoint) -> Link {
    let (frames, mut queued) = mpsc::channel(MAX_QUEUED_FRAMES);
    let exchange = Arc::new(Exchange::new(endpoint, frames));
    let closed = Arc::clone(&exchange.closed);
    let incoming = stream_from(async move || {
        tokio::select! {
            biased;
            frame = queued.recv() => frame.map(Ok),
            () = closed.notified() => None,
        }
    });
    let transport = Arc::new(Streamable(Arc::clone(&exchange)));
    let peer = Arc::new(ExchangeHandle(exchange));
    Link { incoming: Box::pin(incoming), outward: Outward::Requests(transport), peer }
}

/// Sends messages over an [`Exchange`].
struct Streamable(Arc<Exchange>);

impl Streamable {
    async fn request(&self, request: OutgoingRequest) -> Result<Reply, PostError> {
        let exchange = &*self.0;
        let _in_flight = InFlight::new(exchange, request.id);
        // The request keeps its session, even if the connection starts another one meanwhile.
        let negotiated = if request.is_initialize {
            Arc::new(NegotiatedHeaders::new(None, None))
        } else {
            exchange.negotiated.load_full()
        };
        let post = HttpPost {
            to: &exchange.endpoint.url,
            content: &request.message,
            own: &negotiated.headers,
            method: negotiated.stateless.then(|| HeaderValue::from_str(request.method).ok()).flatten(),
            extra: request.headers.as_deref(),
            session: negotiated.session().is_some(),
        };
        let response = match exchange.endpoint.post(post).await? {
            PostOutcome::Success(response) => response,
            PostOutcome::Rpc(error) => {
                return Ok(Reply::Answer { answer: Err(error), well_addressed: true, text: None });
            }
        };
        request.activity.mark_answer_started();
        if request.is_initialize {
            let session = response.headers().get(SESSION_ID).cloned();
            exchange.negotiated.store(Arc::new(NegotiatedHeaders::new(session, None)));
        }
        if has_content_type(&response, "text/event-stream") {
            return read_answer(exchange, response.into_body(), request.id, &negotiated).await;
        }
        let (head, mut body) = response.into_parts();
        let content = body.read_all(MAX_MESSAGE_BYTES).await.map_err(|error| match error {
            BodyError::TooLong(_) => PostError::Malformed(error.to_string()),
            BodyError::Broken(reason) => PostError::Lost(format!("broke the connection ({reason})")),
        })?;
        if content.trim_ascii().is_empty() {
            return Ok(Reply::Accepted(head.status.as_u16()));
        }
        match classify_sole(utf8(content)?, request.id) {
            Classified::Answer { reply, .. } => Ok(reply),
            Classified::Broken(reason) => Err(PostError::Malformed(reason)),
            Classified::Other(text) if contains_answer(&text) => {
                exchange.forward(Frame::AnswerTo(request.id, text)).await;
                Ok(Reply::Elsewhere)
            }
            Classified::Other(text) => {
                let content_type = head.headers.get(CONTENT_TYPE);
                let content_type =
                    content_type.map_or("no content type".into(), |value| String::from_utf8_lossy(value.as_bytes()));
                let start = text.split_whitespace().take(40).collect::<Vec<_>>().join(" ");
                let start: String = start.chars().take(200).collect();
                let status = head.status.as_u16();
                Err(PostError::Malformed(format!("HTTP {status} with {content_type} is not an answer: {start}")))
            }
        }
    }

    async fn notify(&self, method: Option<&str>, message: Bytes) -> Result<(), PostError> {
        let endpoint = &self.0.endpoint;
        let negotiated = self.0.negotiated.load_full();
        let method = if negotiated.stateless { method } else { None };
        let post = HttpPost {
            to: &endpoint.url,
            content: &message,
            own: &negotiated.headers,
            method: method.and_then(|method| HeaderValue::from_str(method).ok()),
            extra: None,
            session: negotiated.session().is_some(),
        };
        endpoint.notify(post).await
    }
}

impl RequestTransport for Streamable {
    fn request(&self, request: OutgoingRequest) -> BoxFuture<'_, Result<Reply, PostError>> {
        Box::pin(self.request(request))
    }

    fn notify<'a>(&'a self, method: Option<&'a str>, message: Bytes) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(self.notify(method, message))
    }

    fn set_stateless(&self, revision: Option<&str>) {
        let negotiated = revision.map(NegotiatedHeaders::stateless).unwrap_or_default();
        self.0.negotiated.store(Arc::new(negotiated));
    }

    fn set_revision(&self, revision: &str) {
        let session = self.0.negotiated.load().session().cloned();
        self.0.negotiated.store(Arc::new(NegotiatedHeaders::new(session, HeaderValue::from_str(revision).ok())));
    }

    fn resume(&self, session: &str, revision: &str) -> bool {
        let (Ok(mut session), Ok(revision)) = (HeaderValue::from_str(session), HeaderValue::from_str(revision)) else {
            return false;
        };
        session.set_sensitive(true);
        self.0.negotiated.store(Arc::new(NegotiatedHeaders::new(Some(session), Some(revision))));
        true
    }

    fn start_listening(&self) {
        // Weak, because the exchange owns the task.
        self.0.spawn(listen(Arc::downgrade(&self.0), self.0.frames()));
    }

    fn sweep(&self) {
        self.0.endpoint.client.sweep();
    }

    fn supports_rehandshake(&self) -> bool {
        true
    }

    fn has_session(&self) -> bool {
        self.0.negotiated.load().session().is_some()
    }
}

struct ExchangeHandle(Arc<Exchange>);

impl PeerHandle for ExchangeHandle {
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.close())
    }

    fn abandon(&self) {
        self.0.retire();
    }

    fn session_id(&self) -> Option<String> {
        let negotiated = self.0.negotiated.load();
        negotiated.session().map(|session| String::from_utf8_lossy(session.as_bytes()).into_owned())
    }
}

/// Creates a stream from a closure that returns its items, until it returns `None`.
fn stream_from<T>(next: impl AsyncFnMut() -> Option<T> + Send) -> impl futures_core::Stream<Item = T> {
    futures_util::stream::unfold(next, async |mut next| Some((next().await?, next)))
}
