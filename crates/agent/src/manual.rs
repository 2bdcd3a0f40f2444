//! A model with prepared answers: traces by the prompt they answer. No request is sent.
//!
//! The file is a JSON object that maps the MD5 digest of a prompt, in hexadecimal digits, to a trace:
//!
//! ```json
//! {"5b63a1e1b5ce3d1f1f7d3a9e9e9f0c11": "It is 42."}
//! ```
//!
//! A trace is the answer, or a whole [raw trace](crate::raw_trace) whose last message is the answer.

use std::collections::HashMap;

use wharf_protocol::{BoxFuture, Message, Role, Usage};

use crate::{Capabilities, Delta, Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse, StopReason, md5};

/// A model with prepared traces. It does not call tools.
#[derive(Debug)]
pub struct Manual {
    name: String,
    traces: HashMap<String, String>,
}

impl Manual {
    /// Parses the traces of a JSON text.
    ///
    /// # Errors
    /// Returns an error if the text is not an object of traces by MD5 digest.
    pub fn parse(name: impl Into<String>, text: &str) -> Result<Self, String> {
        let traces: HashMap<String, String> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let is_digest = |hash: &str| hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        match traces.keys().find(|hash| !is_digest(hash)) {
            Some(key) => {
                Err(format!("invalid key `{key}`: expected the MD5 digest of a prompt, 32 hexadecimal digits"))
            }
            None => Ok(Self {
                name: name.into(),
                traces: traces.into_iter().map(|(hash, trace)| (hash.to_ascii_lowercase(), trace)).collect(),
            }),
        }
    }

    fn answer(&self, prompt: &str) -> Result<ModelResponse, ModelError> {
        let hash = question_hash(prompt);
        let Some(trace) = self.traces.get(&hash) else {
            let message = format!("no trace for this prompt (MD5 digest {hash})");
            return Err(ModelError::new(ModelErrorKind::Exhausted, message));
        };
        let text = answer_of(trace).map_err(|reason| {
            ModelError::new(ModelErrorKind::Malformed, format!("trace {hash} has no answer: {reason}"))
        })?;
        Ok(ModelResponse {
            message: Message::text(Role::Assistant, text),
            stop: StopReason::EndTurn,
            model: self.name.clone(),
            id: None,
            usage: Usage::default(),
        })
    }
}

/// Returns the key of a prompt in a trace file: its MD5 digest in hexadecimal digits.
pub fn question_hash(prompt: &str) -> String {
    md5::hex_digest(prompt)
}

/// Returns the answer of a trace: the whole text, or the text of its last message.
fn answer_of(trace: &str) -> Result<String, &'static str> {
    let is_heading = |line: &str| line.starts_with("--- ") && line.ends_with(" ---");
    let lines: Vec<&str> = trace.lines().collect();
    let Some(last) = lines.iter().rposition(|line| is_heading(line)) else { return Ok(trace.to_owned()) };
    if lines[last] != "--- AI Message ---" {
        return Err("its last message is not the model's");
    }
    let text_lines = lines[last + 1..].iter().take_while(|line| **line != "Tool Calls:");
    let text = text_lines.copied().collect::<Vec<_>>().join("\n");
    let text = text.trim();
    if text.is_empty() { Err("its last message only calls tools") } else { Ok(text.to_owned()) }
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

    fn complete<'a>(&'a self, request: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        let prompt = request.messages.iter().rfind(|message| message.role == Role::User).map(Message::plain_text);
        let answer = self.answer(&prompt.unwrap_or_default());
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
    }

    #[test]
    fn the_answer_of_a_trace_is_the_text_of_its_last_message() {
        let trace = "--- AI Message ---\nLet me see.\n\nTool Calls:\n  add (call_1)\n\n--- Tool Message (call_id: 1) ---\n42\n\n";
        assert_eq!(answer_of(&format!("{trace}--- AI Message ---\nIt is 42.\n")), Ok("It is 42.".to_owned()));
        assert_eq!(answer_of(trace), Err("its last message is not the model's"));
        assert_eq!(answer_of("--- AI Message ---\n\nTool Calls:\n  add"), Err("its last message only calls tools"));
        assert_eq!(answer_of("just text"), Ok("just text".to_owned()));
    }
}
