//! Answers that arrive as an event stream: forwards the messages before and after the answer, and resumes a stream that
//! breaks before it.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use tokio::time::Instant;
use wharf_io::{Body, SseError, SseReader};

use super::exchange::{Exchange, NegotiatedHeaders};
use super::post::DRAIN_TIMEOUT;
use super::reconnect::ReconnectBackoff;
use crate::jsonrpc::{FoundId, Message, find_id, read_shared};
use crate::transport::{Frame, MAX_MESSAGE_BYTES, PostError, Reply};

/// How long a caller waits for the end of the stream after its answer, so that the next call can reuse the connection.
const STREAM_END_WAIT: Duration = Duration::from_millis(5);

/// Reads events until the answer arrives. Forwards all other messages to the reader.
pub(super) async fn read_answer(
    exchange: &Exchange,
    body: Body,
    id: u64,
    negotiated: &NegotiatedHeaders,
) -> Result<Reply, PostError> {
    let mut events = SseReader::new(body, MAX_MESSAGE_BYTES);
    let mut forwarded = false;
    let mut last = None;
    let mut backoff = ReconnectBackoff::for_answer();
    loop {
        let opened_at = Instant::now();
        let mut useful = false;
        let broken = loop {
            let event = match events.next().await {
                Some(Ok(event)) if event.kind == "message" && !event.data.trim_ascii().is_empty() => event,
                Some(Ok(_)) => continue,
                Some(Err(error @ SseError::TooLong(_))) => return Err(PostError::Malformed(error.to_string())),
                Some(Err(SseError::Broken(reason))) => break format!("broke the stream ({reason})"),
                None => break "ended the stream".to_owned(),
            };
            useful = true;
            match classify(utf8(event.data)?, id) {
                Classified::Answer { reply, text, answered } if !exchange.is_other_request(answered, id) => {
                    if !forwarded {
                        finish(exchange, events).await;
                        return Ok(reply);
                    }
                    // Forwarded too, so that it arrives after the messages before it.
                    drop(reply);
                    exchange.forward(Frame::AnswerTo(id, Arc::unwrap_or_clone(text))).await;
                    // The caller has its answer now and does not wait for the rest.
                    exchange.spawn(drain_in_time(drain(exchange, events)));
                    return Ok(Reply::Elsewhere);
                }
                Classified::Answer { reply, text, .. } => {
                    drop(reply);
                    forwarded = true;
                    exchange.forward(Frame::Message(Arc::unwrap_or_clone(text))).await;
                }
                Classified::Broken(reason) => return Err(PostError::Malformed(reason)),
                Classified::Other(text) => {
                    forwarded = true;
                    exchange.forward(Frame::Message(text)).await;
                }
            }
        };
        // An event id means that the rest of the stream can be requested, in eras that have that.
        if negotiated.is_resumable()
            && let Some(id) = events.last_id()
        {
            last = HeaderValue::from_str(id).ok();
        }
        let Some(last) = &last else { return Err(PostError::Lost(broken)) };
        let delay = backoff.next_delay(opened_at.elapsed(), useful, events.retry());
        let Some(delay) = delay else { return Err(PostError::Lost(broken)) };
        tokio::time::sleep(delay).await;
        match exchange.events(negotiated, Some(last)).await {
            Ok(Some(resumed)) => events = resumed,
            Ok(None) => {}
            Err(reason) => {
                tracing::debug!(reason, "cannot resume an answer stream");
                return Err(PostError::Lost(broken));
            }
        }
    }
}

/// Reads the rest of a stream after its answer: usually only its end, which follows immediately.
async fn finish(exchange: &Exchange, events: SseReader) {
    let mut rest = Box::pin(drain(exchange, events));
    if tokio::time::timeout(STREAM_END_WAIT, &mut rest).await.is_err() {
        exchange.spawn(drain_in_time(rest));
    }
}

/// Forwards the rest of a stream.
fn drain(exchange: &Exchange, mut events: SseReader) -> impl Future<Output = ()> + Send + 'static {
    let frames = exchange.frames();
    async move {
        while let Some(Ok(event)) = events.next().await {
            if let Ok(text) = String::from_utf8(event.data) {
                let _ = frames.send(Frame::Message(text)).await;
            }
        }
    }
}

async fn drain_in_time(rest: impl Future<Output = ()> + Send + 'static) {
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, rest).await;
}

/// What a text is to a caller that waits for an answer.
pub(super) enum Classified {
    /// An answer, its text, and the id it has.
    Answer { reply: Reply, text: Arc<String>, answered: Option<u64> },
    /// An answer that cannot be parsed.
    Broken(String),
    /// Anything else.
    Other(String),
}

/// Classifies a body that can contain only the answer to this request.
pub(super) fn classify_sole(text: String, id: u64) -> Classified {
    match classify(text, id) {
        Classified::Other(text) => {
            let broken = read_shared(&Arc::new(text.clone())).broken;
            broken.into_iter().next().map_or(Classified::Other(text), |(_, reason)| Classified::Broken(reason))
        }
        other => other,
    }
}

/// Returns whether a batch contains an answer, valid or not.
pub(super) fn contains_answer(text: &str) -> bool {
    let messages = read_shared(&Arc::new(text.to_owned())).messages;
    messages.iter().any(|message| matches!(message, Message::Answer { .. } | Message::Invalid { .. }))
}

fn classify(text: String, id: u64) -> Classified {
    let text = Arc::new(text);
    let mut frame = read_shared(&text);
    match (frame.messages.pop(), frame.messages.is_empty(), frame.noise.is_none()) {
        (Some(Message::Answer { id: answered, well_typed, answer }), true, true) => {
            let well_addressed = well_typed && answered == Some(id);
            let reply = Reply::Answer { answer, well_addressed, text: Some(Arc::clone(&text)) };
            Classified::Answer { reply, text, answered }
        }
        (Some(Message::Invalid { id: answered, reason }), true, true)
            if answered.is_none_or(|answered| answered == id) =>
        {
            Classified::Broken(reason)
        }
        (None, _, true) if !frame.broken.is_empty() && may_answer(&text, id) => {
            Classified::Broken(frame.broken.swap_remove(0).1)
        }
        (message, _, _) => {
            drop((message, frame));
            Classified::Other(Arc::unwrap_or_clone(text))
        }
    }
}

/// Returns whether a broken text may be the answer to this request.
fn may_answer(text: &str, id: u64) -> bool {
    match find_id(text.as_bytes(), b"") {
        FoundId::AnswerTo(answered) => answered == id,
        FoundId::NotAnAnswer => false,
        FoundId::Unknown => true,
    }
}

pub(super) fn utf8(bytes: Vec<u8>) -> Result<String, PostError> {
    String::from_utf8(bytes)
        .map_err(|error| PostError::Malformed(format!("it is not UTF-8 at byte {}", error.utf8_error().valid_up_to())))
}
