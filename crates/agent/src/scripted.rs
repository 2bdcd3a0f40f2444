//! A model that says what a file tells it to: canned turns over live tools.
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

/// A model of canned turns. Each is said once, in order, over all runs that share it.
#[derive(Debug)]
pub struct Scripted {
    name: String,
    turns: Vec<Turn>,
    said: AtomicUsize,
}

/// What the model says in one turn.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Turn {
    /// What it says to the person.
    text: String,
    /// What it thinks.
    thinking: Option<String>,
    /// Which tools it calls.
    tools: Vec<Call>,
    /// What it costs.
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

/// A file is a list of turns, or says that it is one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Plain(Vec<Turn>),
    Named { turns: Vec<Turn> },
}

impl Scripted {
    /// A model by this name, with the turns in a YAML or JSON text.
    ///
    /// # Errors
    /// If the text holds no turns; the words say where it goes wrong.
    pub fn parse(name: impl Into<String>, text: &str) -> Result<Self, String> {
        // First as the one shape and then as the other, so that what is wrong is told of the shape it has.
        let turns = match yaml::from_str::<Vec<Turn>>(text) {
            Ok(turns) => turns,
            Err(error) => match yaml::from_str::<Written>(text) {
                Ok(Written::Plain(turns) | Written::Named { turns }) => turns,
                Err(_) => return Err(error.to_string()),
            },
        };
        if turns.is_empty() {
            return Err("it holds no turns".to_owned());
        }
        Ok(Self { name: name.into(), turns, said: AtomicUsize::new(0) })
    }

    fn next(&self, already: usize) -> Result<ModelResponse, ModelError> {
        // A run that goes on from a checkpoint goes on in the script too.
        let number = self.said.fetch_add(1, Ordering::Relaxed).max(already);
        self.said.fetch_max(number + 1, Ordering::Relaxed);
        let over = || ModelError::new(ModelErrorKind::Exhausted, format!("the script has {} turns", self.turns.len()));
        Ok(self.turns.get(number).ok_or_else(over)?.answer(number + 1, &self.name))
    }
}

impl Turn {
    /// The `number`th answer.
    fn answer(&self, number: usize, model: &str) -> ModelResponse {
        let thinking = self.thinking.clone().map(|text| BlockKind::Thinking { text, signature: None });
        let text = Some(self.text.clone()).filter(|text| !text.is_empty()).map(BlockKind::Text);
        let calls = self.tools.iter().enumerate().map(|(place, call)| {
            BlockKind::ToolUse(ToolCall {
                id: call.id.clone().unwrap_or_else(|| format!("call_{number}_{}", place + 1)).into(),
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

    fn ask<'a>(&'a self, ask: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        let already = ask.messages.iter().filter(|message| message.role == Role::Assistant).count();
        let answer = self.next(already);
        if let Ok(answer) = &answer {
            for block in &answer.message.content {
                match &block.kind {
                    BlockKind::Text(text) => (ask.listener)(Delta::Text(text.clone())),
                    BlockKind::Thinking { text, .. } => (ask.listener)(Delta::Thinking(text.clone())),
                    BlockKind::ToolUse(call) => {
                        (ask.listener)(Delta::ToolUse { id: call.id.clone(), name: call.name.clone() });
                    }
                    _ => {}
                }
            }
        }
        Box::pin(std::future::ready(answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_read_with_their_calls_in_either_shape() {
        let plain =
            "- text: adding\n  tools:\n    - name: mcp__c__add\n      arguments: {a: 1, note: \"2\"}\n- text: three\n";
        let named = format!("turns:\n  {}", plain.trim_end().replace('\n', "\n  "));
        for text in [plain, &named] {
            let model = Scripted::parse("m", text).unwrap();
            let answers = [model.next(0), model.next(1)].map(Result::unwrap);
            let call = answers[0].message.calls().next().unwrap();
            assert_eq!((&*call.id, &*call.name), ("call_1_1", "mcp__c__add"));
            assert_eq!(call.arguments.as_str(), r#"{"a":1,"note":"2"}"#);
            assert_eq!(answers[1].message.spoken(), "three");
            assert_eq!(model.next(2).unwrap_err().kind, ModelErrorKind::Exhausted);
        }
    }

    #[test]
    fn what_is_no_turn_says_where() {
        let said = Scripted::parse("m", "- text: hello\n  tool: add\n").unwrap_err();
        assert!(said.contains("tool") && said.contains("line 2"), "{said}");
        assert_eq!(Scripted::parse("m", "[]").unwrap_err(), "it holds no turns");
    }
}
