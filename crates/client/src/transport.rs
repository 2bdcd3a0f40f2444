//! Transports: the [`Transport`] trait and its implementations.
//!
//! An open connection is a [`Link`]: a stream of incoming messages, a sink for outgoing ones, and a [`PeerHandle`] for
//! the far end. Pipes, web sockets, in-process duplexes and custom transports all look like this. HTTP differs: it sends
//! each message as its own request ([`RequestTransport`]) and returns the answer with it.

mod bytes;
mod http;
mod in_process;
mod observed;
mod progress;
mod request_transport;
mod stdio;
#[cfg(feature = "websocket")]
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
use wharf_auth::AuthRequired;
use wharf_io::{Exit, SpawnError};

use crate::error::HttpStatus;

pub(crate) use http::ReconnectBackoff;
pub use http::{HeaderCommand, Http, HttpSse, RemoteOptions, session_loss};
pub use in_process::InProcess;
pub(crate) use request_transport::{OutgoingRequest, PostError, Reply, RequestActivity, RequestTransport};
pub use stdio::Stdio;
#[cfg(feature = "websocket")]
pub use websocket::WebSocket;

/// The maximum size of a message in bytes. A larger answer fails its call.
pub const MAX_MESSAGE_BYTES: usize = 32 * 1024 * 1024;

/// The messages from a server.
pub type Incoming = Pin<Box<dyn Stream<Item = io::Result<Frame>> + Send>>;
/// The messages to a server. Each item is one JSON text without a line feed.
pub type Outgoing = Pin<Box<dyn Sink<Bytes, Error = io::Error> + Send>>;

/// Opens connections to one server.
///
/// A [`Session`](crate::Session) opens its transport on first use, and again whenever the connection has ended.
///
/// Closures that return a future of a [`Link`] implement this trait.
///
/// # Examples
///
/// ```
/// use wharf_client::{Link, NoHost, Session, SessionOptions};
///
/// # async fn serve_my_protocol(_stream: tokio::io::DuplexStream) {}
/// let transport = || async {
///     let (ours, theirs) = tokio::io::duplex(64 * 1024);
///     // Pass `theirs` to the MCP server: a socket, a serial port, a test.
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

    /// Returns whether the server is reached over a network.
    ///
    /// Sessions with remote servers have a shorter idle deadline, and retry a failed connection attempt.
    fn is_remote(&self) -> bool {
        false
    }

    /// Returns a string that identifies the server and its configuration, or `None` if nothing does.
    ///
    /// It is the key of the [`EraCache`](crate::EraCache) and the [`ResultCache`](crate::ResultCache). Both store only a
    /// digest, so it may contain secrets.
    fn identity(&self) -> Option<String> {
        None
    }

    /// Returns a string that identifies the user to the server. Private results are cached per audience.
    ///
    /// It may contain secrets and is never written to disk.
    fn audience(&self) -> Option<String> {
        None
    }

    /// Releases what the connections of a closed session shared, such as an HTTP client. The next
    /// [`open`](Self::open) starts without it. Open connections are not affected.
    fn release(&self) {}

    /// Returns the older transport of the same server, to try when the server refuses this one.
    fn fallback(&self) -> Option<Arc<dyn Transport>> {
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
    /// The process could not be started.
    #[error(transparent)]
    Spawn(#[from] Arc<SpawnError>),
    /// The server requires authorization.
    #[error(transparent)]
    Auth(#[from] AuthRequired),
    /// The server answered with an HTTP error status.
    #[error(transparent)]
    Http(#[from] HttpStatus),
    /// The configuration is unusable. Retrying cannot succeed.
    #[error("{0}")]
    Unusable(String),
    /// The server's TLS certificate is not trusted; retrying does not help.
    #[error("{0}")]
    Untrusted(String),
    /// Any other failure.
    #[error("{0}")]
    Other(String),
}

/// An open connection.
pub struct Link {
    pub(crate) incoming: Incoming,
    pub(crate) outward: Outward,
    pub(crate) peer: Arc<dyn PeerHandle>,
}

/// How messages are sent.
pub(crate) enum Outward {
    /// As one stream.
    Pipe {
        sink: Outgoing,
        /// The number of bytes written, if the transport counts them. It tells a slow pipe from a stuck one.
        written: Arc<AtomicU64>,
    },
    /// Each as its own request.
    Requests(Arc<dyn RequestTransport>),
}

/// A unit of input from a server.
#[derive(Debug)]
pub enum Frame {
    /// One message, or a batch of messages.
    Message(String),
    /// The answer to the request with this id, whatever id the message itself has.
    AnswerTo(u64, String),
    /// Input that cannot be parsed, with enough of it to find the call that it answers.
    Unreadable {
        /// The first bytes.
        head: Vec<u8>,
        /// The last bytes.
        tail: Vec<u8>,
        /// Why it cannot be parsed.
        reason: String,
        /// Whether the input is complete. If not, another frame follows at its end.
        ended: bool,
    },
}

/// Controls the far end of a connection.
pub trait PeerHandle: Send + Sync + 'static {
    /// Returns a future that completes when the far end has terminated, or `None` if only its streams show that.
    fn ended(&self) -> Option<BoxFuture<'_, ()>> {
        None
    }

    /// Terminates the far end gracefully, within a bounded time. The client has closed its side of the streams before.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Reports that the far end waits for an answer that it will not get, so that [`close`](Self::close) need not wait for
    /// it to terminate by itself.
    fn hurry(&self) {}

    /// Terminates the far end immediately.
    fn abandon(&self) {}

    /// Returns what is known about the far end's termination.
    fn exit_info(&self) -> ExitInfo {
        ExitInfo::default()
    }

    /// Returns the session id that a remote server assigned, if it did.
    fn session_id(&self) -> Option<String> {
        None
    }
}

/// What is known about a far end that has terminated, or is about to.
#[derive(Clone, Debug, Default)]
pub struct ExitInfo {
    /// The exit status of its process.
    pub exit: Option<Exit>,
    /// The last lines of its stderr.
    pub stderr: Vec<String>,
    /// Any other reason, as a predicate of "the server", for example "closed the connection".
    pub reason: Option<String>,
    /// The names of the host's variables that its process did not get and may have needed.
    pub missing_variables: Vec<String>,
}

struct NoPeer;

impl PeerHandle for NoPeer {}

impl Link {
    /// Creates a connection over byte streams with one message per line.
    pub fn from_bytes(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let written = Arc::new(AtomicU64::new(0));
        Self {
            incoming: Box::pin(bytes::Lines::new(reader, MAX_MESSAGE_BYTES)),
            outward: Outward::Pipe { sink: Box::pin(bytes::LineSink::new(writer, Arc::clone(&written))), written },
            peer: Arc::new(NoPeer),
        }
    }

    /// Creates a connection over streams of whole messages.
    pub fn from_messages(
        incoming: impl Stream<Item = io::Result<String>> + Send + 'static,
        outgoing: impl Sink<Bytes, Error = io::Error> + Send + 'static,
    ) -> Self {
        Self {
            incoming: Box::pin(incoming.map(|message| message.map(Frame::Message))),
            outward: Outward::Pipe { sink: Box::pin(outgoing), written: Arc::default() },
            peer: Arc::new(NoPeer),
        }
    }

    /// Sets the handle that controls the far end.
    #[must_use]
    pub fn with_peer(mut self, peer: impl PeerHandle) -> Self {
        self.peer = Arc::new(peer);
        self
    }
}
