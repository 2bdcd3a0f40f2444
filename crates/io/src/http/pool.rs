//! The connections that are kept. One of HTTP/1.1 belongs to whoever uses it and comes back when its answer has been
//! read to the end; one of HTTP/2 is shared.
//!
//! hyper-util's own client returns a connection to its pool from a task that may run after the caller asks for the
//! next one, and then opens another; here the next caller always finds the one that has just been used.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::poll_fn;
use http::{Request, Response};
use http_body_util::Full;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::body::Body;
use super::dial::{Dialed, Protocol, causes};
use super::{HttpError, Origin};

/// Idle connections that are kept for one origin.
const MOST_IDLE: usize = 64;
/// How long an idle connection is kept.
const LONGEST_IDLE: Duration = Duration::from_secs(90);
/// The most that is read at once, and the most an answer's head may have. Larger pieces would be taken from the system and
/// given back to it each time, which costs more than reading more often.
const READ_AT_ONCE: usize = 64 * 1024;
/// HTTP/2 has pings of its own, which find out whether the far end is there.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(20);

type Driver = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

#[derive(Clone, Debug, Default)]
pub(super) struct Pool(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    idle: HashMap<Origin, Vec<(Connection, Instant)>>,
    shared: HashMap<Origin, http2::SendRequest<Full<Bytes>>>,
    tasks: JoinSet<()>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let idle: usize = self.idle.values().map(Vec::len).sum();
        write!(f, "Kept {{ idle: {idle}, shared: {} }}", self.shared.len())
    }
}

/// One HTTP/1.1 connection: what is asked, and what has to be polled for anything to happen.
pub(super) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// `None` once it has completed. It must be dropped then: only so does a request it had taken, and not sent, come back.
    driver: Option<Driver>,
}

/// A connection that can take a request.
pub(super) enum Sender {
    Own(Box<Connection>),
    Shared(http2::SendRequest<Full<Bytes>>),
}

/// A request without an answer; the request itself comes back if no byte of it has left.
pub(super) struct Unsent {
    pub(super) request: Option<Box<Request<Bytes>>>,
    pub(super) reason: String,
}

impl Pool {
    pub(super) fn take(&self, origin: &Origin) -> Option<Sender> {
        let mut kept = self.lock();
        if let Some(shared) = kept.shared.get(origin) {
            if !shared.is_closed() {
                return Some(Sender::Shared(shared.clone()));
            }
            kept.shared.remove(origin);
        }
        let idle = kept.idle.get_mut(origin)?;
        let now = Instant::now();
        while let Some((mut connection, since)) = idle.pop() {
            if now - since < LONGEST_IDLE && connection.is_alive() {
                return Some(Sender::Own(Box::new(connection)));
            }
        }
        None
    }

    /// Takes back a connection whose answer has been read to the end. One that is still busy with its request, because
    /// the answer came before the end of it, is of no use to anybody.
    pub(super) fn put_back(&self, origin: &Origin, mut connection: Connection) {
        if !connection.is_alive() || !connection.sender.is_ready() {
            return;
        }
        let mut kept = self.lock();
        let idle = kept.idle.entry(origin.clone()).or_default();
        if idle.len() < MOST_IDLE {
            idle.push((connection, Instant::now()));
        }
    }

    pub(super) fn let_go(&self) {
        let mut kept = self.lock();
        kept.idle.clear();
        // The task of a shared connection ends with the last request on it.
        kept.shared.clear();
    }

    pub(super) fn sweep(&self) {
        let mut kept = self.lock();
        let now = Instant::now();
        for idle in kept.idle.values_mut() {
            idle.retain_mut(|(connection, since)| now - *since < LONGEST_IDLE && connection.is_alive());
        }
        while kept.tasks.try_join_next().is_some() {}
    }

    pub(super) async fn open(&self, origin: &Origin, stream: Dialed, protocol: Protocol) -> Result<Sender, HttpError> {
        let failed = |error: hyper::Error| HttpError::Unreachable(format!("{origin}: {}", causes(&error)));
        let stream = TokioIo::new(stream);
        match protocol {
            Protocol::Http1 => {
                let mut builder = http1::Builder::new();
                builder.max_buf_size(READ_AT_ONCE);
                let (sender, driver) = builder.handshake(stream).await.map_err(failed)?;
                Ok(Sender::Own(Box::new(Connection { sender, driver: Some(Box::pin(driver)) })))
            }
            Protocol::Http2 => {
                let mut builder = http2::Builder::new(Tasks(Arc::downgrade(&self.0)));
                builder.timer(TokioTimer::new()).keep_alive_interval(PING).keep_alive_timeout(PONG);
                builder.keep_alive_while_idle(true).adaptive_window(true);
                let (sender, driver) = builder.handshake(stream).await.map_err(failed)?;
                let mut kept = self.lock();
                kept.tasks.spawn(async move {
                    // Whoever uses the connection hears of its end; the task has nobody to tell.
                    let _ = driver.await;
                });
                kept.shared.insert(origin.clone(), sender.clone());
                Ok(Sender::Shared(sender))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// HTTP/2 wants to run tasks; they belong to the pool and end with it.
#[derive(Clone)]
struct Tasks(Weak<Mutex<Kept>>);

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, task: F) {
        let Some(kept) = self.0.upgrade() else { return };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        while kept.tasks.try_join_next().is_some() {}
        kept.tasks.spawn(async move {
            task.await;
        });
    }
}

impl Sender {
    /// Sends a request and waits for the head of the answer.
    pub(super) async fn send(
        self,
        request: Request<Bytes>,
        pool: &Pool,
        origin: &Origin,
    ) -> Result<Response<Body>, Unsent> {
        let request = request.map(Full::new);
        match self {
            Self::Own(mut connection) => {
                let response = connection.send(request).await?;
                Ok(response.map(|body| Body::own(body, connection, pool.clone(), origin.clone())))
            }
            Self::Shared(mut sender) => {
                let mut request = request;
                *request.version_mut() = http::Version::HTTP_2;
                // HTTP/2 wants the whole address, and has its own place for the host.
                request.headers_mut().remove(http::header::HOST);
                let whole = format!("{origin}{}", request.uri());
                *request.uri_mut() = whole.parse().unwrap_or_default();
                let response = sender.try_send_request(request).await.map_err(unsent)?;
                Ok(response.map(Body::shared))
            }
        }
    }
}

fn unsent(mut error: hyper::client::conn::TrySendError<Request<Full<Bytes>>>) -> Unsent {
    let request = error.take_message().map(|request| {
        let (mut head, content) = request.into_parts();
        if head.version == http::Version::HTTP_2 {
            // Back to the form that every connection takes.
            let host = head.uri.authority().and_then(|authority| authority.as_str().parse().ok());
            if let Some(host) = host {
                head.headers.insert(http::header::HOST, host);
            }
            head.uri = head.uri.path_and_query().and_then(|path| path.as_str().parse().ok()).unwrap_or_default();
            head.version = http::Version::HTTP_11;
        }
        Box::new(Request::from_parts(head, whole(content)))
    });
    Unsent { request, reason: causes(error.error()) }
}

/// The content of a body that was never read.
fn whole(mut content: Full<Bytes>) -> Bytes {
    use hyper::body::Body as _;
    let mut cx = Context::from_waker(Waker::noop());
    match Pin::new(&mut content).poll_frame(&mut cx) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        _ => Bytes::new(),
    }
}

impl Connection {
    /// Whether it can be used again, as far as can be told without waiting.
    fn is_alive(&mut self) -> bool {
        self.poll_drive(&mut Context::from_waker(Waker::noop()));
        self.driver.is_some() && !self.sender.is_closed()
    }

    /// Lets the connection read and write.
    pub(super) fn poll_drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.driver, cx);
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<hyper::body::Incoming>, Unsent> {
        let ready = poll_fn(|cx| {
            self.poll_drive(cx);
            self.sender.poll_ready(cx)
        });
        if let Err(error) = ready.await {
            let (head, content) = request.into_parts();
            let request = Some(Box::new(Request::from_parts(head, whole(content))));
            return Err(Unsent { request, reason: causes(&error) });
        }
        let mut answer = std::pin::pin!(self.sender.try_send_request(request));
        let driver = &mut self.driver;
        poll_fn(|cx| {
            drive(driver, cx);
            answer.as_mut().poll(cx)
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
