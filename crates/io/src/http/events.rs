//! Server-sent events from a body: with a size limit, all line endings, and detection of truncated events.
//!
//! Handwritten, because existing crates accept events of any length, or decode text before its length is known.

use std::mem::take;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::poll_fn;

use super::body::{Body, BodyError};

/// Longer ids are ignored.
const MAX_ID_BYTES: usize = 4096;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The event type; `message` by default.
    pub kind: String,
    /// The data: lines joined by line feeds.
    pub data: Vec<u8>,
}

/// Why reading events failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// An event is longer than allowed.
    #[error("an event is longer than {} MiB", .0 / (1024 * 1024))]
    TooLong(usize),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(String),
}

/// Reads events from a body.
#[derive(Debug)]
pub struct SseReader {
    body: Body,
    parser: Parser,
}

impl SseReader {
    /// Reads events of at most `max_bytes`.
    pub fn new(body: Body, max_bytes: usize) -> Self {
        Self { body, parser: Parser { max_bytes, first: true, ..Parser::default() } }
    }

    /// Returns the next event, or `None` at the end of the stream. Discards an incomplete event at the end.
    pub async fn next(&mut self) -> Option<Result<SseEvent, SseError>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Polls for the next event, like [`SseReader::next`].
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<SseEvent, SseError>>> {
        loop {
            match self.parser.next() {
                Ok(Some(event)) => return Poll::Ready(Some(Ok(event))),
                Ok(None) => {}
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
            match ready!(self.body.poll_chunk(cx)) {
                Some(Ok(chunk)) => self.parser.input = chunk,
                Some(Err(BodyError::Broken(reason))) => return Poll::Ready(Some(Err(SseError::Broken(reason)))),
                Some(Err(BodyError::TooLong(limit))) => return Poll::Ready(Some(Err(SseError::TooLong(limit)))),
                None => return Poll::Ready(None),
            }
        }
    }

    /// Returns the last event id.
    pub fn last_id(&self) -> Option<&str> {
        self.parser.last_id.as_deref()
    }

    /// Returns the reconnection delay that the stream requested.
    pub fn retry(&self) -> Option<Duration> {
        self.parser.retry
    }
}

#[derive(Debug, Default)]
struct Parser {
    input: Bytes,
    line: Vec<u8>,
    /// Whether the last byte was a carriage return, which a following line feed belongs to.
    after_return: bool,
    /// Whether this is the first line, which may start with a byte order mark.
    first: bool,
    kind: String,
    data: Vec<u8>,
    has_data: bool,
    pending_id: Option<String>,
    last_id: Option<String>,
    retry: Option<Duration>,
    max_bytes: usize,
}

impl Parser {
    /// Returns the next event of the input; `None` when the input is consumed.
    fn next(&mut self) -> Result<Option<SseEvent>, SseError> {
        while !self.input.is_empty() {
            if take(&mut self.after_return) && self.input[0] == b'\n' {
                let _ = self.input.split_to(1);
                continue;
            }
            let end = self.input.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let chunk = self.input.split_to(end.unwrap_or(self.input.len()));
            if self.line.len() + self.data.len() + chunk.len() > self.max_bytes {
                return Err(SseError::TooLong(self.max_bytes));
            }
            let Some(_) = end else {
                self.line.extend_from_slice(&chunk);
                return Ok(None);
            };
            self.after_return = self.input.split_to(1)[0] == b'\r';
            // Most lines arrive whole and need no copy.
            let event = if self.line.is_empty() {
                self.on_line(&chunk)
            } else {
                let mut line = take(&mut self.line);
                line.extend_from_slice(&chunk);
                self.on_line(&line)
            };
            if event.is_some() {
                return Ok(event);
            }
        }
        Ok(None)
    }

    fn on_line(&mut self, line: &[u8]) -> Option<SseEvent> {
        let line = if take(&mut self.first) { line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line) } else { line };
        if line.is_empty() {
            return self.event();
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let field = &line[..colon];
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if take(&mut self.has_data) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
                self.has_data = true;
            }
            b"event" => self.kind = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) && value.len() <= MAX_ID_BYTES => {
                self.pending_id = Some(String::from_utf8_lossy(value).into_owned());
            }
            b"retry" => {
                let milliseconds = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                if let Some(milliseconds) = milliseconds {
                    self.retry = Some(Duration::from_millis(milliseconds));
                }
            }
            _ => {}
        }
        None
    }

    /// Completes an event at a blank line. Without data there is no event, but its id and retry delay apply. The id applies
    /// only now: a truncated event must be requested again.
    fn event(&mut self) -> Option<SseEvent> {
        if let Some(id) = self.pending_id.take() {
            self.last_id = Some(id);
        }
        let kind = take(&mut self.kind);
        let data = take(&mut self.data);
        if !take(&mut self.has_data) {
            return None;
        }
        let kind = if kind.is_empty() { "message".to_owned() } else { kind };
        Some(SseEvent { kind, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parser(max_bytes: usize) -> Parser {
        Parser { max_bytes, first: true, ..Parser::default() }
    }

    fn parse(parser: &mut Parser, chunks: &[&[u8]]) -> Result<Vec<SseEvent>, SseError> {
        let mut events = Vec::new();
        for chunk in chunks {
            parser.input = Bytes::copy_from_slice(chunk);
            while let Some(event) = parser.next()? {
                events.push(event);
            }
        }
        Ok(events)
    }

    fn formatted(text: &str) -> Vec<String> {
        let events = parse(&mut parser(1000), &[text.as_bytes()]).unwrap();
        let format = |event: SseEvent| format!("{}: {:?}", event.kind, String::from_utf8_lossy(&event.data));
        events.into_iter().map(format).collect()
    }

    #[test]
    fn events_are_read_as_the_standard_has_it() {
        assert_eq!(
            formatted("data: one\n\ndata:two\r\n\r\ndata:  three\r\r"),
            [r#"message: "one""#, r#"message: "two""#, r#"message: " three""#]
        );
        assert_eq!(formatted("\u{feff}event: endpoint\ndata: /m\n\n"), [r#"endpoint: "/m""#]);
        assert_eq!(
            formatted("data: a\ndata\ndata: b\nid: 7\n\n: comment\n\ndata: c\n\n"),
            [r#"message: "a\n\nb""#, r#"message: "c""#]
        );
        assert_eq!(formatted("id: 8\nretry: 5\n\ndata: x"), Vec::<String>::new());
        assert_eq!(formatted("data: cut"), Vec::<String>::new());
    }

    #[test]
    fn the_id_of_an_event_that_is_cut_off_does_not_count() {
        let mut parser = parser(1000);
        parse(&mut parser, &[b"id: 6\ndata: a\n\nid: 7\ndata: {\"half"]).unwrap();
        assert_eq!(parser.last_id.as_deref(), Some("6"));
        parse(&mut parser, &[b"\"}\n\nid: 8\n\n"]).unwrap();
        assert_eq!(parser.last_id.as_deref(), Some("8"));
    }

    #[test]
    fn an_event_that_is_too_long_is_refused_before_it_has_come() {
        let long = vec![b'x'; 600];
        let mut parser = parser(1000);
        assert_eq!(parse(&mut parser, &[b"data: ", &long]), Ok(Vec::new()));
        assert_eq!(parse(&mut parser, &[&long]), Err(SseError::TooLong(1000)));
    }

    proptest! {
        #[test]
        fn where_the_pieces_are_cut_makes_no_difference(
            text in "(data: ?[a-z]{0,5}(\r\n|\n|\r)|id:[0-9](\n|\r\n)|:[a-z]*(\r|\n)|(\n|\r\n|\r)){0,12}",
            cuts in prop::collection::vec(0usize..80, 0..6),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            prop_assert_eq!(parse(&mut parser(1000), &chunks), parse(&mut parser(1000), &[bytes]));
        }
    }
}
