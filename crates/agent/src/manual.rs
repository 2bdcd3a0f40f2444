//! A model that has answered already: traces by the question they answer, for runs that nobody is to be asked for.
//!
//! The file is a JSON object of traces by the MD5 digest of the question, in hexadecimal digits:
//!
//! ```json
//! {"5b63a1e1b5ce3d1f1f7d3a9e9e9f0c11": "It is 42."}
//! ```
//!
//! A trace is what was answered, or a whole [raw trace](crate::raw_trace), whose last message is the answer.

use std::collections::HashMap;

use wharf_protocol::{BoxFuture, Message, Role, Usage};

use crate::{Capabilities, Delta, Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse, StopReason, md5};

/// A model of recorded traces. It calls no tools, and is offered none.
#[derive(Debug)]
pub struct Manual {
    name: String,
    traces: HashMap<String, String>,
}

impl Manual {
    /// A model by this name, with the traces in a JSON text.
    ///
    /// # Errors
    /// If the text is no object of traces.
    pub fn parse(name: impl Into<String>, text: &str) -> Result<Self, String> {
        let traces: HashMap<String, String> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let odd = traces.keys().find(|hash| hash.len() != 32 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match odd {
            Some(odd) => Err(format!("`{odd}` is no MD5 digest of a question: those have 32 hexadecimal digits")),
            None => Ok(Self {
                name: name.into(),
                traces: traces.into_iter().map(|(hash, trace)| (hash.to_ascii_lowercase(), trace)).collect(),
            }),
        }
    }

    fn answer(&self, question: &str) -> Result<ModelResponse, ModelError> {
        let hash = question_hash(question);
        let Some(trace) = self.traces.get(&hash) else {
            let words = format!("there is no trace for this question, whose digest is {hash}");
            return Err(ModelError::new(ModelErrorKind::Exhausted, words));
        };
        let text = last_words(trace).map_err(|reason| {
            ModelError::new(ModelErrorKind::Malformed, format!("the trace {hash} has no answer: {reason}"))
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

/// What a question is known by.
pub fn question_hash(question: &str) -> String {
    md5::hex_digest(question)
}

/// The answer in a trace: all of it, or what its last message says.
fn last_words(trace: &str) -> Result<String, &'static str> {
    let is_heading = |line: &str| line.starts_with("--- ") && line.ends_with(" ---");
    let lines: Vec<&str> = trace.lines().collect();
    let Some(last) = lines.iter().rposition(|line| is_heading(line)) else { return Ok(trace.to_owned()) };
    if lines[last] != "--- AI Message ---" {
        return Err("its last message is not the model's");
    }
    let said = lines[last + 1..].iter().take_while(|line| **line != "Tool Calls:");
    let text = said.copied().collect::<Vec<_>>().join("\n");
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

    fn ask<'a>(&'a self, ask: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        let question = ask.messages.iter().rfind(|message| message.role == Role::User).map(Message::spoken);
        let answer = self.answer(&question.unwrap_or_default());
        if let Ok(answer) = &answer {
            (ask.listener)(Delta::Text(answer.message.spoken()));
        }
        Box::pin(std::future::ready(answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_known_by_its_digest() {
        assert_eq!(question_hash(""), "d41d8cd98f00b204e9800998ecf8427e");
        let model =
            Manual::parse("m", &format!(r#"{{"{}": "42"}}"#, question_hash("How much?").to_uppercase())).unwrap();
        assert_eq!(model.answer("How much?").unwrap().message.spoken(), "42");
        let unknown = model.answer("How many?").unwrap_err();
        assert!(unknown.kind == ModelErrorKind::Exhausted && unknown.message.contains(&question_hash("How many?")));
        assert!(Manual::parse("m", r#"{"How much?": "42"}"#).unwrap_err().contains("no MD5 digest"));
    }

    #[test]
    fn the_answer_of_a_trace_is_what_its_last_message_says() {
        let trace = "--- AI Message ---\nLet me see.\n\nTool Calls:\n  add (call_1)\n\n--- Tool Message (call_id: 1) ---\n42\n\n";
        assert_eq!(last_words(&format!("{trace}--- AI Message ---\nIt is 42.\n")), Ok("It is 42.".to_owned()));
        assert_eq!(last_words(trace), Err("its last message is not the model's"));
        assert_eq!(last_words("--- AI Message ---\n\nTool Calls:\n  add"), Err("its last message only calls tools"));
        assert_eq!(last_words("just text"), Ok("just text".to_owned()));
    }
}
