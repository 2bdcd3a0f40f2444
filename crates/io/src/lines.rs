//! Reads lines of bytes from an untrusted stream: whole lines up to a limit, and events for longer ones.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use memchr::memchr;
use tokio::io::AsyncRead;
use tokio_util::io::poll_read_buf;

/// Bytes to store of the start and of the end of an oversized line.
const EXCERPT_BYTES: usize = 4 * 1024;
/// Minimum buffer space for a read.
const READ_BYTES: usize = 16 * 1024;
/// Minimum buffer space for a read in a long line.
const LONG_READ_BYTES: usize = 256 * 1024;
/// Lines of at least this size take over the buffer instead of being copied.
const TAKE_BUFFER_BYTES: usize = 32 * 1024;

/// An event of the reader.
#[derive(Debug, PartialEq, Eq)]
pub enum LineEvent {
    /// A whole line without its line feed.
    Line(Vec<u8>),
    /// The bytes after the last line feed at the end of the stream: a last line without one, or an incomplete line.
    Unfinished(Vec<u8>),
    /// The start of a line that exceeds the limit. The rest of it is skipped.
    TooLong {
        /// Its first bytes.
        head: Vec<u8>,
    },
    /// The end of an oversized line.
    TooLongEnd {
        /// Its last bytes.
        tail: Vec<u8>,
        /// Its length in bytes.
        length: u64,
    },
}

/// Reads lines from `R`. Never buffers more than the limit and one read.
#[derive(Debug)]
pub struct LineReader<R> {
    source: R,
    max_bytes: usize,
    endless: u64,
    buffer: Vec<u8>,
    /// The start of the current line in the buffer.
    start: usize,
    /// How far the buffer has been searched for a line feed.
    searched: usize,
    skipping: Option<Skipped>,
}

#[derive(Debug)]
struct Skipped {
    length: u64,
    tail: Vec<u8>,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Reads lines of at most `max_bytes` from `source`.
    pub fn new(source: R, max_bytes: usize) -> Self {
        Self { source, max_bytes, endless: u64::MAX, buffer: Vec::new(), start: 0, searched: 0, skipping: None }
    }

    /// Fails for a line of more than this many bytes, which is considered endless.
    #[must_use]
    pub fn endless_after(mut self, bytes: u64) -> Self {
        self.endless = bytes;
        self
    }

    /// Returns the next event, or `None` at the end of the stream. Cancel safe.
    pub async fn next(&mut self) -> io::Result<Option<LineEvent>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Polls for the next event; `None` at the end of the stream.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<LineEvent>>> {
        loop {
            if let Some(event) = self.buffered() {
                return Poll::Ready(Ok(Some(event)));
            }
            if self.skipping.as_ref().is_some_and(|skipped| skipped.length > self.endless) {
                return Poll::Ready(Err(io::Error::other("a line without end")));
            }
            self.reserve();
            if ready!(poll_read_buf(Pin::new(&mut self.source), cx, &mut self.buffer))? == 0 {
                return Poll::Ready(Ok(self.at_end()));
            }
        }
    }

    fn buffered(&mut self) -> Option<LineEvent> {
        let line_feed = memchr(b'\n', &self.buffer[self.searched..]).map(|at| self.searched + at);
        if let Some(skipped) = &mut self.skipping {
            let end = line_feed.unwrap_or(self.buffer.len());
            skipped.add(&self.buffer[self.start..end]);
            self.consume(line_feed.map_or(end, |at| at + 1));
            line_feed?;
            return self.skipping.take().map(Skipped::end);
        }
        if line_feed.unwrap_or(self.buffer.len()) - self.start > self.max_bytes {
            let head = self.buffer[self.start..self.start + EXCERPT_BYTES.min(self.max_bytes)].to_vec();
            self.skipping = Some(Skipped { length: 0, tail: Vec::new() });
            self.searched = self.start;
            return Some(LineEvent::TooLong { head });
        }
        let Some(end) = line_feed else {
            self.searched = self.buffer.len();
            return None;
        };
        Some(LineEvent::Line(self.take_line(end)))
    }

    fn take_line(&mut self, end: usize) -> Vec<u8> {
        let whole_buffer = self.start == 0 && end + 1 == self.buffer.len();
        if whole_buffer && end >= TAKE_BUFFER_BYTES {
            let mut line = std::mem::take(&mut self.buffer);
            line.truncate(end);
            self.searched = 0;
            return line;
        }
        let line = self.buffer[self.start..end].to_vec();
        self.consume(end + 1);
        line
    }

    fn consume(&mut self, to: usize) {
        if to == self.buffer.len() {
            self.buffer.clear();
            if self.buffer.capacity() > 4 * TAKE_BUFFER_BYTES {
                self.buffer = Vec::new();
            }
            self.start = 0;
        } else {
            self.start = to;
        }
        self.searched = self.start;
    }

    /// Reserves buffer space for a read. The buffer doubles, but never exceeds the limit and one read.
    fn reserve(&mut self) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        let room = self.buffer.capacity() - self.buffer.len();
        let least = if self.buffer.len() >= TAKE_BUFFER_BYTES { LONG_READ_BYTES } else { READ_BYTES };
        if room < least {
            let limit = (self.max_bytes + least).saturating_sub(self.buffer.len());
            self.buffer.reserve_exact(self.buffer.len().min(limit).max(least));
        }
    }

    fn at_end(&mut self) -> Option<LineEvent> {
        if let Some(skipped) = self.skipping.take() {
            return Some(skipped.end());
        }
        let rest = self.buffer.split_off(self.start);
        self.consume(self.buffer.len());
        (!rest.is_empty()).then_some(LineEvent::Unfinished(rest))
    }
}

impl Skipped {
    fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(EXCERPT_BYTES)..]);
        let surplus = self.tail.len().saturating_sub(EXCERPT_BYTES);
        self.tail.drain(..surplus);
    }

    fn end(self) -> LineEvent {
        LineEvent::TooLongEnd { tail: self.tail, length: self.length }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio::io::AsyncWriteExt as _;

    /// Feeds `bytes` in slices of `slice` and collects the events.
    fn events(bytes: &[u8], slice: usize, longest: usize) -> Vec<LineEvent> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut writer, reader) = tokio::io::duplex(slice);
            let mut lines = LineReader::new(reader, longest);
            let write = async {
                writer.write_all(bytes).await.unwrap();
                drop(writer);
            };
            let read = async {
                let mut events = Vec::new();
                while let Some(event) = lines.next().await.unwrap() {
                    events.push(event);
                }
                events
            };
            tokio::join!(write, read).1
        })
    }

    proptest! {
        #[test]
        fn lines_are_unchanged_for_any_chunk_size(
            lines in prop::collection::vec(prop::collection::vec(1u8..=9, 0..40), 0..12),
            slice in 1usize..50,
        ) {
            let bytes: Vec<u8> = lines.iter().flat_map(|line| line.iter().copied().chain([b'\n'])).collect();
            let whole: Vec<LineEvent> = lines.into_iter().map(LineEvent::Line).collect();
            prop_assert_eq!(events(&bytes, slice, 64), whole);
        }

        #[test]
        fn an_oversized_line_is_reported_and_its_neighbors_are_intact(
            before in prop::collection::vec(1u8..=9, 0..20),
            length in 21usize..300,
            slice in 1usize..64,
        ) {
            let mut bytes = before.clone();
            bytes.push(b'\n');
            bytes.extend(std::iter::repeat_n(b'x', length));
            bytes.extend(b"\nnext\n");
            let expected = vec![
                LineEvent::Line(before),
                LineEvent::TooLong { head: vec![b'x'; 20] },
                LineEvent::TooLongEnd { tail: vec![b'x'; length], length: length as u64 },
                LineEvent::Line(b"next".to_vec()),
            ];
            prop_assert_eq!(events(&bytes, slice, 20), expected);
        }
    }

    #[test]
    fn the_buffer_stays_within_its_limit_for_any_input() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let longest = 1024 * 1024;
            let mut lines = LineReader::new(tokio::io::repeat(b'x'), longest).endless_after(16 * 1024 * 1024);
            assert!(matches!(lines.next().await.unwrap(), Some(LineEvent::TooLong { .. })));
            assert!(lines.buffer.capacity() <= longest + 2 * LONG_READ_BYTES, "{}", lines.buffer.capacity());
            let endless = lines.next().await.unwrap_err();
            assert_eq!(endless.to_string(), "a line without end");
        });
    }

    #[test]
    fn bytes_after_the_last_line_feed_are_unfinished() {
        assert_eq!(events(b"a\nb", 1, 9), [LineEvent::Line(b"a".to_vec()), LineEvent::Unfinished(b"b".to_vec())]);
    }
}
