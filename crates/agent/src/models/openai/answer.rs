//! An answer in one piece, and what is in it.

use serde::Deserialize;
use serde_json::Value;
use wharf_protocol::{Block, BlockKind, Json, Message, Origin, Role, ToolCall};

use super::super::ids::Ids;
use super::super::wire::{complaint, malformed, with_field};
use super::usage::usage;
use super::{OpenAi, WIRE, emulated};
use crate::{Delta, ModelError, ModelRequest, ModelResponse, StopReason};

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Value,
    #[serde(default)]
    error: Value,
}

#[derive(Deserialize)]
struct Choice {
    message: Option<Json>,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    error: Value,
}

/// Everything an answer is made of, however it came.
pub(super) struct Whole {
    pub(super) raw: Json,
    pub(super) finish: Option<String>,
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) usage: Value,
}

/// Reads an answer that came in one piece, and tells of it as of one that came in pieces.
pub(super) fn document(model: &OpenAi, ask: &ModelRequest<'_>, text: &str) -> Result<ModelResponse, ModelError> {
    let endpoint = &model.endpoint;
    let document: Document = serde_json::from_str(text).map_err(|error| malformed(endpoint, &error.to_string()))?;
    let choice = document.choices.and_then(|choices| choices.into_iter().next());
    let error = choice.as_ref().map(|choice| &choice.error).filter(|error| !error.is_null());
    let error = error.or(Some(&document.error)).filter(|error| !error.is_null());
    if let Some(error) = error {
        return Err(complaint(endpoint, &serde_json::json!({ "error": error })));
    }
    let Some(Choice { message: Some(raw), finish_reason, .. }) = choice else {
        return Err(malformed(endpoint, "there is no message in it"));
    };
    if !raw.is_object() {
        return Err(malformed(endpoint, "its message is none"));
    }
    let raw = with_ids(raw, &mut Ids::of(ask.messages));
    let (id, usage) = (document.id, document.usage);
    let answer = answer(model, ask, Whole { raw, finish: finish_reason, id, model: document.model, usage })?;
    for block in &answer.message.content {
        tell(block, ask);
    }
    Ok(answer)
}

/// What an answer says.
pub(super) fn answer(model: &OpenAi, ask: &ModelRequest<'_>, whole: Whole) -> Result<ModelResponse, ModelError> {
    let Whole { mut raw, finish, id, model: named, usage: told } = whole;
    let view = raw.to_value().map_err(|error| malformed(&model.endpoint, &error.to_string()))?;
    if !view["role"].is_string() {
        raw = with_field(&raw, "role", &Json::from(Value::from("assistant")));
    }
    let (mut content, mut refused) = (blocks(&view), false);
    if let Some(refusal) = view["refusal"].as_str().filter(|refusal| !refusal.is_empty()) {
        content.push(Block::text(refusal));
        refused = true;
    }
    let mut wire = WIRE;
    if model.emulate_tools {
        content = emulated::read(content, ask);
        wire = super::EMULATED;
    }
    let calls = content.iter().any(|block| matches!(block.kind, BlockKind::ToolUse(_)));
    let stop = if refused { StopReason::Refusal } else { stop_reason(finish.as_deref(), calls) };
    let origin = Some(Origin { wire: wire.to_owned(), raw: Some(raw) });
    Ok(ModelResponse {
        message: Message { origin, ..Message::new(Role::Assistant, content) },
        stop,
        model: named.filter(|named| !named.is_empty()).unwrap_or_else(|| model.model.clone()),
        id: id.filter(|id| !id.is_empty()),
        usage: usage(&told),
    })
}

fn tell(block: &Block, ask: &ModelRequest<'_>) {
    match &block.kind {
        BlockKind::Text(text) => (ask.listener)(Delta::Text(text.clone())),
        BlockKind::Thinking { text, .. } => (ask.listener)(Delta::Thinking(text.clone())),
        BlockKind::ToolUse(call) => {
            (ask.listener)(Delta::ToolUse { id: call.id.clone(), name: call.name.clone() });
            (ask.listener)(Delta::Arguments(call.arguments.to_string()));
        }
        _ => {}
    }
}

fn blocks(message: &Value) -> Vec<Block> {
    let mut blocks = Vec::new();
    if let Some((_, text)) = thought(message) {
        blocks.push(BlockKind::Thinking { text, signature: None }.into());
    }
    match &message["content"] {
        Value::String(text) if !text.is_empty() => blocks.push(Block::text(text)),
        Value::Array(parts) => blocks.extend(parts.iter().filter_map(part)),
        _ => {}
    }
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        blocks.extend(call_of(call).map(|call| Block::from(BlockKind::ToolUse(call))));
    }
    blocks
}

/// What was thought, and the field it stands in; the first that says something counts, because some say it twice.
pub(super) fn thought(message: &Value) -> Option<(&'static str, String)> {
    for name in ["reasoning_content", "reasoning"] {
        if let Some(text) = message[name].as_str().filter(|text| !text.is_empty()) {
            return Some((name, text.to_owned()));
        }
    }
    let details = message["reasoning_details"].as_array().into_iter().flatten();
    let texts = details.filter_map(|detail| detail["text"].as_str().or_else(|| detail["summary"].as_str()));
    Some(("reasoning_details", texts.collect::<String>())).filter(|(_, text)| !text.is_empty())
}

/// A part of a content that is a list.
fn part(part: &Value) -> Option<Block> {
    if let Some(text) = part["text"].as_str().or_else(|| part["refusal"].as_str()) {
        return Some(Block::text(text));
    }
    let text = match &part["thinking"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => return None,
    };
    Some(BlockKind::Thinking { text, signature: None }.into())
}

fn call_of(call: &Value) -> Option<ToolCall> {
    let arguments = match &call["function"]["arguments"] {
        Value::String(text) if text.trim().is_empty() => Json::from(serde_json::json!({})),
        // What is no object is kept as the text it is, for whoever may be able to make sense of it.
        Value::String(text) => match Json::parse(text.as_str()) {
            Ok(json) if json.is_object() => json,
            _ => Json::from(Value::from(text.as_str())),
        },
        Value::Null => Json::from(serde_json::json!({})),
        other => Json::from(other.clone()),
    };
    let (id, name) = (call["id"].as_str()?.into(), call["function"]["name"].as_str()?.into());
    Some(ToolCall { id, name, arguments })
}

/// The same message with an id for every call, and no two alike.
fn with_ids(raw: Json, ids: &mut Ids) -> Json {
    #[derive(Deserialize)]
    struct Calls {
        #[serde(default)]
        tool_calls: Option<Vec<Json>>,
    }
    #[derive(Deserialize)]
    struct Called {
        #[serde(default)]
        id: Option<String>,
    }
    let Ok(Calls { tool_calls: Some(calls) }) = raw.decode() else { return raw };
    let mut changed = false;
    let mut texts = Vec::with_capacity(calls.len());
    for call in calls {
        let given = call.decode::<Called>().ok().and_then(|call| call.id).unwrap_or_default();
        let unique = ids.unique(&given);
        if *unique == *given {
            texts.push(call.to_string());
        } else {
            changed = true;
            texts.push(with_field(&call, "id", &Json::from(Value::from(&*unique))).to_string());
        }
    }
    match Json::parse(format!("[{}]", texts.join(","))) {
        Ok(calls) if changed => with_field(&raw, "tool_calls", &calls),
        _ => raw,
    }
}

fn stop_reason(told: Option<&str>, calls: bool) -> StopReason {
    match told {
        Some("content_filter" | "refusal" | "safety") => StopReason::Refusal,
        Some("length" | "max_tokens") => StopReason::MaxTokens,
        // Some stop where they call.
        Some("tool_calls" | "function_call" | "stop" | "end_turn" | "eos") | None if calls => StopReason::ToolUse,
        Some("stop" | "end_turn" | "eos" | "tool_calls" | "function_call") | None => StopReason::EndTurn,
        Some(other) => StopReason::Other(other.into()),
    }
}
