//! A model with prepared answers: traces by the prompt they answer. No request is sent.
//!
//! The file is a JSON object that maps the MD5 digest of a prompt, in hexadecimal digits, to a trace:
//!
//! ```json
//! {"5b63a1e1b5ce3d1f1f7d3a9e9e9f0c11": "It is 42.",
//!  "0c0f3d7e6a0c1d6b8f6a5f7d8e9a0b1c": {"trace_messages": [{"role": "assistant", "content": "It is 43."}]}}
//! ```
//!
//! A trace is an answer, a whole [raw trace](crate::raw_trace), or the JSON form of an
//! [`AgentResult`](crate::AgentResult), of which `trace_messages` is required. The JSON form is exact; text from other
//! programs may contain lines that look like messages.

mod result;
mod text;

use std::collections::HashMap;

use wharf_protocol::{BoxFuture, Message, Role};

use crate::{
    Capabilities, Delta, Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse, PreparedRun, StopReason, md5,
};
use result::RecordedResult;

/// A model with prepared traces. It does not call tools.
#[derive(Debug)]
pub struct Manual {
    name: String,
    traces: HashMap<String, Trace>,
}

/// A trace as written in the file.
#[derive(Debug)]
enum Trace {
    Text(String),
    Result(Box<RecordedResult>),
}

impl Manual {
    /// Parses the traces of a JSON text.
    ///
    /// # Errors
    /// Returns an error if the text is not an object of traces by MD5 digest.
    pub fn parse(name: impl Into<String>, text: &str) -> Result<Self, String> {
        let values: HashMap<String, serde_json::Value> =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        let is_digest = |hash: &str| hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut traces = HashMap::with_capacity(values.len());
        for (key, value) in values {
            if !is_digest(&key) {
                return Err(format!("invalid key `{key}`: expected the MD5 digest of a prompt, 32 hexadecimal digits"));
            }
            let trace = match value {
                serde_json::Value::String(text) => Trace::Text(text),
                // Read by its own type, so that errors are about it.
                value => serde_json::from_value(value)
                    .map(|result| Trace::Result(Box::new(result)))
                    .map_err(|error| format!("invalid trace `{key}`: {error}"))?,
            };
            traces.insert(key.to_ascii_lowercase(), trace);
        }
        Ok(Self { name: name.into(), traces })
    }

    /// Returns the trace of a prompt.
    fn run(&self, prompt: &str) -> Result<PreparedRun, ModelError> {
        let hash = question_hash(prompt);
        let Some(trace) = self.traces.get(&hash) else {
            let message = format!("no trace for this prompt (MD5 digest {hash})");
            return Err(ModelError::new(ModelErrorKind::Exhausted, message));
        };
        let run = match trace {
            Trace::Text(text) => text::parse(text),
            Trace::Result(result) => result.to_run(),
        };
        let run = run.map_err(|reason| {
            ModelError::new(ModelErrorKind::Exhausted, format!("trace {hash} cannot be replayed: {reason}"))
        })?;
        Ok(PreparedRun { model: run.model.or_else(|| Some(self.name.clone())), ..run })
    }

    /// Returns the final answer of a prompt's trace.
    fn answer(&self, prompt: &str) -> Result<ModelResponse, ModelError> {
        let run = self.run(prompt)?;
        let is_answer = |message: &Message| message.role == Role::Assistant && message.calls().next().is_none();
        let answer = run.messages.into_iter().next_back().filter(is_answer);
        let Some(message) = answer.filter(|message| !message.plain_text().trim().is_empty()) else {
            let message = format!("trace {} has no answer", question_hash(prompt));
            return Err(ModelError::new(ModelErrorKind::Exhausted, message));
        };
        let stop = run.stop_reason.unwrap_or(StopReason::EndTurn);
        let usage = message.usage.unwrap_or_default();
        Ok(ModelResponse { message, stop, model: run.model.unwrap_or_default(), id: None, usage })
    }
}

/// Returns the key of a prompt in a trace file: its MD5 digest in hexadecimal digits.
pub fn question_hash(prompt: &str) -> String {
    md5::hex_digest(prompt)
}

fn prompt_of(messages: &[Message]) -> String {
    messages.iter().rfind(|message| message.role == Role::User).map(Message::plain_text).unwrap_or_default()
}

impl Model for Manual {
    fn interface(&self) -> &'static str {
        "manual"
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { system_prompt: true, ..Capabilities::default() }
    }

    fn prepared(&self, messages: &[Message]) -> Option<Result<PreparedRun, ModelError>> {
        Some(self.run(&prompt_of(messages)))
    }

    fn complete<'a>(&'a self, request: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        let answer = self.answer(&prompt_of(request.messages));
        if let Ok(answer) = &answer {
            (request.on_delta)(Delta::Text(answer.message.plain_text()));
        }
        Box::pin(std::future::ready(answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_found_by_the_digest_of_the_prompt() {
        assert_eq!(question_hash(""), "d41d8cd98f00b204e9800998ecf8427e");
        let model =
            Manual::parse("m", &format!(r#"{{"{}": "42"}}"#, question_hash("How much?").to_uppercase())).unwrap();
        assert_eq!(model.answer("How much?").unwrap().message.plain_text(), "42");
        let unknown = model.answer("How many?").unwrap_err();
        assert!(unknown.kind == ModelErrorKind::Exhausted && unknown.message.contains(&question_hash("How many?")));
        assert!(Manual::parse("m", r#"{"How much?": "42"}"#).unwrap_err().contains("expected the MD5 digest"));
        let invalid = format!(r#"{{"{}": {{"messages": []}}}}"#, question_hash("x"));
        assert!(Manual::parse("m", &invalid).unwrap_err().contains("missing field `trace_messages`"));
    }
}
