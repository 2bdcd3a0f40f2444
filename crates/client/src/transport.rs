//! How a server is reached: one trait, a pair of streams of messages.
//!
//! Pipes, web sockets, an in-process duplex and whatever a host brings look the same from here on: messages come in,
//! messages go out, and a [`PeerHandle`] knows how the far end is doing. HTTP sends every message by itself ([`Posts`]) and
//! brings answers back with it.

mod bytes;
mod http;
mod in_process;
mod posts;
mod stdio;
mod websocket;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ::bytes::Bytes;
use futures_core::Stream;
use futures_sink::Sink;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use wharf_io::{Exit, SpawnError};

use crate::{AuthRequired, HttpStatus};

pub(crate) use http::{Governor, parse_headers};
pub use http::{HeaderCommand, Http, HttpSse, InvalidRemote, RemoteOptions, is_reserved_header, session_loss};
pub use in_process::InProcess;
pub(crate) use posts::{Heard, PostError, Posted, Posts, Reply};
pub use stdio::Stdio;
pub use websocket::WebSocket;

/// The longest message that is accepted, in bytes. What is longer fails the call it answers.
pub const MAX_MESSAGE_BYTES: usize = 32 * 1024 * 1024;

/// Messages from the server.
pub type Incoming = Pin<Box<dyn Stream<Item = io::Result<Frame>> + Send>>;
/// Messages to the server: one JSON text each, without a line feed.
pub type Outgoing = Pin<Box<dyn Sink<Bytes, Error = io::Error> + Send>>;

/// A way to reach one server. It is opened at the first use and again after every end.
///
/// A closure that returns a future of a [`Link`] is a transport, so a custom one can be as small as this:
///
/// ```
/// use wharf_client::{Link, NoHost, Session, SessionOptions};
///
/// # async fn serve_my_protocol(_stream: tokio::io::DuplexStream) {}
/// let transport = || async {
///     let (ours, theirs) = tokio::io::duplex(64 * 1024);
///     // Hand `theirs` to whatever speaks MCP on the other side: a socket, a serial line, a test.
///     # let _ = theirs;
///     let (reader, writer) = tokio::io::split(ours);
///     Ok(Link::from_bytes(reader, writer))
/// };
/// let session = Session::new("custom".parse()?, transport, NoHost, SessionOptions::default());
/// # Ok::<(), wharf_protocol::InvalidName>(())
/// ```
pub trait Transport: Send + Sync + 'static {
    /// Opens a new connection.
    fn open(&self) -> BoxFuture<'_, Result<Link, OpenError>>;

    /// Whether the server is behind a network: then silence is borne for less long, and a connection that does not
    /// come about is tried again by itself.
    fn is_remote(&self) -> bool {
        false
    }

    /// What tells this server from others for as long as it is configured the same; `None` if nothing does. What a server
    /// speaks is remembered under it, as a digest: it may hold secrets.
    fn identity(&self) -> Option<String> {
        None
    }

    /// Who we are to the server: what it keeps private is shown to no other. May hold secrets, and is written nowhere.
    fn audience(&self) -> Option<String> {
        None
    }

    /// The same server over the transport that came before this one, for servers that know only that.
    fn older(&self) -> Option<Arc<dyn Transport>> {
        None
    }
}

impl<F, O> Transport for F
where
    F: Fn() -> O + Send + Sync + 'static,
    O: Future<Output = Result<Link, OpenError>> + Send + 'static,
{
    fn open(&self) -> BoxFuture<'_, Result<Link, OpenError>> {
        Box::pin(self())
    }
}

/// Why a transport could not be opened.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// A process could not be started.
    #[error(transparent)]
    Spawn(#[from] Arc<SpawnError>),
    /// The server wants to know who we are.
    #[error(transparent)]
    Auth(#[from] AuthRequired),
    /// The server answered with an HTTP status that is no success.
    #[error(transparent)]
    Http(#[from] HttpStatus),
    /// The way to the server cannot be used as it is configured; trying again changes nothing.
    #[error("{0}")]
    Unusable(String),
    /// The server's TLS certificate is not trusted; trying again changes nothing.
    #[error("{0}")]
    Untrusted(String),
    /// Anything else, in words.
    #[error("{0}")]
    Other(String),
}

/// An open connection.
pub struct Link {
    pub(crate) incoming: Incoming,
    pub(crate) outward: Outward,
    pub(crate) keeper: Arc<dyn PeerHandle>,
}

/// How messages leave.
pub(crate) enum Outward {
    /// One after the other.
    Pipe {
        sink: Outgoing,
        /// How many bytes have left, where that is known: a large message on a slow pipe is not a pipe that is stuck.
        written: Arc<AtomicU64>,
    },
    /// Each by itself.
    Posts(Arc<dyn Posts>),
}

/// What came from the server.
#[derive(Debug)]
pub enum Frame {
    /// One message, or several in a batch.
    Message(String),
    /// The answer to the request with this id, whatever id it bears itself.
    AnswerTo(u64, String),
    /// Something that cannot be handed over whole, with as much of it as helps to find the call it answers.
    Unreadable {
        /// How it begins.
        head: Vec<u8>,
        /// How it ends.
        tail: Vec<u8>,
        /// What is wrong with it.
        reason: String,
        /// Whether all of it has come; if not, it is reported once more when it has.
        ended: bool,
    },
}

/// Looks after the far end of a connection.
pub trait PeerHandle: Send + Sync + 'static {
    /// Completes when the far end is known to have ended, whatever its streams say; `None` if only they can say so.
    fn ended(&self) -> Option<BoxFuture<'_, ()>> {
        None
    }

    /// Ends the far end in good order; our side of the streams has been closed. Must not take for ever.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Ends the far end at once.
    fn abandon(&self) {}

    /// What the far end has to say about its end.
    fn last_words(&self) -> ExitInfo {
        ExitInfo::default()
    }

    /// The id under which a remote server keeps our session, where there is such a thing.
    fn session_id(&self) -> Option<String> {
        None
    }
}

/// What is known of a far end that has ended, or is about to.
#[derive(Clone, Debug, Default)]
pub struct ExitInfo {
    /// How its process ended.
    pub exit: Option<Exit>,
    /// The last lines of its stderr.
    pub stderr: Vec<String>,
    /// What else it did, to follow the words "the server".
    pub reason: Option<String>,
}

struct NoKeeper;

impl PeerHandle for NoKeeper {}

impl Link {
    /// A connection over bytes: one message a line, in both directions.
    pub fn from_bytes(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let written = Arc::new(AtomicU64::new(0));
        Self {
            incoming: Box::pin(bytes::Lines::new(reader, MAX_MESSAGE_BYTES)),
            outward: Outward::Pipe { sink: Box::pin(bytes::LineSink::new(writer, Arc::clone(&written))), written },
            keeper: Arc::new(NoKeeper),
        }
    }

    /// A connection whose transport already carries whole messages.
    pub fn from_messages(
        incoming: impl Stream<Item = io::Result<String>> + Send + 'static,
        outgoing: impl Sink<Bytes, Error = io::Error> + Send + 'static,
    ) -> Self {
        Self {
            incoming: Box::pin(incoming.map(|message| message.map(Frame::Message))),
            outward: Outward::Pipe { sink: Box::pin(outgoing), written: Arc::default() },
            keeper: Arc::new(NoKeeper),
        }
    }

    /// The same connection, looked after.
    #[must_use]
    pub fn kept_by(mut self, keeper: impl PeerHandle) -> Self {
        self.keeper = Arc::new(keeper);
        self
    }
}
