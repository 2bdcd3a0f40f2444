//! A server in this process, connected by an in-memory duplex.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::DuplexStream;
use tokio::task::JoinSet;

use super::{Link, OpenError, PeerHandle, Transport};

/// The buffer size of each direction, in bytes.
const DUPLEX_CAPACITY: usize = 256 * 1024;

/// Time for the server to end after its client disconnected.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Connects to a server in this process.
///
/// Each connection is an in-memory duplex, whose far end is served by a future.
pub struct InProcess<F>(F);

impl<F, S> InProcess<F>
where
    F: Fn(DuplexStream) -> S + Send + Sync + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    /// Creates a transport that calls `serve` for each connection. The future must end when its stream is closed.
    pub fn new(serve: F) -> Self {
        Self(serve)
    }
}

impl<F, S> Transport for InProcess<F>
where
    F: Fn(DuplexStream) -> S + Send + Sync + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    fn open(&self) -> BoxFuture<'_, Result<Link, OpenError>> {
        Box::pin(async {
            let (ours, theirs) = tokio::io::duplex(DUPLEX_CAPACITY);
            let mut tasks = JoinSet::new();
            tasks.spawn((self.0)(theirs));
            let (reader, writer) = tokio::io::split(ours);
            Ok(Link::from_bytes(reader, writer).with_peer(ServerTask(Mutex::new(tasks))))
        })
    }
}

/// Owns the server's task; dropping it aborts the task.
struct ServerTask(Mutex<JoinSet<()>>);

impl PeerHandle for ServerTask {
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let mut tasks = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
            // The server's stream is closed, so that it can end on its own.
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, tasks.join_next()).await;
            tasks.shutdown().await;
        })
    }

    fn abandon(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}
