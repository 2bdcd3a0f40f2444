//! Parses a complete response.

use serde::Deserialize;
use serde_json::Value;
use wharf_protocol::{Block, BlockKind, Json, Message, Origin, Role, ToolCall};

use super::super::call_ids::CallIds;
use super::super::wire::{malformed, provider_error, with_field};
use super::usage::usage;
use super::{EMULATED, OpenAi, WIRE, emulation};
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

/// The raw parts of a response, streamed or not.
pub(super) struct RawResponse {
    pub(super) raw: Json,
    pub(super) finish: Option<String>,
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) usage: Value,
}

/// Parses an unstreamed response, and reports its blocks like those of a streamed one.
pub(super) fn document(model: &OpenAi, request: &ModelRequest<'_>, text: &str) -> Result<ModelResponse, ModelError> {
    let endpoint = &model.endpoint;
    let document: Document = serde_json::from_str(text).map_err(|error| malformed(endpoint, &error.to_string()))?;
    let choice = document.choices.and_then(|choices| choices.into_iter().next());
    let error = choice.as_ref().map(|choice| &choice.error).filter(|error| !error.is_null());
    let error = error.or(Some(&document.error)).filter(|error| !error.is_null());
    if let Some(error) = error {
        return Err(provider_error(endpoint, &serde_json::json!({ "error": error })));
    }
    let Some(Choice { message: Some(raw), finish_reason, .. }) = choice else {
        return Err(malformed(endpoint, "no message"));
    };
    if !raw.is_object() {
        return Err(malformed(endpoint, "the message is not an object"));
    }
    let raw = with_ids(raw, &mut CallIds::from_messages(request.messages));
    let parts =
        RawResponse { raw, finish: finish_reason, id: document.id, model: document.model, usage: document.usage };
    let response = response(model, request, parts)?;
    for block in &response.message.content {
        emit_deltas(block, request);
    }
    Ok(response)
}

/// Builds the response from its raw parts.
pub(super) fn response(
    model: &OpenAi,
    request: &ModelRequest<'_>,
    parts: RawResponse,
) -> Result<ModelResponse, ModelError> {
    let RawResponse { mut raw, finish, id, model: actual_model, usage: reported } = parts;
    let view = raw.to_value().map_err(|error| malformed(&model.endpoint, &error.to_string()))?;
    if !view["role"].is_string() {
        raw = with_field(&raw, "role", &Json::from(Value::from("assistant")));
    }
    let mut content = blocks(&view);
    let mut refused = false;
    if let Some(refusal) = view["refusal"].as_str().filter(|refusal| !refusal.is_empty()) {
        content.push(Block::text(refusal));
        refused = true;
    }
    let mut wire = WIRE;
    if model.emulate_tools {
        content = emulation::read(content, request);
        wire = EMULATED;
    }
    let calls = content.iter().any(|block| matches!(block.kind, BlockKind::ToolUse(_)));
    let stop = if refused { StopReason::Refusal } else { stop_reason(finish.as_deref(), calls) };
    let origin = Some(Origin { wire: wire.to_owned(), raw: Some(raw) });
    Ok(ModelResponse {
        message: Message { origin, ..Message::new(Role::Assistant, content) },
        stop,
        model: actual_model.filter(|name| !name.is_empty()).unwrap_or_else(|| model.model.clone()),
        id: id.filter(|id| !id.is_empty()),
        usage: usage(&reported),
    })
}

fn emit_deltas(block: &Block, request: &ModelRequest<'_>) {
    match &block.kind {
        BlockKind::Text(text) => (request.on_delta)(Delta::Text(text.clone())),
        BlockKind::Thinking { text, .. } => (request.on_delta)(Delta::Thinking(text.clone())),
        BlockKind::ToolUse(call) => {
            (request.on_delta)(Delta::ToolUse { id: call.id.clone(), name: call.name.clone() });
            (request.on_delta)(Delta::Arguments(call.arguments.to_string()));
        }
        _ => {}
    }
}

fn blocks(message: &Value) -> Vec<Block> {
    let mut blocks = Vec::new();
    if let Some((_, text)) = reasoning(message) {
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

/// Returns the reasoning and its field. The first nonempty field counts, because some providers send it twice.
pub(super) fn reasoning(message: &Value) -> Option<(&'static str, String)> {
    for name in ["reasoning_content", "reasoning"] {
        if let Some(text) = message[name].as_str().filter(|text| !text.is_empty()) {
            return Some((name, text.to_owned()));
        }
    }
    let details = message["reasoning_details"].as_array().into_iter().flatten();
    let texts = details.filter_map(|detail| detail["text"].as_str().or_else(|| detail["summary"].as_str()));
    Some(("reasoning_details", texts.collect::<String>())).filter(|(_, text)| !text.is_empty())
}

/// Converts a part of a content list.
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
        // Arguments that are not an object are stored as text; the tool's schema check reports them.
        Value::String(text) => match Json::parse(text.as_str()) {
            Ok(json) if json.is_object() => json,
            _ => Json::from(Value::from(text.as_str())),
        },
        Value::Null => Json::from(serde_json::json!({})),
        other => Json::from(other.clone()),
    };
    let id = call["id"].as_str()?.into();
    let name = call["function"]["name"].as_str()?.into();
    Some(ToolCall { id, name, arguments })
}

/// Gives every call of a message a unique id.
fn with_ids(raw: Json, ids: &mut CallIds) -> Json {
    #[derive(Deserialize)]
    struct Calls {
        #[serde(default)]
        tool_calls: Option<Vec<Json>>,
    }
    #[derive(Deserialize)]
    struct CallId {
        #[serde(default)]
        id: Option<String>,
    }
    let Ok(Calls { tool_calls: Some(calls) }) = raw.decode() else { return raw };
    let mut changed = false;
    let mut texts = Vec::with_capacity(calls.len());
    for call in calls {
        let given = call.decode::<CallId>().ok().and_then(|call| call.id).unwrap_or_default();
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

fn stop_reason(reported: Option<&str>, has_calls: bool) -> StopReason {
    match reported {
        Some("content_filter" | "refusal" | "safety") => StopReason::Refusal,
        Some("length" | "max_tokens") => StopReason::MaxTokens,
        // Some providers report `stop` for tool calls.
        Some("tool_calls" | "function_call" | "stop" | "end_turn" | "eos") | None if has_calls => StopReason::ToolUse,
        Some("stop" | "end_turn" | "eos" | "tool_calls" | "function_call") | None => StopReason::EndTurn,
        Some(other) => StopReason::Other(other.into()),
    }
}
