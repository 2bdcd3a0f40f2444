//! The content of an answer, as it comes in. Read to its end, it gives its connection back.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::poll_fn;
use hyper::body::{Body as _, Incoming};
use tokio::time::Instant;

use super::Origin;
use super::dial::causes;
use super::pool::{Connection, Pool};

/// The content of an answer. Dropping it before its end closes the connection it comes on.
pub struct Body {
    incoming: Incoming,
    /// The connection it comes on, where that belongs to nobody else, and where it goes in the end.
    lease: Option<(Box<Connection>, Pool, Origin)>,
}

/// Why a content cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It is longer than the caller wants it.
    #[error("it is longer than {} MiB", .0 / (1024 * 1024))]
    TooLong(usize),
    /// The connection broke before its end.
    #[error("the connection broke: {0}")]
    Broken(String),
}

impl Body {
    pub(super) fn own(incoming: Incoming, connection: Box<Connection>, pool: Pool, origin: Origin) -> Self {
        let mut body = Self { incoming, lease: Some((connection, pool, origin)) };
        if body.incoming.is_end_stream() {
            body.give_back();
        }
        body
    }

    pub(super) fn shared(incoming: Incoming) -> Self {
        Self { incoming, lease: None }
    }

    /// The next piece; `None` at the end.
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
                    self.give_back();
                    return Poll::Ready(None);
                }
            };
            if let Ok(chunk) = frame.into_data() {
                if self.incoming.is_end_stream() {
                    self.give_back();
                }
                return Poll::Ready(Some(Ok(chunk)));
            }
        }
    }

    /// The next piece; `None` at the end.
    pub async fn chunk(&mut self) -> Option<Result<Bytes, BodyError>> {
        poll_fn(|cx| self.poll_chunk(cx)).await
    }

    /// All of it, if that is not too much. What is too much is not read.
    pub async fn read_all(&mut self, most: usize) -> Result<Vec<u8>, BodyError> {
        let announced = usize::try_from(self.incoming.size_hint().lower()).unwrap_or(usize::MAX);
        if announced > most {
            return Err(BodyError::TooLong(most));
        }
        let mut content = Vec::with_capacity(announced);
        while let Some(chunk) = self.chunk().await {
            let chunk = chunk?;
            if content.len() + chunk.len() > most {
                return Err(BodyError::TooLong(most));
            }
            content.extend_from_slice(&chunk);
        }
        Ok(content)
    }

    /// How it begins: up to so many bytes, and no more than comes in this time.
    pub async fn read_head(&mut self, most: usize, limit: Duration) -> Vec<u8> {
        let (mut content, until) = (Vec::new(), Instant::now() + limit);
        while content.len() <= most {
            match tokio::time::timeout_at(until, self.chunk()).await {
                Ok(Some(Ok(chunk))) => content.extend_from_slice(&chunk),
                Ok(Some(Err(_)) | None) | Err(_) => break,
            }
        }
        content.truncate(most);
        content
    }

    fn give_back(&mut self) {
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
