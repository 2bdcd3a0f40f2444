//! One HTTP connection, and what all connections share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use hyper::rt::Executor;
use rmcp::transport::common::server_side_http::SessionId;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::backend::Backend;
use super::guard::Guard;
use super::options::ListenOptions;
use super::reply::Reply;
use super::session_limit::SessionLimit;

/// State shared by all connections of a router.
pub(crate) struct Shared {
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) options: ListenOptions,
    pub(crate) sse_sessions: SseSessions,
    pub(crate) guard: Guard,
    session_limit: SessionLimit,
    /// Cancelled, and replaced, when the sessions are forgotten.
    forgotten: Mutex<CancellationToken>,
}

impl Shared {
    pub(crate) fn new(backend: Box<dyn Backend>, options: ListenOptions) -> Self {
        let guard = Guard::new(options.allowed_hosts.as_deref());
        let session_limit = SessionLimit::new(options.max_sessions);
        let sse_sessions = SseSessions::default();
        Self { backend, sse_sessions, guard, session_limit, forgotten: Mutex::default(), options }
    }

    /// Reserves a session. Fails with the response for a client that has to wait.
    pub(crate) async fn reserve_session(&self) -> Result<OwnedSemaphorePermit, Box<Reply>> {
        self.session_limit.reserve(self.backend.session_count().await)
    }

    /// Returns a token that is cancelled when the current sessions are forgotten.
    pub(crate) fn until_forgotten(&self) -> CancellationToken {
        self.forgotten.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) async fn forget_sessions(&self) {
        let forgotten = std::mem::take(&mut *self.forgotten.lock().unwrap_or_else(PoisonError::into_inner));
        forgotten.cancel();
        self.sse_sessions.with(HashMap::clear);
        self.backend.forget().await;
    }
}

/// The inboxes of the handlers behind open HTTP+SSE streams.
#[derive(Clone, Default)]
pub(crate) struct SseSessions {
    inboxes: Arc<Mutex<HashMap<SessionId, mpsc::Sender<Bytes>>>>,
}

impl SseSessions {
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut HashMap<SessionId, mpsc::Sender<Bytes>>) -> T) -> T {
        change(&mut self.inboxes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One connection and its tasks, which end with it.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) shared: Arc<Shared>,
    pub(crate) tasks: TaskTracker,
    /// Cancelled when the connection must end.
    pub(crate) over: CancellationToken,
}

impl Connection {
    /// Starts a task. It must end when the connection is over, which waits for it.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }
}

/// Runs the tasks of HTTP/2 streams.
impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Connection {
    fn execute(&self, stream: F) {
        let over = self.over.clone();
        self.spawn(async move {
            let _ = over.run_until_cancelled(stream).await;
        });
    }
}
