//! Tools for models without tool support: described in the prompt, called in the form of the answer, and their results
//! sent as user messages.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::{Value, json};
use wharf_protocol::{Block, BlockKind, Json, Message, Role, ToolCall};

use super::super::call_ids::CallIds;
use super::messages::{WireContent, WireEntry, WireMessage, push_images, raw, result_text, results, user};
use super::response_format::ResponseFormat;
use super::{EMULATED, OpenAi, WIRE};
use crate::ModelRequest;

/// Instructions for the model. They say when to call a tool, too: without that, small models invent results.
const INSTRUCTIONS: &str = "You can use tools. Answer with one JSON object and nothing else. When a tool can help, call it: \
    {\"tool\": NAME, \"arguments\": {...}}; you will be told its result. Once you have been told what you need, or where no \
    tool can help, write {\"answer\": ...}. These are the tools:";

/// Returns the form of a response: a call of one of the tools, or the answer.
pub(super) fn format(request: &ModelRequest<'_>) -> ResponseFormat {
    let step = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    let mut steps: Vec<Value> = Vec::with_capacity(request.tools.len() + 1);
    for tool in request.tools {
        let arguments = tool.input_schema.to_value().unwrap_or_else(|_| json!({"type": "object"}));
        steps.push(step(json!({"tool": {"const": &*tool.name}, "arguments": arguments}), json!(["tool", "arguments"])));
    }
    let answer = request.options.schema.as_ref().and_then(|schema| schema.to_value().ok());
    let answer = answer.unwrap_or_else(|| json!({"type": "string"}));
    steps.push(step(json!({"answer": answer}), json!(["answer"])));
    ResponseFormat::named("step", Json::from(json!({"anyOf": steps})))
}

/// Builds the messages of a conversation, with calls and results as text.
pub(super) fn messages<'a>(model: &OpenAi, request: &ModelRequest<'a>) -> Vec<WireEntry<'a>> {
    let mut system = request.system_texts();
    if !request.tools.is_empty() {
        system.push(describe_tools(request));
    }
    let mut entries = Vec::with_capacity(request.messages.len() + 1);
    if !system.is_empty() {
        entries.push(WireEntry::Built(WireMessage::System { content: WireContent::Text(system.join("\n\n")) }));
    }
    let mut result_texts = String::new();
    let mut images = Vec::new();
    let mut names = std::collections::HashMap::new();
    for message in request.messages {
        if message.role != Role::Tool {
            push_results(&mut result_texts, &mut entries);
            push_images(&mut images, &mut entries);
        }
        names.extend(message.calls().map(|call| (&*call.id, &*call.name)));
        match message.role {
            Role::System => {}
            Role::User => entries.push(user(message.plain_text())),
            Role::Assistant => entries.push(assistant(message)),
            Role::Tool => {
                for returned in results(message) {
                    let name = names.get(&*returned.call_id).copied().unwrap_or("a tool");
                    let separator = if result_texts.is_empty() { "" } else { "\n\n" };
                    let _ = write!(result_texts, "{separator}Result of {name}:\n{}", result_text(returned));
                    model.collect_images(returned, &mut images);
                }
            }
        }
    }
    push_results(&mut result_texts, &mut entries);
    push_images(&mut images, &mut entries);
    entries
}

fn push_results(texts: &mut String, entries: &mut Vec<WireEntry<'_>>) {
    if !texts.is_empty() {
        entries.push(user(std::mem::take(texts)));
    }
}

fn describe_tools(request: &ModelRequest<'_>) -> String {
    let mut text = INSTRUCTIONS.to_owned();
    for tool in request.tools {
        let _ = write!(text, "\n\n{}: {}\nArguments: {}", tool.name, tool.description, tool.input_schema);
    }
    text
}

fn assistant(message: &Message) -> WireEntry<'_> {
    let native = if message.calls().next().is_none() { raw(message, WIRE) } else { None };
    if let Some(raw) = raw(message, EMULATED).or(native) {
        return WireEntry::Raw(Cow::Borrowed(raw));
    }
    let calls = message.calls().map(|call| {
        let name = Value::from(&*call.name);
        format!("{{\"tool\":{name},\"arguments\":{}}}", call.arguments)
    });
    let text = Some(message.plain_text()).filter(|text| !text.is_empty());
    let content = text.into_iter().chain(calls).collect::<Vec<_>>().join("\n");
    WireEntry::Built(WireMessage::Assistant { content: Some(content), tool_calls: Vec::new() })
}

/// Converts the text blocks of a response to calls and answers. Text in another form is the answer: not every model
/// follows the form.
pub(super) fn read(content: Vec<Block>, request: &ModelRequest<'_>) -> Vec<Block> {
    let mut ids = CallIds::from_messages(request.messages);
    let step = |block: Block| match &block.kind {
        BlockKind::Text(text) => step(text, &mut ids).unwrap_or(block),
        _ => block,
    };
    content.into_iter().map(step).collect()
}

fn step(text: &str, ids: &mut CallIds) -> Option<Block> {
    #[derive(serde::Deserialize)]
    struct Step {
        tool: Option<String>,
        arguments: Option<Json>,
        answer: Option<Json>,
    }
    let text = text.trim();
    let unfenced = text.strip_prefix("```").and_then(|text| text.strip_suffix("```"));
    let text = unfenced.map_or(text, |text| text.strip_prefix("json").unwrap_or(text).trim());
    match serde_json::from_str(text).ok()? {
        Step { tool: Some(name), arguments, .. } => {
            let arguments = arguments.unwrap_or_else(|| Json::from(json!({})));
            let call = ToolCall { id: ids.unique(""), name: name.into(), arguments };
            Some(BlockKind::ToolUse(call).into())
        }
        Step { answer: Some(answer), .. } => {
            Some(Block::text(answer.decode::<String>().unwrap_or_else(|_| answer.to_string())))
        }
        Step { .. } => None,
    }
}
