//! The same harm in memory, to the client's end of any stream, for tests with a paused clock.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::{NetworkFault, garbage};

/// How much is read from the honest stream at a time.
const PIECE: usize = 8 * 1024;

/// The client's end of `stream`, with harm done to what it reads.
///
/// A reset drops `stream`, so that the server notices too.
pub fn with_fault<S>(stream: S, harm: NetworkFault) -> impl AsyncRead + AsyncWrite + Unpin + Send
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    Harmed { stream: Some(stream), harm, told: 0, heard: 0, pause: None, waited: false, garbage: None, reader: None }
}

struct Harmed<S> {
    /// Gone after a reset, and after the last of the garbage.
    stream: Option<S>,
    harm: NetworkFault,
    told: usize,
    heard: usize,
    pause: Option<Pin<Box<Sleep>>>,
    /// Whether the next piece has waited for its turn.
    waited: bool,
    garbage: Option<Bytes>,
    /// Whoever waits to read, to be told of a reset that writing brought about.
    reader: Option<Waker>,
}

impl<S> Harmed<S> {
    fn reset<T>(&mut self) -> Poll<io::Result<T>> {
        self.stream = None;
        Poll::Ready(Err(ErrorKind::ConnectionReset.into()))
    }

    /// Whether enough has been heard, or nothing wanted to be heard at all.
    fn is_reset(&self) -> bool {
        self.harm.bearable(self.heard) == 0
    }

    /// Waits between pieces, as the harm wants it.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self.harm {
            NetworkFault::Drip(pause) => {
                let sleep = self.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(pause)));
                ready!(sleep.as_mut().poll(context));
            }
            NetworkFault::Slice(_) if !self.waited => {
                self.waited = true;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            _ => {}
        }
        Poll::Ready(())
    }

    /// What reading gives when the honest bytes are used up.
    fn poll_struck(&mut self, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.harm {
            NetworkFault::StallAfter(_) => Poll::Pending,
            NetworkFault::GarbageAfter(_) => {
                let garbage = self.garbage.get_or_insert_with(|| garbage().into());
                let piece = garbage.len().min(buffer.remaining());
                buffer.put_slice(&garbage[..piece]);
                garbage.advance(piece);
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

impl<S: AsyncRead + Unpin> AsyncRead for Harmed<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.is_reset() {
            return this.reset();
        }
        let honest = this.harm.honest(this.told);
        if honest == 0 {
            return this.poll_struck(buffer);
        }
        this.reader = Some(context.waker().clone());
        ready!(this.poll_turn(context));
        let Some(stream) = &mut this.stream else { return this.reset() };
        let mut piece = [0; PIECE];
        let most = PIECE.min(honest).min(this.harm.piece()).min(buffer.remaining());
        let mut piece = ReadBuf::new(&mut piece[..most]);
        ready!(Pin::new(stream).poll_read(context, &mut piece))?;
        buffer.put_slice(piece.filled());
        this.told += piece.filled().len();
        (this.pause, this.waited) = (None, false);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Harmed<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.is_reset() {
            return this.reset();
        }
        let most = this.harm.bearable(this.heard).min(bytes.len());
        let Some(stream) = &mut this.stream else { return Poll::Ready(Err(ErrorKind::BrokenPipe.into())) };
        let heard = ready!(Pin::new(stream).poll_write(context, &bytes[..most]))?;
        this.heard += heard;
        if this.is_reset()
            && let Some(reader) = this.reader.take()
        {
            reader.wake();
        }
        Poll::Ready(Ok(heard))
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
