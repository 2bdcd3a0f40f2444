//! The same faults in memory, on the client's end of any stream, for tests with a paused clock.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::fault::{NetworkFault, garbage};

/// Bytes per read from the underlying stream.
const READ_BYTES: usize = 8 * 1024;

/// Wraps the client's end of `stream` and injects a fault into what it reads.
///
/// A reset drops `stream`, so that the server notices it too.
pub fn with_fault<S>(stream: S, fault: NetworkFault) -> impl AsyncRead + AsyncWrite + Unpin + Send
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    FaultyStream {
        stream: Some(stream),
        fault,
        sent: 0,
        received: 0,
        pause: None,
        yielded: false,
        garbage: None,
        reader: None,
    }
}

struct FaultyStream<S> {
    /// `None` after a reset, and after the last of the garbage.
    stream: Option<S>,
    fault: NetworkFault,
    /// Bytes delivered to the client.
    sent: usize,
    /// Bytes accepted from the client.
    received: usize,
    pause: Option<Pin<Box<Sleep>>>,
    /// Whether the reader has yielded before the next chunk.
    yielded: bool,
    garbage: Option<Bytes>,
    /// Waker of a pending read, for a reset that a write causes.
    reader: Option<Waker>,
}

impl<S> FaultyStream<S> {
    fn reset<T>(&mut self) -> Poll<io::Result<T>> {
        self.stream = None;
        Poll::Ready(Err(ErrorKind::ConnectionReset.into()))
    }

    /// Whether the fault accepts no more bytes from the client.
    fn is_reset(&self) -> bool {
        self.fault.receivable(self.received) == 0
    }

    /// Waits before the next chunk, if the fault requires it.
    fn poll_delay(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self.fault {
            NetworkFault::Drip(pause) => {
                let sleep = self.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(pause)));
                ready!(sleep.as_mut().poll(context));
            }
            NetworkFault::Slice(_) if !self.yielded => {
                self.yielded = true;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            _ => {}
        }
        Poll::Ready(())
    }

    /// Reads after the last unmodified byte.
    fn poll_fault(&mut self, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.fault {
            NetworkFault::StallAfter(_) => Poll::Pending,
            NetworkFault::GarbageAfter(_) => {
                let garbage = self.garbage.get_or_insert_with(|| garbage().into());
                let chunk = garbage.len().min(buffer.remaining());
                buffer.put_slice(&garbage[..chunk]);
                garbage.advance(chunk);
                if garbage.is_empty() {
                    self.stream = None;
                }
                Poll::Ready(Ok(()))
            }
            NetworkFault::HalfCloseAfter(_) => Poll::Ready(Ok(())),
            _ => self.reset(),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FaultyStream<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.is_reset() {
            return this.reset();
        }
        let sendable = this.fault.sendable(this.sent);
        if sendable == 0 {
            return this.poll_fault(buffer);
        }
        this.reader = Some(context.waker().clone());
        ready!(this.poll_delay(context));
        let Some(stream) = &mut this.stream else { return this.reset() };
        let mut chunk = [0; READ_BYTES];
        let max_bytes = READ_BYTES.min(sendable).min(this.fault.chunk_bytes()).min(buffer.remaining());
        let mut chunk = ReadBuf::new(&mut chunk[..max_bytes]);
        ready!(Pin::new(stream).poll_read(context, &mut chunk))?;
        buffer.put_slice(chunk.filled());
        this.sent += chunk.filled().len();
        this.pause = None;
        this.yielded = false;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FaultyStream<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.is_reset() {
            return this.reset();
        }
        let max_bytes = this.fault.receivable(this.received).min(bytes.len());
        let Some(stream) = &mut this.stream else { return Poll::Ready(Err(ErrorKind::BrokenPipe.into())) };
        let written = ready!(Pin::new(stream).poll_write(context, &bytes[..max_bytes]))?;
        this.received += written;
        if this.is_reset()
            && let Some(reader) = this.reader.take()
        {
            reader.wake();
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Some(stream) => Pin::new(stream).poll_flush(context),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Some(stream) => Pin::new(stream).poll_shutdown(context),
            None => Poll::Ready(Ok(())),
        }
    }
}
