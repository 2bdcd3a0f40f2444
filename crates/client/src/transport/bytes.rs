//! Messages over byte streams, one per line.

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

/// The length at which a line fails the connection.
const MAX_LINE_BYTES: u64 = 512 * 1024 * 1024;
/// The size of the write buffer at which the sink stops accepting messages.
const MAX_BUFFERED_BYTES: usize = 256 * 1024;

/// Reads one frame per line.
pub(super) struct Lines<R> {
    reader: LineReader<R>,
    max_bytes: usize,
    /// The start of an overlong line, which is reported twice: at the limit, and again with its end.
    head: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(reader: R, max_bytes: usize) -> Self {
        Self { reader: LineReader::new(reader, max_bytes).endless_after(MAX_LINE_BYTES), max_bytes, head: Vec::new() }
    }

    /// Returns the frame of a line, or `None` for a message that was cut off by the end of the stream.
    fn frame(&mut self, event: LineEvent) -> Option<Frame> {
        let too_long = |max_bytes: usize| format!("it is longer than {} MiB", max_bytes / (1024 * 1024));
        match event {
            LineEvent::Line(line) => Some(text(line)),
            LineEvent::Unfinished(line) => {
                let is_cut_off =
                    line.trim_ascii_start().starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(&line).is_err();
                (!is_cut_off).then(|| text(line))
            }
            LineEvent::TooLong { head } => {
                self.head.clone_from(&head);
                Some(Frame::Unreadable { head, tail: Vec::new(), reason: too_long(self.max_bytes), ended: false })
            }
            LineEvent::TooLongEnd { tail, .. } => {
                let head = std::mem::take(&mut self.head);
                let reason = too_long(self.max_bytes);
                Some(Frame::Unreadable { head, tail, reason, ended: true })
            }
        }
    }
}

/// Returns a message, or an unreadable frame if the text is not UTF-8.
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

/// Writes one message per line. An accepted message is written completely, even if its sender stops waiting.
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
        if self.buffer.capacity() > MAX_BUFFERED_BYTES {
            self.buffer = BytesMut::new();
        }
        Pin::new(&mut self.writer).poll_flush(cx)
    }
}

impl<W: AsyncWrite + Unpin> Sink<Bytes> for LineSink<W> {
    type Error = io::Error;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.buffer.len() < MAX_BUFFERED_BYTES { Poll::Ready(Ok(())) } else { self.poll_write_out(cx) }
    }

    fn start_send(mut self: Pin<&mut Self>, message: Bytes) -> io::Result<()> {
        let start = self.buffer.len();
        self.buffer.reserve(message.len() + 1);
        self.buffer.extend_from_slice(&message);
        // Line breaks in JSON can only be whitespace between tokens. Replaced by spaces, so that a message is one line.
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
