//! A server in this process, over a duplex in memory: no socket, no child.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::DuplexStream;
use tokio::task::JoinSet;

use super::{Link, OpenError, PeerHandle, Transport};

/// How much each direction of the duplex holds.
const CAPACITY: usize = 256 * 1024;

/// How long a server may take to see that its client is gone.
const FAREWELL: Duration = Duration::from_secs(1);

/// Serves each connection with a future made from the far end of a duplex.
pub struct InProcess<F>(F);

impl<F, S> InProcess<F>
where
    F: Fn(DuplexStream) -> S + Send + Sync + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    /// `serve` is called at the first use and again after every end; its future ends with the connection.
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
            let (ours, theirs) = tokio::io::duplex(CAPACITY);
            let mut tasks = JoinSet::new();
            tasks.spawn((self.0)(theirs));
            let (reader, writer) = tokio::io::split(ours);
            Ok(Link::from_bytes(reader, writer).kept_by(Task(Mutex::new(tasks))))
        })
    }
}

/// Owns the serving task: dropping it ends the server.
struct Task(Mutex<JoinSet<()>>);

impl PeerHandle for Task {
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let mut tasks = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
            // The server sees the end of its stream and may leave by itself.
            let _ = tokio::time::timeout(FAREWELL, tasks.join_next()).await;
            tasks.shutdown().await;
        })
    }

    fn abandon(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}
