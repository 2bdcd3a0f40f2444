//! JSON-RPC messages. Parsing reads only the envelope, in one pass; parameters and results stay raw JSON.

mod find_id;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::{Deserializer, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use wharf_protocol::{Fields, Items, Json};

pub(crate) use find_id::{FoundId, find_id};

/// The maximum number of messages read from one frame.
const MAX_MESSAGES_PER_FRAME: usize = 10_000;
/// The start of a message that follows other text.
const MESSAGE_START: &str = "{\"jsonrpc\"";

/// One message from the server.
#[derive(Debug)]
pub(crate) enum Message {
    /// An answer to a request of this client.
    Answer {
        id: Option<u64>,
        /// Whether the id has the JSON type of the request's id.
        well_typed: bool,
        answer: Result<Json, RpcError>,
    },
    /// An answer without exactly one of result and error.
    Invalid {
        id: Option<u64>,
        reason: String,
    },
    Request {
        id: Json,
        method: String,
        params: Option<Json>,
    },
    Notification {
        method: String,
        params: Option<Json>,
    },
}

/// A JSON-RPC error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Json>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default)]
    jsonrpc: Option<IgnoredAny>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    /// `Some` also for `null`, which is a valid result.
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl Envelope<'_> {
    /// Returns whether this is other output. Servers also log JSON, even with an `error` field. An object without
    /// `jsonrpc` is a message only if its other fields fit one.
    fn is_noise(&self) -> bool {
        if self.jsonrpc.is_some() {
            return false;
        }
        match (&self.id, &self.method) {
            (None, Some(method)) => !method.starts_with("notifications/"),
            (None, None) => true,
            (Some(_), method) => method.is_none() && self.result.is_none() && self.error.is_none(),
        }
    }
}

/// The content of one frame: messages, other output, and messages that cannot be parsed.
#[derive(Debug, Default)]
pub(crate) struct ParsedFrame {
    pub(crate) messages: Vec<Message>,
    /// Text that is not a message.
    pub(crate) noise: Option<String>,
    /// The texts of broken messages, each with the parse error.
    pub(crate) broken: Vec<(String, String)>,
}

/// Parses one frame. Most contain one message. Some servers print text before it without a line break, or two messages
/// on one line.
pub(crate) fn read(text: String) -> ParsedFrame {
    read_shared(&Arc::new(text))
}

/// Like [`read`], for callers that need the text afterwards.
pub(crate) fn read_shared(text: &Arc<String>) -> ParsedFrame {
    let mut frame = ParsedFrame::default();
    let inside = text.trim_start_matches('\u{feff}').trim_ascii();
    if inside.is_empty() {
        return frame;
    }
    if looks_like_a_batch(inside) {
        frame.batch(text, inside);
    } else if inside.starts_with('{') {
        frame.objects(text, inside);
    } else {
        let (noise, rest) = inside.split_at(inside.find(MESSAGE_START).unwrap_or(inside.len()));
        if !rest.is_empty() {
            frame.objects(text, rest);
            // Servers also log the messages they receive, so that only an answer counts after other text.
            frame.messages.retain(|message| matches!(message, Message::Answer { .. }));
            frame.broken.clear();
        }
        frame.noise = Some(noise.to_owned());
    }
    frame
}

/// Returns whether a text looks like a batch (revision 2025-03-26). A log line may start with a bracket too.
fn looks_like_a_batch(text: &str) -> bool {
    text.strip_prefix('[').is_some_and(|rest| rest.trim_ascii_start().starts_with(['{', ']']))
}

impl ParsedFrame {
    /// Parses consecutive objects.
    fn objects(&mut self, text: &Arc<String>, inside: &str) {
        let mut objects = serde_json::Deserializer::from_str(inside).into_iter::<Envelope<'_>>();
        let mut read_to = 0;
        while let Some(object) = objects.next() {
            match object {
                Ok(_) if self.messages.len() == MAX_MESSAGES_PER_FRAME => return,
                Ok(envelope) if envelope.is_noise() => self.noise = Some(inside.to_owned()),
                Ok(envelope) => self.messages.push(message(text, &envelope)),
                Err(error) => return self.add_unparsed(&inside[read_to..], &error),
            }
            read_to = objects.byte_offset();
        }
    }

    fn add_unparsed(&mut self, text: &str, error: &serde_json::Error) {
        if text.contains("\"jsonrpc\"") || text.contains("\"id\"") {
            self.broken.push((text.to_owned(), error.to_string()));
        } else {
            self.noise = Some(text.to_owned());
        }
    }

    /// Parses each message of a batch on its own.
    fn batch(&mut self, text: &Arc<String>, inside: &str) {
        match serde_json::from_str(inside) {
            Ok(Items(parts)) => {
                for part in parts {
                    match serde_json::from_str::<Envelope<'_>>(part.get()) {
                        Ok(envelope) if envelope.is_noise() => self.noise = Some(part.get().to_owned()),
                        Ok(envelope) => self.messages.push(message(text, &envelope)),
                        Err(error) => self.add_unparsed(part.get(), &error),
                    }
                }
            }
            Err(error) => self.add_unparsed(inside, &error),
        }
    }
}

fn message(text: &Arc<String>, envelope: &Envelope<'_>) -> Message {
    let json = |raw: &RawValue| Json::part_of(text, raw);
    if let Some(method) = &envelope.method {
        let method = method.clone().into_owned();
        let params = envelope.params.map(json);
        return match envelope.id.map(json) {
            Some(id) => Message::Request { id, method, params },
            None => Message::Notification { method, params },
        };
    }
    let (id, well_typed) = envelope.id.map_or((None, false), |raw| our_id(raw.get()));
    let answer = match (envelope.result, envelope.error) {
        (Some(result), None) => Ok(json(result)),
        (None, Some(error)) => Err(RpcError::from_json(&json(error))),
        (Some(_), Some(_)) => return Message::Invalid { id, reason: "it has both a result and an error".into() },
        (None, None) => return Message::Invalid { id, reason: "it has neither a result nor an error".into() },
    };
    Message::Answer { id, well_typed, answer }
}

/// Parses an id of this client, which is an integer. Some servers return it as a string or with `.0`. Also returns
/// whether it has the right type.
pub(crate) fn our_id(raw: &str) -> (Option<u64>, bool) {
    if let Ok(id) = raw.parse() {
        return (Some(id), true);
    }
    let bare = raw.trim_matches('"');
    (bare.strip_suffix(".0").unwrap_or(bare).parse().ok(), false)
}

impl RpcError {
    fn from_json(json: &Json) -> Self {
        let Ok(fields) = Fields::of(json) else {
            return Self { code: 0, message: json.to_string(), data: None };
        };
        #[expect(clippy::cast_possible_truncation, reason = "codes are small; an absurd one is only displayed")]
        let code = fields.number("code").ok().flatten().unwrap_or(0.0) as i64;
        let message = fields.text("message").ok().flatten().unwrap_or_else(|| "no message".to_owned());
        Self { code, message, data: fields.json("data") }
    }
}

#[derive(Serialize)]
struct OutgoingMessage<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<P>,
}

/// Serializes a request, or a notification if it has no id.
pub(crate) fn write<P: Serialize>(id: Option<u64>, method: &str, params: Option<P>) -> Bytes {
    encode(&OutgoingMessage { jsonrpc: "2.0", id, method, params })
}

/// Serializes the answer to a request of the server.
pub(crate) fn write_answer(id: &Json, answer: Result<Json, RpcError>) -> Bytes {
    #[derive(Serialize)]
    struct OutgoingAnswer<'a> {
        jsonrpc: &'static str,
        id: &'a Json,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Json>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<serde_json::Value>,
    }
    let (result, error) = match answer {
        Ok(result) => (Some(result), None),
        Err(error) => (None, Some(serde_json::json!({ "code": error.code, "message": error.message }))),
    };
    encode(&OutgoingAnswer { jsonrpc: "2.0", id, result, error })
}

fn encode(message: &impl Serialize) -> Bytes {
    let mut text = Vec::with_capacity(256);
    // Strings, numbers and valid JSON always serialize.
    if let Err(error) = serde_json::to_writer(&mut text, message) {
        tracing::error!(%error, "cannot serialize a message");
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn describe(text: &str) -> String {
        let ParsedFrame { messages, noise, broken } = read(text.to_owned());
        let mut parts: Vec<String> = noise.iter().map(|_| "noise".to_owned()).collect();
        parts.extend(messages.iter().map(|message| format!("{message:?}")));
        parts.extend(broken.iter().map(|(_, reason)| format!("broken: {reason}")));
        if parts.is_empty() { "nothing".to_owned() } else { parts.join(" + ") }
    }

    #[test]
    fn messages_noise_and_broken_text_are_told_apart() {
        let texts = [
            "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{ \"a\": 1.0 }}\r",
            r#"{"id":"2","result":{}}"#,
            r#"{"id":3.0,"error":{"code":-32000,"message":"no","data":[1]}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":"odd"}"#,
            r#"{"id":null,"error":"odd"}"#,
            r#"{"id":4,"result":1,"error":2}"#,
            r#"{"jsonrpc":"2.0","id":5}"#,
            r#"{"id":5,"level":"info","msg":"a log line"}"#,
            r#"{"level":"error","error":"refused"}"#,
            r#"{"method":"GET","path":"/"}"#,
            r#"{"id":9,"result":null,"error":null}"#,
            r#"[{"x":1},{"id":10,"result":true},"x"]"#,
            r#"{"method":"ping","id":"srv-1"}"#,
            r#"{"method":"notifications/x","params":{"p":1}}"#,
            r#"[{"id":6,"result":[]},{"jsonrpc":"2.0","method":"n"}]"#,
            r#"[{"id":11,"id":11},{"id":12,"result":1}]"#,
            r#"Loading...{"jsonrpc":"2.0","id":13,"result":1}"#,
            r#"{"id":14,"result":1}{"id":15,"result":2} {"id":16,"res"#,
            r#"[INFO] request {"id":5} took 3 ms"#,
            r#"received {"jsonrpc":"2.0","id":5,"method":"tools/call"}"#,
            "[info] starting",
            "Server listening",
            "",
            " \t",
            r#"{"id":7,"result":{"#,
            r#"{"id":8,"id":8,"result":{}}"#,
        ];
        insta::assert_snapshot!(texts.map(describe).join("\n"), @r#"
        Answer { id: Some(1), well_typed: true, answer: Ok({ "a": 1.0 }) }
        Answer { id: Some(2), well_typed: false, answer: Ok({}) }
        Answer { id: Some(3), well_typed: false, answer: Err(RpcError { code: -32000, message: "no", data: Some([1]) }) }
        Answer { id: None, well_typed: false, answer: Err(RpcError { code: 0, message: "\"odd\"", data: None }) }
        noise
        Invalid { id: Some(4), reason: "it has both a result and an error" }
        Invalid { id: Some(5), reason: "it has neither a result nor an error" }
        noise
        noise
        noise
        Answer { id: Some(9), well_typed: true, answer: Ok(null) }
        noise + Answer { id: Some(10), well_typed: true, answer: Ok(true) }
        Request { id: "srv-1", method: "ping", params: None }
        Notification { method: "notifications/x", params: Some({"p":1}) }
        Answer { id: Some(6), well_typed: true, answer: Ok([]) } + Notification { method: "n", params: None }
        Answer { id: Some(12), well_typed: true, answer: Ok(1) } + broken: duplicate field `id` at line 1 column 13
        noise + Answer { id: Some(13), well_typed: true, answer: Ok(1) }
        Answer { id: Some(14), well_typed: true, answer: Ok(1) } + Answer { id: Some(15), well_typed: true, answer: Ok(2) } + broken: EOF while parsing a string at line 1 column 54
        noise
        noise
        noise
        noise
        nothing
        nothing
        broken: EOF while parsing an object at line 1 column 18
        broken: duplicate field `id` at line 1 column 12
        "#);
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in r#"[\[\]{}",:a-z0-9 \\]{0,80}|.{0,80}"#) {
            let _ = read(text);
        }

        #[test]
        fn an_answer_after_other_output_is_found(noise in "[^{\\[\n]{0,40}", id: u64) {
            let frame = read(format!(r#"{noise}{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
            let found = matches!(&frame.messages[..], [Message::Answer { id: Some(found), .. }] if *found == id);
            prop_assert!(found, "{frame:?}");
        }

        #[test]
        fn a_damaged_answer_never_completes_another_call(cut in 0usize..70, at in 0usize..70, byte in 0u8..128) {
            let mut text = br#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"id":8,"text":"9"}]}}"#.to_vec();
            if let Some(one) = text.get_mut(at) { *one = byte; }
            text.truncate(cut.max(1));
            let text = String::from_utf8(text).unwrap();
            let digits = text.get(21..24).is_some_and(|id| id.contains('7'));
            for message in read(text).messages {
                if let Message::Answer { id: Some(id), .. } = message {
                    prop_assert!(id == 7 || !digits || id >= 70, "{id}");
                }
            }
        }
    }
}
