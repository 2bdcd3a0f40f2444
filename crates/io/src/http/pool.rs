//! The connection pool. A request owns its HTTP/1.1 connection, which returns to the pool after the response is read to
//! its end. HTTP/2 connections are shared.
//!
//! hyper-util's own client returns a connection to its pool from a task. That may run after the next request, which then
//! opens another connection. Here the next request always finds the connection that has just been used.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::poll_fn;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::dial::{Protocol, causes};
use super::error::HttpError;
use super::origin::Origin;
use super::stream::Dialed;

/// Maximum number of idle connections per origin.
const MAX_IDLE: usize = 64;
/// How long an idle connection stays in the pool.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Maximum bytes per read, and of the head of a response. Larger buffers would be allocated from the system and freed each
/// time, which costs more than reading more often.
const READ_BUFFER_BYTES: usize = 64 * 1024;
/// Interval of HTTP/2 pings, which detect a dead server.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// How long a server may leave a ping unanswered.
const PING_TIMEOUT: Duration = Duration::from_secs(20);

type Driver = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

#[derive(Clone, Debug, Default)]
pub(super) struct Pool(Arc<Mutex<Connections>>);

#[derive(Default)]
struct Connections {
    idle: HashMap<Origin, Vec<(Connection, Instant)>>,
    shared: HashMap<Origin, Shared>,
    tasks: JoinSet<()>,
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let idle: usize = self.idle.values().map(Vec::len).sum();
        write!(f, "Connections {{ idle: {idle}, shared: {} }}", self.shared.len())
    }
}

/// One HTTP/1.1 connection: its sender, and its driver, which must be polled to make progress.
pub(super) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// `None` once it has completed. It must be dropped then: only that returns a request that it accepted but did not send.
    driver: Option<Driver>,
    /// The address of the server.
    peer: Option<IpAddr>,
}

/// One HTTP/2 connection.
#[derive(Clone)]
pub(super) struct Shared {
    sender: http2::SendRequest<Full<Bytes>>,
    peer: Option<IpAddr>,
}

/// A connection that can send a request.
pub(super) enum Sender {
    Own(Box<Connection>),
    Shared(Shared),
}

/// The head of a response, and its connection unless that is shared.
pub(super) struct Received {
    pub(super) response: Response<Incoming>,
    pub(super) connection: Option<Box<Connection>>,
    /// The address of the server.
    pub(super) peer: Option<IpAddr>,
}

/// A request without a response, with the request itself if no byte of it was sent.
pub(super) struct Unsent {
    pub(super) request: Option<Box<Request<Bytes>>>,
    pub(super) reason: String,
}

impl Pool {
    pub(super) fn take(&self, origin: &Origin) -> Option<Sender> {
        let mut connections = self.lock();
        if let Some(shared) = connections.shared.get(origin) {
            if !shared.sender.is_closed() {
                return Some(Sender::Shared(shared.clone()));
            }
            connections.shared.remove(origin);
        }
        let idle = connections.idle.get_mut(origin)?;
        let now = Instant::now();
        while let Some((mut connection, since)) = idle.pop() {
            if now - since < IDLE_TIMEOUT && connection.is_alive() {
                return Some(Sender::Own(Box::new(connection)));
            }
        }
        None
    }

    /// Returns a connection to the pool after its response was read to the end. Drops it if it is still sending its
    /// request, because the response arrived early.
    pub(super) fn put_back(&self, origin: &Origin, mut connection: Connection) {
        if !connection.is_alive() || !connection.sender.is_ready() {
            return;
        }
        let mut connections = self.lock();
        let idle = connections.idle.entry(origin.clone()).or_default();
        if idle.len() < MAX_IDLE {
            idle.push((connection, Instant::now()));
        }
    }

    pub(super) fn close_idle(&self) {
        let mut connections = self.lock();
        connections.idle.clear();
        // The task of a shared connection ends with the last request on it.
        connections.shared.clear();
    }

    pub(super) fn sweep(&self) {
        let mut connections = self.lock();
        let now = Instant::now();
        for idle in connections.idle.values_mut() {
            idle.retain_mut(|(connection, since)| now - *since < IDLE_TIMEOUT && connection.is_alive());
        }
        while connections.tasks.try_join_next().is_some() {}
    }

    pub(super) async fn open(&self, origin: &Origin, stream: Dialed, protocol: Protocol) -> Result<Sender, HttpError> {
        let failed = |error: hyper::Error| HttpError::Unreachable(format!("{origin}: {}", causes(&error)));
        let peer = stream.peer();
        let stream = TokioIo::new(stream);
        match protocol {
            Protocol::Http1 => {
                let mut builder = http1::Builder::new();
                builder.max_buf_size(READ_BUFFER_BYTES);
                let (sender, driver) = builder.handshake(stream).await.map_err(failed)?;
                Ok(Sender::Own(Box::new(Connection { sender, driver: Some(Box::pin(driver)), peer })))
            }
            Protocol::Http2 => {
                let mut builder = http2::Builder::new(Tasks(Arc::downgrade(&self.0)));
                builder.timer(TokioTimer::new()).keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_TIMEOUT);
                builder.keep_alive_while_idle(true).adaptive_window(true);
                let (sender, driver) = builder.handshake(stream).await.map_err(failed)?;
                let mut connections = self.lock();
                connections.tasks.spawn(async move {
                    // Requests on the connection report its error.
                    let _ = driver.await;
                });
                let shared = Shared { sender, peer };
                connections.shared.insert(origin.clone(), shared.clone());
                Ok(Sender::Shared(shared))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the tasks of HTTP/2; they belong to the pool and end with it.
#[derive(Clone)]
struct Tasks(Weak<Mutex<Connections>>);

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, task: F) {
        let Some(connections) = self.0.upgrade() else { return };
        let mut connections = connections.lock().unwrap_or_else(PoisonError::into_inner);
        while connections.tasks.try_join_next().is_some() {}
        connections.tasks.spawn(async move {
            task.await;
        });
    }
}

impl Sender {
    /// Sends a request and waits for the head of the response.
    pub(super) async fn send(self, request: Request<Bytes>, origin: &Origin) -> Result<Received, Unsent> {
        let request = request.map(Full::new);
        match self {
            Self::Own(mut connection) => {
                let response = connection.send(request).await?;
                Ok(Received { response, peer: connection.peer, connection: Some(connection) })
            }
            Self::Shared(Shared { mut sender, peer }) => {
                let mut request = request;
                *request.version_mut() = http::Version::HTTP_2;
                // HTTP/2 needs the absolute URI, which includes the host.
                request.headers_mut().remove(http::header::HOST);
                let whole = format!("{origin}{}", request.uri());
                *request.uri_mut() = whole.parse().unwrap_or_default();
                let response = sender.try_send_request(request).await.map_err(unsent)?;
                Ok(Received { response, connection: None, peer })
            }
        }
    }
}

fn unsent(mut error: hyper::client::conn::TrySendError<Request<Full<Bytes>>>) -> Unsent {
    let request = error.take_message().map(|request| {
        let (mut head, content) = request.into_parts();
        if head.version == http::Version::HTTP_2 {
            // Restores the form that HTTP/1.1 connections accept.
            let host = head.uri.authority().and_then(|authority| authority.as_str().parse().ok());
            if let Some(host) = host {
                head.headers.insert(http::header::HOST, host);
            }
            head.uri = head.uri.path_and_query().and_then(|path| path.as_str().parse().ok()).unwrap_or_default();
            head.version = http::Version::HTTP_11;
        }
        Box::new(Request::from_parts(head, unread_content(content)))
    });
    Unsent { request, reason: causes(error.error()) }
}

/// Returns the content of an unread body.
fn unread_content(mut content: Full<Bytes>) -> Bytes {
    use hyper::body::Body as _;
    let mut cx = Context::from_waker(Waker::noop());
    match Pin::new(&mut content).poll_frame(&mut cx) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        _ => Bytes::new(),
    }
}

impl Connection {
    /// Returns whether the connection is reusable, as far as known without waiting.
    fn is_alive(&mut self) -> bool {
        self.poll_drive(&mut Context::from_waker(Waker::noop()));
        self.driver.is_some() && !self.sender.is_closed()
    }

    pub(super) fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    /// Polls the driver, so that the connection reads and writes.
    pub(super) fn poll_drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.driver, cx);
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Unsent> {
        let ready = poll_fn(|cx| {
            self.poll_drive(cx);
            self.sender.poll_ready(cx)
        });
        if let Err(error) = ready.await {
            let (head, content) = request.into_parts();
            let request = Some(Box::new(Request::from_parts(head, unread_content(content))));
            return Err(Unsent { request, reason: causes(&error) });
        }
        let mut response = std::pin::pin!(self.sender.try_send_request(request));
        let driver = &mut self.driver;
        poll_fn(|cx| {
            drive(driver, cx);
            response.as_mut().poll(cx)
        })
        .await
        .map_err(unsent)
    }
}

fn drive(driver: &mut Option<Driver>, cx: &mut Context<'_>) {
    if driver.as_mut().is_some_and(|driver| driver.as_mut().poll(cx).is_ready()) {
        *driver = None;
    }
}
