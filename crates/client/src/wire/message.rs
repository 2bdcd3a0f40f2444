//! JSON-RPC messages: written once, read in one pass over the outside, the inside left as it is.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::{Deserializer, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use wharf_protocol::{Fields, Json};

/// The most messages that are read of one batch.
const MOST_IN_A_BATCH: usize = 10_000;

/// One message from the server.
#[derive(Debug)]
pub(crate) enum Message {
    /// The answer to one of our requests.
    Answer {
        id: Option<u64>,
        /// Whether the id had the type we sent.
        well_typed: bool,
        answer: Result<Json, RpcError>,
    },
    /// Something that claims to be an answer and is none.
    Nonsense {
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

/// An error as the protocol has it.
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
    /// `null` is a result too.
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl Envelope<'_> {
    /// Servers write their logs as JSON too; an object with nothing of ours in it was never meant for us.
    fn is_noise(&self) -> bool {
        self.jsonrpc.is_none() && self.method.is_none() && self.result.is_none() && self.error.is_none()
    }
}

/// What a text turned out to be.
pub(crate) enum Reading {
    /// Nothing at all.
    Blank,
    /// Text that nobody meant as a message.
    Noise(Arc<String>),
    /// One message, or the messages of a batch.
    Messages(Vec<Message>),
    /// Meant as a message, and broken.
    Broken { text: Arc<String>, reason: String },
}

/// Reads one frame.
pub(crate) fn read(text: String) -> Reading {
    let text = Arc::new(text);
    let inside = text.trim_start_matches('\u{feff}').trim_ascii();
    let parts = match inside.as_bytes().first() {
        None => return Reading::Blank,
        Some(b'{') => match serde_json::from_str(inside) {
            Ok(one) if Envelope::is_noise(&one) => return Reading::Noise(Arc::clone(&text)),
            one => one.map(|one| vec![message(&text, &one)]),
        },
        // The revision of 2025-03-26 has batches; a log line may begin with a bracket too.
        Some(b'[') => {
            serde_json::from_str(inside).map(|Batch(parts)| parts.iter().map(|part| message(&text, part)).collect())
        }
        Some(_) => return Reading::Noise(Arc::clone(&text)),
    };
    match parts {
        Ok(messages) => Reading::Messages(messages),
        Err(error) if inside.contains("\"jsonrpc\"") || inside.contains("\"id\"") => {
            let reason = error.to_string();
            Reading::Broken { text, reason }
        }
        Err(_) => Reading::Noise(Arc::clone(&text)),
    }
}

/// The messages of a batch, up to [`MOST_IN_A_BATCH`]; what is no message is passed over.
struct Batch<'a>(Vec<Envelope<'a>>);

impl<'de> Deserialize<'de> for Batch<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Array;
        impl<'de> Visitor<'de> for Array {
            type Value = Batch<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a batch")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Batch<'de>, A::Error> {
                let mut parts = Vec::new();
                while let Some(raw) = array.next_element::<&RawValue>()? {
                    if parts.len() == MOST_IN_A_BATCH {
                        return Err(A::Error::custom("a batch of too many messages"));
                    }
                    parts.extend(serde_json::from_str(raw.get()).ok().filter(|part: &Envelope<'_>| !part.is_noise()));
                }
                Ok(Batch(parts))
            }
        }
        deserializer.deserialize_seq(Array)
    }
}

fn message(text: &Arc<String>, envelope: &Envelope<'_>) -> Message {
    let json = |raw: &RawValue| Json::part_of(text, raw);
    if let Some(method) = &envelope.method {
        let (method, params) = (method.clone().into_owned(), envelope.params.map(json));
        return match envelope.id.map(json) {
            Some(id) => Message::Request { id, method, params },
            None => Message::Notification { method, params },
        };
    }
    let (id, well_typed) = envelope.id.map_or((None, false), |raw| our_id(raw.get()));
    let answer = match (envelope.result, envelope.error) {
        (Some(result), None) => Ok(json(result)),
        (None, Some(error)) => Err(RpcError::from_json(&json(error))),
        (Some(_), Some(_)) => return Message::Nonsense { id, reason: "it has both a result and an error".into() },
        (None, None) => return Message::Nonsense { id, reason: "it has neither a result nor an error".into() },
    };
    Message::Answer { id, well_typed, answer }
}

/// Our ids are whole numbers. Some servers send them back as text or with a fraction of nothing.
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
        #[expect(clippy::cast_possible_truncation, reason = "codes are small; an absurd one is only shown")]
        let code = fields.number("code").ok().flatten().unwrap_or(0.0) as i64;
        let message = fields.text("message").ok().flatten().unwrap_or_else(|| "no message".to_owned());
        Self { code, message, data: fields.json("data") }
    }
}

#[derive(Serialize)]
struct Written<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<P>,
}

/// Writes a request, or a notification if it has no id.
pub(crate) fn write<P: Serialize>(id: Option<u64>, method: &str, params: Option<P>) -> Bytes {
    encode(&Written { jsonrpc: "2.0", id, method, params })
}

/// Writes the answer to a request of the server.
pub(crate) fn write_answer(id: &Json, answer: Result<Json, RpcError>) -> Bytes {
    #[derive(Serialize)]
    struct Answered<'a> {
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
    encode(&Answered { jsonrpc: "2.0", id, result, error })
}

fn encode(message: &impl Serialize) -> Bytes {
    let mut text = Vec::with_capacity(256);
    // Everything written here is made of texts, numbers and checked JSON; writing it cannot fail.
    if let Err(error) = serde_json::to_writer(&mut text, message) {
        tracing::error!(%error, "a message could not be written");
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        match read(text.to_owned()) {
            Reading::Blank => "blank".into(),
            Reading::Noise(_) => "noise".into(),
            Reading::Broken { reason, .. } => format!("broken: {reason}"),
            Reading::Messages(messages) => messages.iter().map(|m| format!("{m:?}")).collect::<Vec<_>>().join(" + "),
        }
    }

    #[test]
    fn each_text_is_read_for_what_it_is() {
        let texts = [
            "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{ \"a\": 1.0 }}\r",
            r#"{"id":"2","result":{}}"#,
            r#"{"id":3.0,"error":{"code":-32000,"message":"no","data":[1]}}"#,
            r#"{"id":null,"error":"odd"}"#,
            r#"{"id":4,"result":1,"error":2}"#,
            r#"{"jsonrpc":"2.0","id":5}"#,
            r#"{"id":5,"level":"info","msg":"a log line"}"#,
            r#"{"id":9,"result":null,"error":null}"#,
            r#"[1,{"id":10,"result":true},"x"]"#,
            r#"{"method":"ping","id":"srv-1"}"#,
            r#"{"method":"notifications/x","params":{"p":1}}"#,
            r#"[{"id":6,"result":[]},{"method":"n"}]"#,
            "[info] starting",
            "Server listening",
            "",
            " \t",
            r#"{"id":7,"result":{"#,
            r#"{"id":8,"id":8,"result":{}}"#,
        ];
        insta::assert_snapshot!(texts.map(told).join("\n"), @r#"
        Answer { id: Some(1), well_typed: true, answer: Ok({ "a": 1.0 }) }
        Answer { id: Some(2), well_typed: false, answer: Ok({}) }
        Answer { id: Some(3), well_typed: false, answer: Err(RpcError { code: -32000, message: "no", data: Some([1]) }) }
        Answer { id: None, well_typed: false, answer: Err(RpcError { code: 0, message: "\"odd\"", data: None }) }
        Nonsense { id: Some(4), reason: "it has both a result and an error" }
        Nonsense { id: Some(5), reason: "it has neither a result nor an error" }
        noise
        Answer { id: Some(9), well_typed: true, answer: Ok(null) }
        Answer { id: Some(10), well_typed: true, answer: Ok(true) }
        Request { id: "srv-1", method: "ping", params: None }
        Notification { method: "notifications/x", params: Some({"p":1}) }
        Answer { id: Some(6), well_typed: true, answer: Ok([]) } + Notification { method: "n", params: None }
        noise
        noise
        blank
        blank
        broken: EOF while parsing an object at line 1 column 18
        broken: duplicate field `id` at line 1 column 12
        "#);
    }
}
