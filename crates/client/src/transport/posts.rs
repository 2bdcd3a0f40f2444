//! What a transport is that sends every message by itself, as HTTP does: a request goes out with its answer coming back
//! the same way, and the caller who waits for it does the waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use wharf_protocol::Json;

use crate::wire::{RpcError, Steps};
use crate::{AuthRequired, HttpStatus};

/// Sends messages, each by itself.
pub(crate) trait Posts: Send + Sync + 'static {
    /// Sends a request and waits for what becomes of it. Dropping the future gives it up.
    fn request(&self, posted: Posted) -> BoxFuture<'_, Result<Reply, PostError>>;

    /// Sends a notification of this method, or an answer to something the server asked.
    fn tell<'a>(&'a self, method: Option<&'a str>, message: Bytes) -> BoxFuture<'a, Result<(), PostError>>;

    /// The server has answered the handshake and speaks this revision.
    fn greeted(&self, revision: &str);

    /// Goes on with a session that the server keeps for us, in this revision; `false` if that cannot be.
    fn resume(&self, session: &str, revision: &str) -> bool;

    /// From now on every request stands for itself, in this revision; with `None`, no longer.
    fn stand_alone(&self, revision: Option<&str>);

    /// The handshake is over: the server may tell us things from now on.
    fn listen(&self);

    /// Looks after what nobody uses; called now and then.
    fn tidy(&self);

    /// Whether a lost session is begun anew with nothing but a handshake.
    fn renews(&self) -> bool;

    /// Whether there is a session that the server could lose.
    fn has_session(&self) -> bool;
}

/// A request that is to be sent.
pub(crate) struct Posted {
    pub(crate) id: u64,
    pub(crate) method: &'static str,
    pub(crate) message: Bytes,
    /// Whether it begins a session instead of belonging to one.
    pub(crate) handshake: bool,
    /// Headers of this request alone.
    pub(crate) headers: Option<Arc<HeaderMap>>,
    pub(crate) heard: Arc<Heard>,
}

/// What has been heard of a request under way.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// When anything was last heard of its progress, in milliseconds by the clock that stands still while the host is
    /// asked.
    pub(crate) at: AtomicU64,
    /// Whether its answer has begun.
    pub(crate) begun: AtomicBool,
    /// Whether the server has reported progress.
    pub(crate) progressed: AtomicBool,
    /// What it reported, for the caller who follows it.
    pub(crate) steps: Steps,
}

impl Heard {
    pub(crate) fn begin(&self) {
        self.begun.store(true, Ordering::Relaxed);
    }
}

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Its answer.
    Answer {
        answer: Result<Json, RpcError>,
        /// Whether it bore the id of the request.
        well_addressed: bool,
    },
    /// Its answer comes among the connection's other messages, in their order.
    Elsewhere,
    /// It was accepted with this status, and nothing more was said.
    Accepted(u16),
}

/// Why there is no reply.
#[derive(Debug)]
pub(crate) enum PostError {
    /// Nothing was sent.
    NotSent(String),
    /// Nothing was sent, and nothing ever will be: the way to the server cannot be used as it is configured.
    Unusable(String),
    /// Nothing was sent: the server's TLS certificate is not trusted.
    Untrusted(String),
    /// The server does not know our session any more.
    SessionLost {
        code: i64,
        message: String,
    },
    Auth(AuthRequired),
    Status(HttpStatus),
    /// The connection broke after the request had been sent. What the server did, to follow the words "the server".
    Lost(String),
    /// What came is no answer.
    Malformed(String),
}
