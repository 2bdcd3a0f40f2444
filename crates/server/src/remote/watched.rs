//! A connection that does not wait for ever: neither for a client that never says what it wants, nor for one that does
//! not read what it is sent.
//!
//! Watching the connection itself covers every protocol spoken over it at once.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How long a new connection may take to say which version of HTTP it speaks.
const GREETING_LIMIT: Duration = Duration::from_secs(30);

/// How many bytes tell the versions apart: the length of HTTP/2's preface, which no HTTP/1.1 request undercuts.
const GREETING_BYTES: usize = 24;

/// How long a client may leave what it was sent unread.
const UNREAD_LIMIT: Duration = Duration::from_secs(60);

/// A stream whose reads fail without a greeting, and whose writes fail when nobody reads.
pub(crate) struct Watched<S> {
    stream: S,
    /// Runs until the greeting is complete.
    greeting: Option<Pin<Box<Sleep>>>,
    greeting_bytes: usize,
    /// Runs while a write waits.
    unread: Option<Pin<Box<Sleep>>>,
}

impl<S> Watched<S> {
    pub(crate) fn new(stream: S) -> Self {
        let greeting = Some(Box::pin(tokio::time::sleep(GREETING_LIMIT)));
        Self { stream, greeting, greeting_bytes: 0, unread: None }
    }

    fn watch_write<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.unread = None;
            return written;
        }
        let unread = self.unread.get_or_insert_with(|| Box::pin(tokio::time::sleep(UNREAD_LIMIT)));
        unread.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let Some(greeting) = &mut self.greeting else { return read };
        if read.is_pending() {
            return greeting.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()));
        }
        self.greeting_bytes += buffer.filled().len() - before;
        if self.greeting_bytes >= GREETING_BYTES {
            self.greeting = None;
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch_write(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch_write(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch_write(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut_down = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch_write(context, shut_down)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_given_up_after_a_minute() {
        let (ours, _theirs) = tokio::io::duplex(8);
        let start = Instant::now();
        let error = Watched::new(ours).write_all(&[0; 64]).await.unwrap_err();
        assert_eq!((error.kind(), start.elapsed().as_secs()), (io::ErrorKind::TimedOut, 60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_is_kept() {
        let (ours, mut theirs) = tokio::io::duplex(8);
        let mut ours = Watched::new(ours);
        let reading = async {
            for _ in 0..8 {
                tokio::time::sleep(Duration::from_secs(50)).await;
                theirs.read_exact(&mut [0; 8]).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(ours.write_all(&[0; 64]), reading);
        written.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_whole_greeting_is_given_up() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        theirs.write_all(b"PRI").await.unwrap();
        let start = Instant::now();
        let error = Watched::new(ours).read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!((error.kind(), start.elapsed().as_secs()), (io::ErrorKind::TimedOut, 30));
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_client_that_has_greeted_is_kept() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        theirs.write_all(b"GET /sse HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut ours = Watched::new(ours);
        ours.read_exact(&mut [0; 30]).await.unwrap();
        let quiet = tokio::time::timeout(Duration::from_secs(3600), ours.read_u8()).await;
        assert!(quiet.is_err(), "{quiet:?}");
    }
}
