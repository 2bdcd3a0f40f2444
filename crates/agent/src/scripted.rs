//! A model whose turns come from a file: canned responses with live tools.
//!
//! ```yaml
//! - text: Let me add that up.
//!   tools:
//!     - name: mcp__calculator__add
//!       arguments: {a: 1, b: 2}
//! - text: It is three.
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::{Map, Value};
use wharf_protocol::{Block, BlockKind, BoxFuture, Message, Role, ToolCall, Usage};

use crate::{Capabilities, Delta, Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse, StopReason, yaml};

/// A model with canned turns. Each turn is used once, in order, over all runs that share the model.
#[derive(Debug)]
pub struct Scripted {
    name: String,
    turns: Vec<Turn>,
    used: AtomicUsize,
}

/// One canned response.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Turn {
    /// Text of the response.
    text: String,
    /// Reasoning of the response.
    thinking: Option<String>,
    /// Tool calls of the response.
    tools: Vec<Call>,
    /// Reported tokens and cost.
    usage: Usage,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    id: Option<String>,
}

/// A file is a list of turns, or an object with the list under `turns`.
#[derive(Deserialize)]
#[serde(untagged)]
enum ScriptFile {
    List(Vec<Turn>),
    Named { turns: Vec<Turn> },
}

impl Scripted {
    /// Parses the turns of a YAML or JSON text.
    ///
    /// # Errors
    /// Returns an error if the text contains no turns, or an invalid one. The message contains the line.
    pub fn parse(name: impl Into<String>, text: &str) -> Result<Self, String> {
        // The plain list comes first, so that errors are about the more common shape.
        let turns = match yaml::from_str::<Vec<Turn>>(text) {
            Ok(turns) => turns,
            Err(error) => match yaml::from_str::<ScriptFile>(text) {
                Ok(ScriptFile::List(turns) | ScriptFile::Named { turns }) => turns,
                Err(_) => return Err(error.to_string()),
            },
        };
        if turns.is_empty() {
            return Err("the script contains no turns".to_owned());
        }
        Ok(Self { name: name.into(), turns, used: AtomicUsize::new(0) })
    }

    fn next(&self, responses: usize) -> Result<ModelResponse, ModelError> {
        // A resumed run continues in the script too: it already has `responses` responses.
        let number = self.used.fetch_add(1, Ordering::Relaxed).max(responses);
        self.used.fetch_max(number + 1, Ordering::Relaxed);
        let message = || format!("all {} turns of the script are used", self.turns.len());
        let over = || ModelError::new(ModelErrorKind::Exhausted, message());
        Ok(self.turns.get(number).ok_or_else(over)?.response(number + 1, &self.name))
    }
}

impl Turn {
    /// Builds the response with this number, from 1.
    fn response(&self, number: usize, model: &str) -> ModelResponse {
        let thinking = self.thinking.clone().map(|text| BlockKind::Thinking { text, signature: None });
        let text = Some(self.text.clone()).filter(|text| !text.is_empty()).map(BlockKind::Text);
        let calls = self.tools.iter().enumerate().map(|(index, call)| {
            BlockKind::ToolUse(ToolCall {
                id: call.id.clone().unwrap_or_else(|| format!("call_{number}_{}", index + 1)).into(),
                name: call.name.as_str().into(),
                arguments: Value::Object(call.arguments.clone()).into(),
            })
        });
        let content = thinking.into_iter().chain(text).chain(calls).map(Block::from).collect();
        ModelResponse {
            message: Message::new(Role::Assistant, content),
            stop: if self.tools.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse },
            model: model.to_owned(),
            id: None,
            usage: self.usage,
        }
    }
}

impl Model for Scripted {
    fn interface(&self) -> &'static str {
        "scripted"
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            system_prompt: true,
            streaming: true,
            tools: true,
            thinking: true,
            result_images: true,
            prompt_caching: true,
            structured_output: false,
        }
    }

    fn complete<'a>(&'a self, request: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        let responses = request.messages.iter().filter(|message| message.role == Role::Assistant).count();
        let response = self.next(responses);
        if let Ok(response) = &response {
            for block in &response.message.content {
                match &block.kind {
                    BlockKind::Text(text) => (request.on_delta)(Delta::Text(text.clone())),
                    BlockKind::Thinking { text, .. } => (request.on_delta)(Delta::Thinking(text.clone())),
                    BlockKind::ToolUse(call) => {
                        (request.on_delta)(Delta::ToolUse { id: call.id.clone(), name: call.name.clone() });
                    }
                    _ => {}
                }
            }
        }
        Box::pin(std::future::ready(response))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_file_shapes_are_read_with_their_calls() {
        let plain =
            "- text: adding\n  tools:\n    - name: mcp__c__add\n      arguments: {a: 1, note: \"2\"}\n- text: three\n";
        let named = format!("turns:\n  {}", plain.trim_end().replace('\n', "\n  "));
        for text in [plain, &named] {
            let model = Scripted::parse("m", text).unwrap();
            let responses = [model.next(0), model.next(1)].map(Result::unwrap);
            let call = responses[0].message.calls().next().unwrap();
            assert_eq!((&*call.id, &*call.name), ("call_1_1", "mcp__c__add"));
            assert_eq!(call.arguments.as_str(), r#"{"a":1,"note":"2"}"#);
            assert_eq!(responses[1].message.plain_text(), "three");
            assert_eq!(model.next(2).unwrap_err().kind, ModelErrorKind::Exhausted);
        }
    }

    #[test]
    fn an_invalid_turn_is_reported_with_its_line() {
        let error = Scripted::parse("m", "- text: hello\n  tool: add\n").unwrap_err();
        assert!(error.contains("tool") && error.contains("line 2"), "{error}");
        assert_eq!(Scripted::parse("m", "[]").unwrap_err(), "the script contains no turns");
    }
}
