//! Tools for models that have never heard of any: described in words, called in the form of the answer, their results
//! told as what somebody says.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::{Value, json};
use wharf_protocol::{Block, BlockKind, Json, Message, Role, ToolCall};

use super::super::ids::Ids;
use super::request::{Made, Spoken, Words, raw, result_text, results, show, user};
use super::schema::ResponseFormat;
use super::{EMULATED, OpenAi, WIRE};
use crate::ModelRequest;

/// What a model has to be told: not only how to call a tool but when, or a small one makes up what the tool would have said.
const HOW: &str = "You can use tools. Answer with one JSON object and nothing else. When a tool can help, call it: \
    {\"tool\": NAME, \"arguments\": {...}}; you will be told its result. Once you have been told what you need, or where no \
    tool can help, write {\"answer\": ...}. These are the tools:";

/// The form of an answer: a call of one of the tools, or the answer itself.
pub(super) fn format(ask: &ModelRequest<'_>) -> ResponseFormat {
    let step = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    let mut steps: Vec<Value> = Vec::with_capacity(ask.tools.len() + 1);
    for tool in ask.tools {
        let arguments = tool.input_schema.to_value().unwrap_or_else(|_| json!({"type": "object"}));
        steps.push(step(json!({"tool": {"const": &*tool.name}, "arguments": arguments}), json!(["tool", "arguments"])));
    }
    let answer = ask.options.schema.as_ref().and_then(|schema| schema.to_value().ok());
    let answer = answer.unwrap_or_else(|| json!({"type": "string"}));
    steps.push(step(json!({"answer": answer}), json!(["answer"])));
    ResponseFormat::named("step", Json::from(json!({"anyOf": steps})))
}

/// The conversation without calls and results: both are texts.
pub(super) fn messages<'a>(model: &OpenAi, ask: &ModelRequest<'a>) -> Vec<Spoken<'a>> {
    let mut system: Vec<String> =
        ask.messages.iter().filter(|message| message.role == Role::System).map(Message::spoken).collect();
    if !ask.tools.is_empty() {
        system.push(described(ask));
    }
    let mut spoken = Vec::with_capacity(ask.messages.len() + 1);
    if !system.is_empty() {
        spoken.push(Spoken::Made(Made::System { content: Words::Text(system.join("\n\n")) }));
    }
    let (mut told, mut shown) = (String::new(), Vec::new());
    let mut names = std::collections::HashMap::new();
    for message in ask.messages {
        if message.role != Role::Tool {
            tell(&mut told, &mut spoken);
            show(&mut shown, &mut spoken);
        }
        names.extend(message.calls().map(|call| (&*call.id, &*call.name)));
        match message.role {
            Role::System => {}
            Role::User => spoken.push(user(message.spoken())),
            Role::Assistant => spoken.push(assistant(message)),
            Role::Tool => {
                for returned in results(message) {
                    let name = names.get(&*returned.call_id).copied().unwrap_or("a tool");
                    let blank = if told.is_empty() { "" } else { "\n\n" };
                    let _ = write!(told, "{blank}Result of {name}:\n{}", result_text(returned));
                    model.images(returned, &mut shown);
                }
            }
        }
    }
    tell(&mut told, &mut spoken);
    show(&mut shown, &mut spoken);
    spoken
}

fn tell(told: &mut String, spoken: &mut Vec<Spoken<'_>>) {
    if !told.is_empty() {
        spoken.push(user(std::mem::take(told)));
    }
}

fn described(ask: &ModelRequest<'_>) -> String {
    let mut words = HOW.to_owned();
    for tool in ask.tools {
        let _ = write!(words, "\n\n{}: {}\nArguments: {}", tool.name, tool.description, tool.input_schema);
    }
    words
}

fn assistant(message: &Message) -> Spoken<'_> {
    let native = raw(message, WIRE).filter(|_| message.calls().next().is_none());
    if let Some(raw) = raw(message, EMULATED).or(native) {
        return Spoken::Raw(Cow::Borrowed(raw));
    }
    let calls = message.calls().map(|call| {
        let name = Value::from(&*call.name);
        format!("{{\"tool\":{name},\"arguments\":{}}}", call.arguments)
    });
    let text = Some(message.spoken()).filter(|text| !text.is_empty());
    let content = text.into_iter().chain(calls).collect::<Vec<_>>().join("\n");
    Spoken::Made(Made::Assistant { content: Some(content), tool_calls: Vec::new() })
}

/// Reads the texts of an answer as the step they are. What is no step is an answer: not everybody keeps to forms.
pub(super) fn read(content: Vec<Block>, ask: &ModelRequest<'_>) -> Vec<Block> {
    let mut ids = Ids::of(ask.messages);
    let step = |block: Block| match &block.kind {
        BlockKind::Text(text) => step(text, &mut ids).unwrap_or(block),
        _ => block,
    };
    content.into_iter().map(step).collect()
}

fn step(text: &str, ids: &mut Ids) -> Option<Block> {
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
