//! The body of a response. Reading it to the end returns its connection to the pool.

use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::poll_fn;
use hyper::body::{Body as _, Incoming};
use tokio::time::Instant;

use super::dial::causes;
use super::origin::Origin;
use super::pool::{Connection, Pool};

/// The body of a response. Dropping it before its end closes its connection.
pub struct Body {
    incoming: Incoming,
    /// The connection, if it is not shared, and the pool that it returns to.
    lease: Option<(Box<Connection>, Pool, Origin)>,
    peer: Option<IpAddr>,
}

/// Why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The body exceeds the caller's limit.
    #[error("it is longer than {} MiB", .0 / (1024 * 1024))]
    TooLong(usize),
    /// The connection broke before the end of the body.
    #[error("the connection broke: {0}")]
    Broken(String),
}

impl Body {
    pub(super) fn own(incoming: Incoming, connection: Box<Connection>, pool: Pool, origin: Origin) -> Self {
        let peer = connection.peer();
        let mut body = Self { incoming, lease: Some((connection, pool, origin)), peer };
        if body.incoming.is_end_stream() {
            body.return_connection();
        }
        body
    }

    pub(super) fn shared(incoming: Incoming, peer: Option<IpAddr>) -> Self {
        Self { incoming, lease: None, peer }
    }

    /// Returns the address of the server that sent the response; `None` behind a proxy, and for sockets and custom
    /// dialers.
    pub fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    /// Polls for the next chunk; `None` at the end.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        loop {
            if let Some((connection, _, _)) = &mut self.lease {
                connection.poll_drive(cx);
            }
            let frame = match ready!(Pin::new(&mut self.incoming).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => {
                    self.lease = None;
                    return Poll::Ready(Some(Err(BodyError::Broken(causes(&error)))));
                }
                None => {
                    self.return_connection();
                    return Poll::Ready(None);
                }
            };
            if let Ok(chunk) = frame.into_data() {
                if self.incoming.is_end_stream() {
                    self.return_connection();
                }
                return Poll::Ready(Some(Ok(chunk)));
            }
        }
    }

    /// Returns the next chunk; `None` at the end.
    pub async fn chunk(&mut self) -> Option<Result<Bytes, BodyError>> {
        poll_fn(|cx| self.poll_chunk(cx)).await
    }

    /// Reads the whole body, up to `max_bytes`. Does not read more than that.
    pub async fn read_all(&mut self, max_bytes: usize) -> Result<Vec<u8>, BodyError> {
        let announced = usize::try_from(self.incoming.size_hint().lower()).unwrap_or(usize::MAX);
        if announced > max_bytes {
            return Err(BodyError::TooLong(max_bytes));
        }
        let mut content = Vec::with_capacity(announced);
        while let Some(chunk) = self.chunk().await {
            let chunk = chunk?;
            if content.len() + chunk.len() > max_bytes {
                return Err(BodyError::TooLong(max_bytes));
            }
            content.extend_from_slice(&chunk);
        }
        Ok(content)
    }

    /// Reads the start of the body: up to `max_bytes`, within the time limit.
    pub async fn read_head(&mut self, max_bytes: usize, limit: Duration) -> Vec<u8> {
        let mut content = Vec::new();
        let until = Instant::now() + limit;
        while content.len() <= max_bytes {
            match tokio::time::timeout_at(until, self.chunk()).await {
                Ok(Some(Ok(chunk))) => content.extend_from_slice(&chunk),
                Ok(Some(Err(_)) | None) | Err(_) => break,
            }
        }
        content.truncate(max_bytes);
        content
    }

    fn return_connection(&mut self) {
        if let Some((connection, pool, origin)) = self.lease.take() {
            pool.put_back(&origin, *connection);
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Body")
    }
}
