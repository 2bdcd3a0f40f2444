//! Timeouts of a connection: for clients that never send a request, and for clients that do not read responses.
//!
//! Limiting the connection itself covers every protocol on top of it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Time limit for the bytes that reveal the version of HTTP.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(30);

/// The length of HTTP/2's preface, which tells the versions apart. No HTTP/1.1 request is shorter.
const PREFACE_BYTES: usize = 24;

/// How long a write may wait for the client to read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// A stream whose reads fail without a preface, and whose writes fail if the peer does not read.
pub(crate) struct TimeoutStream<S> {
    stream: S,
    /// Runs until the preface is complete.
    preface_timeout: Option<Pin<Box<Sleep>>>,
    preface_bytes: usize,
    /// Runs while a write waits.
    write_timeout: Option<Pin<Box<Sleep>>>,
}

impl<S> TimeoutStream<S> {
    pub(crate) fn new(stream: S) -> Self {
        let preface_timeout = Some(Box::pin(tokio::time::sleep(PREFACE_TIMEOUT)));
        Self { stream, preface_timeout, preface_bytes: 0, write_timeout: None }
    }

    fn limit_write<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.write_timeout = None;
            return written;
        }
        let timeout = self.write_timeout.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_TIMEOUT)));
        timeout.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let Some(timeout) = &mut self.preface_timeout else { return read };
        if read.is_pending() {
            return timeout.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()));
        }
        self.preface_bytes += buffer.filled().len() - before;
        if self.preface_bytes >= PREFACE_BYTES {
            self.preface_timeout = None;
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimeoutStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limit_write(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.limit_write(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.limit_write(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut_down = Pin::new(&mut self.stream).poll_shutdown(context);
        self.limit_write(context, shut_down)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_write_fails_after_a_minute_if_the_client_does_not_read() {
        let (ours, _theirs) = tokio::io::duplex(8);
        let start = Instant::now();
        let error = TimeoutStream::new(ours).write_all(&[0; 64]).await.unwrap_err();
        assert_eq!((error.kind(), start.elapsed().as_secs()), (io::ErrorKind::TimedOut, 60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_stays_connected() {
        let (ours, mut theirs) = tokio::io::duplex(8);
        let mut ours = TimeoutStream::new(ours);
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
    async fn a_read_fails_without_a_complete_preface() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        theirs.write_all(b"PRI").await.unwrap();
        let start = Instant::now();
        let error = TimeoutStream::new(ours).read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!((error.kind(), start.elapsed().as_secs()), (io::ErrorKind::TimedOut, 30));
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_client_that_has_sent_its_preface_stays_connected() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        theirs.write_all(b"GET /sse HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut ours = TimeoutStream::new(ours);
        ours.read_exact(&mut [0; 30]).await.unwrap();
        let quiet = tokio::time::timeout(Duration::from_secs(3600), ours.read_u8()).await;
        assert!(quiet.is_err(), "{quiet:?}");
    }
}
