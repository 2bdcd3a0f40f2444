//! An answer that comes as a stream of events: what is said before it, the answer, what is said after it, and how a stream
//! that breaks before its answer is taken up again.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use tokio::time::Instant;
use wharf_io::{Body, SseError, SseReader};

use super::exchange::{Exchange, Spoken};
use super::governor::Governor;
use super::poster::REST;
use crate::transport::{Frame, MAX_MESSAGE_BYTES, PostError, Reply};
use crate::wire::{Found, Message, find_id, read_shared};

/// How long the end of a stream may come after its answer for the caller to wait for it: then the next call finds the
/// connection free.
const MOMENT: Duration = Duration::from_millis(5);

/// Reads the events of an answer until the answer itself comes. What comes before it, and after, goes its way.
pub(super) async fn follow(exchange: &Exchange, body: Body, id: u64, spoken: &Spoken) -> Result<Reply, PostError> {
    let mut events = SseReader::new(body, MAX_MESSAGE_BYTES);
    let (mut passed_on, mut last) = (false, None);
    let mut governor = Governor::hasty();
    loop {
        let (opened, mut useful) = (Instant::now(), false);
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
                Classified::Answer { reply, text, given } if !exchange.is_anothers(given, id) => {
                    if !passed_on {
                        finish(exchange, events).await;
                        return Ok(reply);
                    }
                    // What came before must be heard before.
                    drop(reply);
                    exchange.pass_on(Frame::AnswerTo(id, Arc::unwrap_or_clone(text))).await;
                    // Whoever waits has it now, and will not wait for the rest.
                    exchange.spawn(rest_in_time(rest(exchange, events)));
                    return Ok(Reply::Elsewhere);
                }
                Classified::Answer { reply, text, .. } => {
                    drop(reply);
                    passed_on = true;
                    exchange.pass_on(Frame::Message(Arc::unwrap_or_clone(text))).await;
                }
                Classified::Broken(reason) => return Err(PostError::Malformed(reason)),
                Classified::Other(text) => {
                    passed_on = true;
                    exchange.pass_on(Frame::Message(text)).await;
                }
            }
        };
        // An event with an id is a promise that the rest can be had, where there is such a thing.
        if let Some(id) = events.last_id().filter(|_| spoken.resumes()) {
            last = HeaderValue::from_str(id).ok();
        }
        let Some(last) = &last else { return Err(PostError::Lost(broken)) };
        let wish = events.retry();
        let Some(pause) = governor.ended(opened.elapsed(), useful, wish) else { return Err(PostError::Lost(broken)) };
        tokio::time::sleep(pause).await;
        match exchange.events(spoken, Some(last)).await {
            Ok(Some(resumed)) => events = resumed,
            Ok(None) => {}
            Err(reason) => {
                tracing::debug!(reason, "a stream cannot be taken up again");
                return Err(PostError::Lost(broken));
            }
        }
    }
}

/// Reads what is left of a stream after its answer: usually its end, which follows at once.
async fn finish(exchange: &Exchange, events: SseReader) {
    let mut rest = Box::pin(rest(exchange, events));
    if tokio::time::timeout(MOMENT, &mut rest).await.is_err() {
        exchange.spawn(rest_in_time(rest));
    }
}

/// Passes on whatever else a stream says.
fn rest(exchange: &Exchange, mut events: SseReader) -> impl Future<Output = ()> + Send + 'static {
    let frames = exchange.frames();
    async move {
        while let Some(Ok(event)) = events.next().await {
            if let Ok(text) = String::from_utf8(event.data) {
                let _ = frames.send(Frame::Message(text)).await;
            }
        }
    }
}

async fn rest_in_time(rest: impl Future<Output = ()> + Send + 'static) {
    let _ = tokio::time::timeout(REST, rest).await;
}

/// What a text is to the caller who waits for an answer.
pub(super) enum Classified {
    /// An answer, the text it stands in, and the id it bears.
    Answer { reply: Reply, text: Arc<String>, given: Option<u64> },
    /// Meant as the answer, and broken.
    Broken(String),
    /// Anything else.
    Other(String),
}

/// What a text is that came where only the answer to this request can come.
pub(super) fn classify_sole(text: String, id: u64) -> Classified {
    match classify(text, id) {
        Classified::Other(text) => {
            let broken = read_shared(&Arc::new(text.clone())).broken;
            broken.into_iter().next().map_or(Classified::Other(text), |(_, reason)| Classified::Broken(reason))
        }
        other => other,
    }
}

/// Whether there is an answer, or something that claims to be one, among the messages of a batch.
pub(super) fn answers_something(text: &str) -> bool {
    let messages = read_shared(&Arc::new(text.to_owned())).messages;
    messages.iter().any(|message| matches!(message, Message::Answer { .. } | Message::Nonsense { .. }))
}

fn classify(text: String, id: u64) -> Classified {
    let text = Arc::new(text);
    let mut reading = read_shared(&text);
    match (reading.messages.pop(), reading.messages.is_empty(), reading.noise.is_none()) {
        (Some(Message::Answer { id: given, well_typed, answer }), true, true) => {
            let well_addressed = well_typed && given == Some(id);
            Classified::Answer { reply: Reply::Answer { answer, well_addressed }, text, given }
        }
        (Some(Message::Nonsense { id: given, reason }), true, true) if given.is_none_or(|given| given == id) => {
            Classified::Broken(reason)
        }
        (None, _, true) if !reading.broken.is_empty() && may_answer(&text, id) => {
            Classified::Broken(reading.broken.swap_remove(0).1)
        }
        (message, _, _) => {
            drop((message, reading));
            Classified::Other(Arc::unwrap_or_clone(text))
        }
    }
}

/// Whether a broken text may have been the answer to this request.
fn may_answer(text: &str, id: u64) -> bool {
    match find_id(text.as_bytes(), b"") {
        Found::AnswerTo(given) => given == id,
        Found::NoAnswer => false,
        Found::Unknown => true,
    }
}

pub(super) fn utf8(bytes: Vec<u8>) -> Result<String, PostError> {
    String::from_utf8(bytes)
        .map_err(|error| PostError::Malformed(format!("it is not UTF-8 at byte {}", error.utf8_error().valid_up_to())))
}
