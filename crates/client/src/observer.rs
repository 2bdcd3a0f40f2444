//! Observing the messages of a session, as they are on the wire.

use std::fmt;
use std::sync::Arc;

use wharf_protocol::ServerName;

/// Receives every message between a session and its server, over any transport, in the order of the wire.
///
/// A session without an observer does no work for it. The observer is called by the tasks that send and receive, so it
/// must return quickly and must not block.
pub trait WireObserver: fmt::Debug + Send + Sync + 'static {
    /// Called with each message.
    fn observe(&self, event: &WireEvent<'_>);
}

/// A message on the wire, or what arrived in its place.
#[derive(Clone, Copy, Debug)]
pub struct WireEvent<'a> {
    /// The server's configured name.
    pub server: &'a ServerName,
    /// The number of the connection. While the protocol is negotiated, two connections may be open.
    pub connection: u64,
    /// What was sent or received.
    pub content: WireContent<'a>,
}

/// What was sent or received.
#[derive(Clone, Copy, Debug)]
pub enum WireContent<'a> {
    /// A message to the server, as JSON text.
    Sent(&'a [u8]),
    /// A frame from the server. Usually one message as JSON text, but servers also print other text.
    Received(&'a str),
    /// Input that cannot be parsed.
    Unreadable {
        /// The first bytes.
        head: &'a [u8],
        /// Why it cannot be parsed.
        reason: &'a str,
    },
    /// A request or notification that failed instead of being answered, for this reason.
    Failed(&'a str),
}

/// The observer of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Tap {
    pub(crate) observer: Arc<dyn WireObserver>,
    pub(crate) server: ServerName,
    pub(crate) connection: u64,
}

impl Tap {
    pub(crate) fn observe(&self, content: WireContent<'_>) {
        self.observer.observe(&WireEvent { server: &self.server, connection: self.connection, content });
    }
}
