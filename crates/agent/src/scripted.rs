//! A model whose turns come from a file: canned responses with live tools.
//!
//! ```yaml
//! - text: Let me add that up.
//!   tools:
//!     - name: mcp__calculator__add
//!       arguments: {a: 1, b: 2}
//! - text: It is three.
//! ```
//!
//! A script for several prompts has turns for each of them, under a text that the first user message contains. How many
//! turns a run has used is read from its conversation, so concurrent and repeated runs get the same responses:
//!
//! ```yaml
//! prompts:
//!   How much is 1 and 2?:
//!     - text: Three.
//!   How much is 2 and 2?:
//!     - json: {answer: 4}
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::{Map, Value};
use wharf_protocol::{Block, BlockKind, BoxFuture, Message, Role, ToolCall, Usage};

use crate::{Capabilities, Delta, Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse, StopReason, yaml};

/// A model with canned turns.
#[derive(Debug)]
pub struct Scripted {
    name: String,
    script: Script,
}

#[derive(Debug)]
enum Script {
    /// Each turn is used once, in order, over all runs that share the model.
    Sequence { turns: Vec<Turn>, used: AtomicUsize },
    /// Every run starts with the first turn of its prompt.
    Prompts(BTreeMap<String, Vec<Turn>>),
}

/// One canned response.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Turn {
    /// Text of the response.
    text: String,
    /// A value whose JSON is the text of the response.
    json: Option<Value>,
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

/// A file with turns for each prompt.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PromptFile {
    prompts: BTreeMap<String, Vec<Turn>>,
}

impl Scripted {
    /// Parses the turns of a YAML or JSON text.
    ///
    /// # Errors
    /// Returns an error if the text contains no turns, or an invalid one. The message contains the line.
    pub fn parse(name: impl Into<String>, text: &str) -> Result<Self, String> {
        let name = name.into();
        // The shape comes first, so that errors are about the shape of the file.
        let has_prompts = yaml::from_str::<Value>(text).is_ok_and(|value| value.get("prompts").is_some());
        if has_prompts {
            let PromptFile { prompts } = yaml::from_str(text).map_err(|error| error.to_string())?;
            if let Some((prompt, _)) = prompts.iter().find(|(prompt, turns)| prompt.is_empty() || turns.is_empty()) {
                return Err(format!("the prompt `{prompt}` has no text or no turns"));
            }
            return Ok(Self { name, script: Script::Prompts(prompts) });
        }
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
        Ok(Self { name, script: Script::Sequence { turns, used: AtomicUsize::new(0) } })
    }

    fn next(&self, messages: &[Message]) -> Result<ModelResponse, ModelError> {
        let responses = messages.iter().filter(|message| message.role == Role::Assistant).count();
        let (turns, number) = match &self.script {
            Script::Sequence { turns, used } => {
                // A resumed run continues in the script too: it already has `responses` responses.
                let number = used.fetch_add(1, Ordering::Relaxed).max(responses);
                used.fetch_max(number + 1, Ordering::Relaxed);
                (turns, number)
            }
            Script::Prompts(prompts) => (turns_for(prompts, messages)?, responses),
        };
        let message = || match turns.len() {
            1 => "the only turn of the script is used".to_owned(),
            count => format!("all {count} turns of the script are used"),
        };
        let over = || ModelError::new(ModelErrorKind::Exhausted, message());
        Ok(turns.get(number).ok_or_else(over)?.response(number + 1, &self.name))
    }
}

/// Returns the turns of the longest text that the first user message contains. The message of a judge contains the
/// question and the answer.
fn turns_for<'a>(prompts: &'a BTreeMap<String, Vec<Turn>>, messages: &[Message]) -> Result<&'a Vec<Turn>, ModelError> {
    let first = messages.iter().find(|message| message.role == Role::User).map(Message::plain_text);
    let prompt = first.unwrap_or_default();
    let contained = prompts.iter().filter(|(text, _)| prompt.contains(text.as_str()));
    let found = contained.max_by_key(|(text, _)| text.len()).map(|(_, turns)| turns);
    let message = "the script has no turns for this prompt";
    found.ok_or_else(|| ModelError::new(ModelErrorKind::Exhausted, message))
}

impl Turn {
    /// Builds the response with this number, from 1.
    fn response(&self, number: usize, model: &str) -> ModelResponse {
        let thinking = self.thinking.clone().map(|text| BlockKind::Thinking { text, signature: None });
        let json = self.json.as_ref().map(Value::to_string);
        let text = json.or(Some(self.text.clone())).filter(|text| !text.is_empty()).map(BlockKind::Text);
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
            automatic_caching: false,
            structured_output: false,
        }
    }

    fn complete<'a>(&'a self, request: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        let response = self.next(request.messages);
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

    /// A conversation with this first message and some responses.
    fn conversation(prompt: &str, responses: usize) -> Vec<Message> {
        let responses = (0..responses).map(|number| Message::text(Role::Assistant, number.to_string()));
        [Message::text(Role::User, prompt)].into_iter().chain(responses).collect()
    }

    #[test]
    fn both_file_shapes_are_read_with_their_calls() {
        let plain =
            "- text: adding\n  tools:\n    - name: mcp__c__add\n      arguments: {a: 1, note: \"2\"}\n- text: three\n";
        let named = format!("turns:\n  {}", plain.trim_end().replace('\n', "\n  "));
        for text in [plain, &named] {
            let model = Scripted::parse("m", text).unwrap();
            let responses = [0, 1].map(|responses| model.next(&conversation("go", responses)).unwrap());
            let call = responses[0].message.calls().next().unwrap();
            assert_eq!((&*call.id, &*call.name), ("call_1_1", "mcp__c__add"));
            assert_eq!(call.arguments.as_str(), r#"{"a":1,"note":"2"}"#);
            assert_eq!(responses[1].message.plain_text(), "three");
            assert_eq!(model.next(&conversation("go", 2)).unwrap_err().kind, ModelErrorKind::Exhausted);
        }
    }

    #[test]
    fn every_run_of_a_prompt_starts_with_its_first_turn() {
        let text = "prompts:\n  How much?: [{text: one}, {text: two}]\n  How much? Exactly: [{json: {a: 1}}]\n";
        let model = Scripted::parse("m", text).unwrap();
        let response = |prompt: &str, responses: usize| {
            model.next(&conversation(prompt, responses)).map(|response| response.message.plain_text())
        };
        for _ in 0..2 {
            assert_eq!(response("How much?", 1).unwrap(), "two");
            assert_eq!(response("How much?", 0).unwrap(), "one");
            assert_eq!(response("Judge this: <q>How much? Exactly</q>", 0).unwrap(), r#"{"a":1}"#);
        }
        assert_eq!(response("How much?", 2).unwrap_err().kind, ModelErrorKind::Exhausted);
        let unknown = response("How many?", 0).unwrap_err();
        assert!(unknown.to_string().contains("no turns for this prompt"), "{unknown}");
        for text in ["prompts: {}\nturns: []\n", "prompts: {a: []}", "prompts: {'': [{text: x}]}"] {
            assert!(Scripted::parse("m", text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_invalid_turn_is_reported_with_its_line() {
        let error = Scripted::parse("m", "- text: hello\n  tool: add\n").unwrap_err();
        assert!(error.contains("tool") && error.contains("line 2"), "{error}");
        assert_eq!(Scripted::parse("m", "[]").unwrap_err(), "the script contains no turns");
    }
}
