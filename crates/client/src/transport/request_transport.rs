//! Transports that send each message as its own request, as HTTP does. The answer returns with the request, and the
//! caller that waits for it drives the request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use wharf_auth::AuthRequired;
use wharf_protocol::Json;

use super::progress::ProgressBuffer;
use crate::error::HttpStatus;
use crate::jsonrpc::RpcError;

/// Sends each message as its own request.
pub(crate) trait RequestTransport: Send + Sync + 'static {
    /// Sends a request and waits for its reply. Dropping the future abandons the request.
    fn request(&self, request: OutgoingRequest) -> BoxFuture<'_, Result<Reply, PostError>>;

    /// Sends a notification with its method, or an answer to a request of the server, which has none.
    fn notify<'a>(&'a self, method: Option<&'a str>, message: Bytes) -> BoxFuture<'a, Result<(), PostError>>;

    /// Sets the protocol revision of the session, after the handshake.
    fn set_revision(&self, revision: &str);

    /// Resumes a session on the server. Returns `false` if that is not possible.
    fn resume(&self, session: &str, revision: &str) -> bool;

    /// Makes all further requests self-contained, in this revision. `None` reverts that.
    fn set_stateless(&self, revision: Option<&str>);

    /// Opens the notification stream, after the handshake.
    fn start_listening(&self);

    /// Closes unused connections. Called periodically.
    fn sweep(&self);

    /// Returns whether a handshake on this connection starts a new session.
    fn supports_rehandshake(&self) -> bool;

    /// Returns whether the server has a session that it could lose.
    fn has_session(&self) -> bool;
}

/// A request to send.
pub(crate) struct OutgoingRequest {
    pub(crate) id: u64,
    pub(crate) method: &'static str,
    pub(crate) message: Bytes,
    /// Whether it starts a session instead of belonging to one.
    pub(crate) is_initialize: bool,
    /// Extra headers for this request.
    pub(crate) headers: Option<Arc<HeaderMap>>,
    pub(crate) activity: Arc<RequestActivity>,
}

/// What was received for a request in flight.
#[derive(Debug, Default)]
pub(crate) struct RequestActivity {
    /// When the request was sent or last made progress, in milliseconds of the connection's running time.
    pub(crate) last_at: AtomicU64,
    /// Whether the answer has started to arrive.
    pub(crate) answer_started: AtomicBool,
    /// Whether the server has reported progress.
    pub(crate) progressed: AtomicBool,
    /// The reports, for a caller that receives them.
    pub(crate) progress: ProgressBuffer,
}

impl RequestActivity {
    pub(crate) fn starting_at(running_time: u64) -> Self {
        Self { last_at: AtomicU64::new(running_time), ..Self::default() }
    }

    pub(crate) fn mark_answer_started(&self) {
        self.answer_started.store(true, Ordering::Relaxed);
    }
}

/// The reply to a request.
#[derive(Debug)]
pub(crate) enum Reply {
    Answer {
        answer: Result<Json, RpcError>,
        /// Whether it has the id of the request.
        well_addressed: bool,
        /// The text that contained it; `None` if it was the body of an HTTP error.
        text: Option<Arc<String>>,
    },
    /// The answer arrives among the connection's other messages, in order.
    Elsewhere,
    /// The request was accepted with this status, without an answer.
    Accepted(u16),
}

/// Why a request has no reply.
#[derive(Debug)]
pub(crate) enum PostError {
    /// The request was not sent.
    NotSent(String),
    /// The request was not sent, and never can be with this configuration.
    Unusable(String),
    /// The request was not sent: the server's TLS certificate is not trusted.
    Untrusted(String),
    /// The server does not know the session any more.
    SessionLost {
        code: i64,
        message: String,
    },
    Auth(AuthRequired),
    Status(HttpStatus),
    /// The connection ended after the request was sent. The reason is a predicate of "the server".
    Lost(String),
    /// The reply is not an answer.
    Malformed(String),
}
