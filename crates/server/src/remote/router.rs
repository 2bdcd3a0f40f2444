//! Which request goes where, and the life of a connection.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rmcp::ServerHandler;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::ListenOptions;
use super::backend::{Backend, Handlers};
use super::guard::Guard;
use super::reply::{self, Reply};
use super::watched::Watched;
use super::{sse, streamable, websocket};

/// How long an HTTP/1.1 connection may be idle, and how long the head of a request may take.
const IDLE_LIMIT: Duration = Duration::from_secs(75);

/// How long an HTTP/2 client may leave a ping unanswered.
const PING_LIMIT: Duration = Duration::from_secs(20);

/// How long the tasks of a connection that was told to end may take for it.
const END_LIMIT: Duration = Duration::from_secs(6);

/// Serves one kind of handler over HTTP: Streamable HTTP at `/mcp`, HTTP+SSE at `/sse` and `/messages`, WebSocket at
/// `/ws`. Cloning shares its sessions.
#[derive(Clone)]
pub struct Router {
    shared: Arc<Shared>,
}

/// What every connection needs.
pub(crate) struct Shared {
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) options: ListenOptions,
    pub(crate) sse: sse::Sessions,
    guard: Guard,
    /// Cancelled, and replaced, when the sessions are forgotten.
    forgotten: Mutex<CancellationToken>,
}

impl Shared {
    /// Cancelled when the sessions of now are forgotten.
    pub(crate) fn until_forgotten(&self) -> CancellationToken {
        self.forgotten.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Router {
    /// A router that makes handlers with `make`: one per session, and for Streamable HTTP also one per request, either to
    /// look at its tools or, since 2026-07-28 knows no sessions, to answer it. Making one should be cheap, and what has to
    /// outlive a request belongs into something they share.
    pub fn new<H: ServerHandler>(make: impl Fn() -> H + Send + Sync + 'static, options: ListenOptions) -> Self {
        let shared = Shared {
            backend: Box::new(Handlers::new(make, &options)),
            sse: sse::Sessions::default(),
            guard: Guard::new(options.allowed_hosts.as_deref()),
            forgotten: Mutex::default(),
            options,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Serves one connection, over HTTP/1.1 or HTTP/2, until its end. Dropping the future ends it at once.
    pub async fn serve_connection(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        self.serve_connection_until(stream, &CancellationToken::new()).await;
    }

    /// Serves one connection until its end or `closing`.
    pub(crate) async fn serve_connection_until(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        closing: &CancellationToken,
    ) {
        let over = closing.child_token();
        let _tasks_end_with_this_future = over.clone().drop_guard();
        let connection = Connection { router: self.clone(), tasks: TaskTracker::new(), over: over.clone() };

        let mut http = auto::Builder::new(connection.clone());
        http.http1().timer(TokioTimer::new()).header_read_timeout(IDLE_LIMIT);
        http.http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(self.shared.options.keep_alive)
            .keep_alive_timeout(PING_LIMIT);
        let answering = connection.clone();
        let service = service_fn(move |request| {
            let connection = answering.clone();
            async move { Ok::<_, Infallible>(connection.answer(request).await) }
        });
        let serving = http.serve_connection_with_upgrades(TokioIo::new(Watched::new(stream)), service);
        // How a connection ends is the client's affair.
        let _ = over.run_until_cancelled(serving).await;

        // What is left is a WebSocket, which goes on, or tasks that see that their client is gone.
        connection.tasks.close();
        if over.run_until_cancelled(connection.tasks.wait()).await.is_none() {
            let _ = tokio::time::timeout(END_LIMIT, connection.tasks.wait()).await;
        }
    }

    /// Forgets every session, as a restart would: to Streamable HTTP they become unknown, and every event stream and
    /// WebSocket is closed, those of clients without a session too.
    pub async fn forget_sessions(&self) {
        let forgotten = std::mem::take(&mut *self.shared.forgotten.lock().unwrap_or_else(PoisonError::into_inner));
        forgotten.cancel();
        self.shared.sse.forget();
        self.shared.backend.forget().await;
    }
}

/// One connection: where its requests are answered, and the tasks that end with it.
#[derive(Clone)]
pub(crate) struct Connection {
    router: Router,
    tasks: TaskTracker,
    /// Cancelled when the connection has to end.
    pub(crate) over: CancellationToken,
}

impl Connection {
    pub(crate) fn shared(&self) -> &Shared {
        &self.router.shared
    }

    /// Starts a task that the connection waits for, and that has to end when the connection is over.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    async fn answer(&self, request: Request<Incoming>) -> Reply {
        let shared = self.shared();
        if let Err(reason) = shared.guard.check(request.uri(), request.headers()) {
            return reply::plain(StatusCode::FORBIDDEN, reason);
        }
        match (request.uri().path(), request.method()) {
            ("/mcp", &Method::GET | &Method::POST | &Method::DELETE) => streamable::answer(shared, request).await,
            ("/mcp", _) => reply::method_not_allowed("GET, POST, DELETE"),
            ("/sse", &Method::GET) => sse::open(self),
            ("/messages", &Method::POST) => sse::post(shared, request).await,
            ("/messages", _) => reply::method_not_allowed("POST"),
            ("/ws", &Method::GET) => websocket::open(self, request),
            ("/sse" | "/ws", _) => reply::method_not_allowed("GET"),
            _ => reply::plain(StatusCode::NOT_FOUND, "Not Found"),
        }
    }
}

/// Runs what HTTP/2 does for each of its streams.
impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Connection {
    fn execute(&self, stream: F) {
        let over = self.over.clone();
        self.spawn(async move {
            let _ = over.run_until_cancelled(stream).await;
        });
    }
}
