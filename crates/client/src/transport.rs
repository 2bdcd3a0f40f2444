//! How a server is reached: one trait, a pair of streams of messages.
//!
//! Pipes, an in-process duplex and whatever a host brings look the same from here on: messages come in, messages go
//! out, and a [`Keeper`] knows how the far end is doing.

mod bytes;
mod in_process;
mod stdio;

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

pub use in_process::InProcess;
pub use stdio::Stdio;

/// The longest message that is accepted, in bytes. What is longer fails the call it answers.
pub const LONGEST_MESSAGE: usize = 32 * 1024 * 1024;

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
    /// Anything else, in words.
    #[error("{0}")]
    Other(String),
}

/// An open connection.
pub struct Link {
    pub(crate) incoming: Incoming,
    pub(crate) outgoing: Outgoing,
    pub(crate) keeper: Arc<dyn Keeper>,
    /// How many bytes have left, where that is known: a large message on a slow pipe is not a pipe that is stuck.
    pub(crate) written: Arc<AtomicU64>,
}

/// What came from the server.
#[derive(Debug)]
pub enum Frame {
    /// One message, or several in a batch.
    Message(String),
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
pub trait Keeper: Send + Sync + 'static {
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
    fn last_words(&self) -> LastWords {
        LastWords::default()
    }

    /// The id under which a remote server keeps our session, where there is such a thing.
    fn session_id(&self) -> Option<String> {
        None
    }
}

/// What is known of a far end that has ended, or is about to.
#[derive(Clone, Debug, Default)]
pub struct LastWords {
    /// How its process ended.
    pub exit: Option<Exit>,
    /// The last lines of its stderr.
    pub stderr: Vec<String>,
}

struct NoKeeper;

impl Keeper for NoKeeper {}

impl Link {
    /// A connection over bytes: one message a line, in both directions.
    pub fn from_bytes(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let written = Arc::new(AtomicU64::new(0));
        Self {
            incoming: Box::pin(bytes::Lines::new(reader, LONGEST_MESSAGE)),
            outgoing: Box::pin(bytes::LineSink::new(writer, Arc::clone(&written))),
            keeper: Arc::new(NoKeeper),
            written,
        }
    }

    /// A connection whose transport already carries whole messages.
    pub fn from_messages(
        incoming: impl Stream<Item = io::Result<String>> + Send + 'static,
        outgoing: impl Sink<Bytes, Error = io::Error> + Send + 'static,
    ) -> Self {
        Self {
            incoming: Box::pin(incoming.map(|message| message.map(Frame::Message))),
            outgoing: Box::pin(outgoing),
            keeper: Arc::new(NoKeeper),
            written: Arc::default(),
        }
    }

    /// The same connection, looked after.
    #[must_use]
    pub fn kept_by(mut self, keeper: impl Keeper) -> Self {
        self.keeper = Arc::new(keeper);
        self
    }
}
