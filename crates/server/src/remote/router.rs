//! Routing of requests, and the life of a connection.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rmcp::ServerHandler;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::backend::Handlers;
use super::client_auth::ClientAuth;
use super::connection::{Connection, Shared};
use super::options::ListenOptions;
use super::reply::{self, Reply};
use super::timeout_stream::TimeoutStream;
use super::{sse, streamable, websocket};

/// How long an HTTP/1.1 connection may be idle, and how long the head of a request may take.
const IDLE_TIMEOUT: Duration = Duration::from_secs(75);

/// How long an HTTP/2 client may leave a ping unanswered.
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// How long the tasks of a closing connection may take to end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(6);

/// Serves one type of handler over HTTP: Streamable HTTP at `/mcp`, HTTP+SSE at `/sse` and `/messages`, WebSocket at
/// `/ws`. Clones share their sessions.
#[derive(Clone)]
pub struct Router {
    shared: Arc<Shared>,
}

impl Router {
    /// Creates a router that creates handlers with `make`: one per session, and for Streamable HTTP also one per request,
    /// either to look up its tools or, since 2026-07-28 has no sessions, to handle it. `make` should be cheap. State that
    /// outlives a request must be shared between handlers.
    pub fn new<H: ServerHandler>(make: impl Fn() -> H + Send + Sync + 'static, options: ListenOptions) -> Self {
        Self { shared: Arc::new(Shared::new(Box::new(Handlers::new(make, &options)), options)) }
    }

    /// Returns whether clients on this machine need no authentication, and others have none.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.shared.options.client_auth, ClientAuth::Local)
    }

    /// Serves one connection, over HTTP/1.1 or HTTP/2, until it ends. Dropping the future closes it immediately.
    pub async fn serve_connection(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        self.serve_connection_until(stream, &CancellationToken::new()).await;
    }

    /// Serves one connection until it ends or `closing` is cancelled.
    pub(crate) async fn serve_connection_until(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        closing: &CancellationToken,
    ) {
        let over = closing.child_token();
        let _tasks_end_with_this_future = over.clone().drop_guard();
        let connection = Connection { shared: Arc::clone(&self.shared), tasks: TaskTracker::new(), over: over.clone() };

        let mut http = auto::Builder::new(connection.clone());
        http.http1().timer(TokioTimer::new()).header_read_timeout(IDLE_TIMEOUT);
        http.http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(self.shared.options.keep_alive)
            .keep_alive_timeout(PING_TIMEOUT);
        let for_requests = connection.clone();
        let service = service_fn(move |request| {
            let connection = for_requests.clone();
            async move { Ok::<_, Infallible>(route(&connection, request).await) }
        });
        let serving = http.serve_connection_with_upgrades(TokioIo::new(TimeoutStream::new(stream)), service);
        // Errors of a connection concern only its client.
        let _ = over.run_until_cancelled(serving).await;

        // Only a WebSocket, which continues, or tasks that notice that their client has disconnected are left.
        connection.tasks.close();
        if over.run_until_cancelled(connection.tasks.wait()).await.is_none() {
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, connection.tasks.wait()).await;
        }
    }

    /// Forgets every session, like a restart: Streamable HTTP no longer knows them, and every event stream and WebSocket
    /// is closed, including those of clients without a session.
    pub async fn forget_sessions(&self) {
        self.shared.forget_sessions().await;
    }
}

async fn route(connection: &Connection, request: Request<Incoming>) -> Reply {
    let shared = &*connection.shared;
    if let Err(reason) = shared.guard.check(request.uri(), request.headers()) {
        return reply::plain(StatusCode::FORBIDDEN, reason);
    }
    if let Err(refusal) = shared.options.client_auth.check(request.headers()) {
        return *refusal;
    }
    match (request.uri().path(), request.method()) {
        ("/mcp", &Method::GET | &Method::POST | &Method::DELETE) => streamable::handle(shared, request).await,
        ("/mcp", _) => reply::method_not_allowed("GET, POST, DELETE"),
        ("/sse", &Method::GET) => sse::open(connection).await,
        ("/messages", &Method::POST) => sse::post(shared, request).await,
        ("/messages", _) => reply::method_not_allowed("POST"),
        ("/ws", &Method::GET) => websocket::open(connection, request).await,
        ("/sse" | "/ws", _) => reply::method_not_allowed("GET"),
        _ => reply::plain(StatusCode::NOT_FOUND, "Not Found"),
    }
}
