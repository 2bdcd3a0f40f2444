//! Messages over bytes: one a line.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use futures_core::Stream;
use futures_sink::Sink;
use serde::de::IgnoredAny;
use tokio::io::{AsyncRead, AsyncWrite};
use wharf_io::{LineEvent, LineReader};

use super::Frame;

/// A line of more than this has no end, and the connection none either.
const ENDLESS: u64 = 512 * 1024 * 1024;
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
        Self { reader: LineReader::new(reader, longest).endless_after(ENDLESS), longest, head: Vec::new() }
    }

    /// What a line is; `None` for half a message that its sender did not live to finish.
    fn frame(&mut self, event: LineEvent) -> Option<Frame> {
        let too_long = |longest: usize| format!("it is longer than {} MiB", longest / (1024 * 1024));
        match event {
            LineEvent::Line(line) => Some(text(line)),
            LineEvent::Unfinished(line) => {
                let half =
                    line.trim_ascii_start().starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(&line).is_err();
                (!half).then(|| text(line))
            }
            LineEvent::TooLong { head } => {
                self.head.clone_from(&head);
                Some(Frame::Unreadable { head, tail: Vec::new(), reason: too_long(self.longest), ended: false })
            }
            LineEvent::TooLongEnd { tail, .. } => {
                let (head, reason) = (std::mem::take(&mut self.head), too_long(self.longest));
                Some(Frame::Unreadable { head, tail, reason, ended: true })
            }
        }
    }
}

/// A message, or what is wrong with its text.
pub(super) fn text(line: Vec<u8>) -> Frame {
    String::from_utf8(line).map_or_else(
        |error| Frame::Unreadable {
            reason: format!("it is not UTF-8 at byte {}", error.utf8_error().valid_up_to()),
            head: error.into_bytes(),
            tail: Vec::new(),
            ended: true,
        },
        Frame::Message,
    )
}

impl<R: AsyncRead + Unpin> Stream for Lines<R> {
    type Item = io::Result<Frame>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let event = match ready!(self.reader.poll_next(cx)) {
                Ok(Some(event)) => event,
                Ok(None) => return Poll::Ready(None),
                Err(error) => return Poll::Ready(Some(Err(error))),
            };
            if let Some(frame) = self.frame(event) {
                return Poll::Ready(Some(Ok(frame)));
            }
        }
    }
}

/// Writes messages as lines. What has been accepted is written whole, whoever stops waiting for it.
pub(super) struct LineSink<W> {
    writer: W,
    buffer: BytesMut,
    written: Arc<AtomicU64>,
}

impl<W: AsyncWrite + Unpin> LineSink<W> {
    pub(super) fn new(writer: W, written: Arc<AtomicU64>) -> Self {
        Self { writer, buffer: BytesMut::new(), written }
    }

    fn poll_write_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.buffer.is_empty() {
            let written = ready!(Pin::new(&mut self.writer).poll_write(cx, &self.buffer))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.buffer.advance(written);
            self.written.fetch_add(written as u64, Ordering::Relaxed);
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
        let start = self.buffer.len();
        self.buffer.reserve(message.len() + 1);
        self.buffer.extend_from_slice(&message);
        // In JSON an end of line can only be space between tokens, so that is what it becomes: a message is one line.
        for byte in self.buffer[start..].iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
            *byte = b' ';
        }
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
