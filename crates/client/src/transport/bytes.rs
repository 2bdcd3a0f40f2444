//! Messages over bytes: one a line.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use futures_core::Stream;
use futures_sink::Sink;
use tokio::io::{AsyncRead, AsyncWrite};
use wharf_io::{LineEvent, LineReader};

use super::Frame;

/// How much may wait in the buffer before the sink takes no more.
const FULL: usize = 256 * 1024;

/// Reads frames from lines.
pub(super) struct Lines<R> {
    reader: LineReader<R>,
    longest: usize,
    /// The head of a line that was too long; it is reported at once, and again with its tail.
    head: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(reader: R, longest: usize) -> Self {
        Self { reader: LineReader::new(reader, longest), longest, head: Vec::new() }
    }

    fn frame(&mut self, event: LineEvent) -> Frame {
        let too_long = |longest: usize| format!("it is longer than {} MiB", longest / (1024 * 1024));
        match event {
            LineEvent::Line(line) => String::from_utf8(line).map_or_else(
                |error| Frame::Unreadable {
                    reason: format!("it is not UTF-8 at byte {}", error.utf8_error().valid_up_to()),
                    head: error.into_bytes(),
                    tail: Vec::new(),
                },
                Frame::Message,
            ),
            LineEvent::TooLong { head } => {
                self.head.clone_from(&head);
                Frame::Unreadable { head, tail: Vec::new(), reason: too_long(self.longest) }
            }
            LineEvent::TooLongEnd { tail, .. } => {
                Frame::Unreadable { head: std::mem::take(&mut self.head), tail, reason: too_long(self.longest) }
            }
        }
    }
}

impl<R: AsyncRead + Unpin> Stream for Lines<R> {
    type Item = io::Result<Frame>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let event = match ready!(self.reader.poll_next(cx)) {
            Ok(Some(event)) => event,
            Ok(None) => return Poll::Ready(None),
            Err(error) => return Poll::Ready(Some(Err(error))),
        };
        Poll::Ready(Some(Ok(self.frame(event))))
    }
}

/// Writes messages as lines. What has been accepted is written whole, whoever stops waiting for it.
pub(super) struct LineSink<W> {
    writer: W,
    buffer: BytesMut,
}

impl<W: AsyncWrite + Unpin> LineSink<W> {
    pub(super) fn new(writer: W) -> Self {
        Self { writer, buffer: BytesMut::new() }
    }

    fn poll_write_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.buffer.is_empty() {
            let written = ready!(Pin::new(&mut self.writer).poll_write(cx, &self.buffer))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.buffer.advance(written);
        }
        if self.buffer.capacity() > FULL {
            self.buffer = BytesMut::new();
        }
        Pin::new(&mut self.writer).poll_flush(cx)
    }
}

impl<W: AsyncWrite + Unpin> Sink<Bytes> for LineSink<W> {
    type Error = io::Error;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.buffer.len() < FULL { Poll::Ready(Ok(())) } else { self.poll_write_out(cx) }
    }

    fn start_send(mut self: Pin<&mut Self>, message: Bytes) -> io::Result<()> {
        self.buffer.reserve(message.len() + 1);
        self.buffer.extend_from_slice(&message);
        self.buffer.extend_from_slice(b"\n");
        Ok(())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write_out(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_out(cx))?;
        Pin::new(&mut self.writer).poll_shutdown(cx)
    }
}
