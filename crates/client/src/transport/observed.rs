//! A connection whose messages are observed. This is the one place for all transports: below it are bytes and HTTP
//! requests, above it sessions.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_sink::Sink;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;

use super::{Frame, Link, Outgoing, OutgoingRequest, Outward, PostError, Reply, RequestTransport};
use crate::jsonrpc::RpcError;
use crate::observer::{Tap, WireContent};

impl Link {
    /// Passes all messages to an observer.
    pub(crate) fn observed(self, tap: Tap) -> Self {
        let received = tap.clone();
        let incoming = self.incoming.inspect(move |frame| on_frame(&received, frame));
        let outward = match self.outward {
            Outward::Pipe { sink, written } => {
                Outward::Pipe { sink: Box::pin(ObservedSink { sink, tap: tap.clone() }), written }
            }
            Outward::Requests(transport) => Outward::Requests(Arc::new(ObservedRequests { transport, tap })),
        };
        Self { incoming: Box::pin(incoming), outward, peer: self.peer }
    }
}

fn on_frame(tap: &Tap, frame: &io::Result<Frame>) {
    match frame {
        Ok(Frame::Message(text) | Frame::AnswerTo(_, text)) => tap.observe(WireContent::Received(text)),
        // An overlong line is reported at its limit and again at its end.
        Ok(Frame::Unreadable { ended: false, .. }) => {}
        Ok(Frame::Unreadable { head, reason, .. }) => tap.observe(WireContent::Unreadable { head, reason }),
        Err(error) => tap.observe(WireContent::Failed(&error.to_string())),
    }
}

struct ObservedSink {
    sink: Outgoing,
    tap: Tap,
}

impl Sink<Bytes> for ObservedSink {
    type Error = io::Error;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sink.as_mut().poll_ready(cx)
    }

    fn start_send(mut self: Pin<&mut Self>, message: Bytes) -> io::Result<()> {
        self.tap.observe(WireContent::Sent(&message));
        self.sink.as_mut().start_send(message)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sink.as_mut().poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sink.as_mut().poll_close(cx)
    }
}

struct ObservedRequests {
    transport: Arc<dyn RequestTransport>,
    tap: Tap,
}

impl ObservedRequests {
    fn on_reply(&self, id: u64, reply: &Result<Reply, PostError>) {
        match reply {
            Ok(Reply::Answer { text: Some(text), .. }) => self.tap.observe(WireContent::Received(text)),
            Ok(Reply::Answer { answer: Err(error), text: None, .. }) => {
                self.tap.observe(WireContent::Received(&rpc_error_text(id, error)));
            }
            // Arrives among the frames, or not at all.
            Ok(Reply::Answer { .. } | Reply::Elsewhere) => {}
            Ok(Reply::Accepted(status)) => {
                self.tap.observe(WireContent::Failed(&format!("HTTP {status} without an answer")));
            }
            Err(error) => self.tap.observe(WireContent::Failed(&failure(error))),
        }
    }
}

impl RequestTransport for ObservedRequests {
    fn request(&self, request: OutgoingRequest) -> BoxFuture<'_, Result<Reply, PostError>> {
        self.tap.observe(WireContent::Sent(&request.message));
        let id = request.id;
        Box::pin(async move {
            let reply = self.transport.request(request).await;
            self.on_reply(id, &reply);
            reply
        })
    }

    fn notify<'a>(&'a self, method: Option<&'a str>, message: Bytes) -> BoxFuture<'a, Result<(), PostError>> {
        self.tap.observe(WireContent::Sent(&message));
        Box::pin(async move {
            let sent = self.transport.notify(method, message).await;
            if let Err(error) = &sent {
                self.tap.observe(WireContent::Failed(&failure(error)));
            }
            sent
        })
    }

    fn set_revision(&self, revision: &str) {
        self.transport.set_revision(revision);
    }

    fn resume(&self, session: &str, revision: &str) -> bool {
        self.transport.resume(session, revision)
    }

    fn set_stateless(&self, revision: Option<&str>) {
        self.transport.set_stateless(revision);
    }

    fn start_listening(&self) {
        self.transport.start_listening();
    }

    fn sweep(&self) {
        self.transport.sweep();
    }

    fn supports_rehandshake(&self) -> bool {
        self.transport.supports_rehandshake()
    }

    fn has_session(&self) -> bool {
        self.transport.has_session()
    }
}

/// Returns a JSON-RPC error whose text was the body of an HTTP error.
fn rpc_error_text(id: u64, RpcError { code, message, data }: &RpcError) -> String {
    let data = data.as_ref().and_then(|data| data.to_value().ok());
    serde_json::json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message, "data": data } })
        .to_string()
}

fn failure(error: &PostError) -> String {
    match error {
        PostError::NotSent(reason) | PostError::Unusable(reason) | PostError::Untrusted(reason) => reason.clone(),
        PostError::SessionLost { code, message } => format!("session lost: error {code}: {message}"),
        PostError::Auth(required) => required.to_string(),
        PostError::Status(status) => status.to_string(),
        PostError::Lost(reason) => format!("the server {reason}"),
        PostError::Malformed(reason) => format!("invalid answer: {reason}"),
    }
}
