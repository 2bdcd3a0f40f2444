//! Parses a complete response and its blocks.

use serde::Deserialize;
use serde_json::Value;
use wharf_protocol::{Block, BlockKind, Json, Message, Origin, Role, ToolCall};

use super::super::call_ids::CallIds;
use super::super::endpoint::Endpoint;
use super::super::wire::{as_object, malformed, provider_error, unwrap_invalid, with_field};
use super::WIRE;
use super::usage::UsageCounter;
use crate::{Delta, ModelError, ModelRequest, ModelResponse, StopReason};

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    model: Option<String>,
    content: Option<Vec<Json>>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Value,
    #[serde(default)]
    error: Value,
}

/// Parses an unstreamed response, and reports its blocks like those of a streamed one.
pub(super) fn document(
    endpoint: &Endpoint,
    model: &str,
    request: &ModelRequest<'_>,
    text: &str,
) -> Result<ModelResponse, ModelError> {
    let document: Document = serde_json::from_str(text).map_err(|error| malformed(endpoint, &error.to_string()))?;
    if !document.error.is_null() {
        return Err(provider_error(endpoint, &serde_json::json!({ "error": document.error })));
    }
    let Some(content) = document.content else { return Err(malformed(endpoint, "no `content`")) };
    let mut ids = CallIds::from_messages(request.messages);
    let mut usage = UsageCounter::default();
    usage.add(&document.usage);
    let blocks: Vec<Block> = content.into_iter().map(|raw| block(with_id(raw, &mut ids))).collect();
    for block in &blocks {
        emit_deltas(block, request);
    }
    let stop = stop_reason(document.stop_reason.as_deref(), &blocks);
    Ok(ModelResponse {
        message: message(blocks),
        stop,
        model: document.model.filter(|model| !model.is_empty()).unwrap_or_else(|| model.to_owned()),
        id: document.id.filter(|id| !id.is_empty()),
        usage: usage.usage(),
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

pub(super) fn message(blocks: Vec<Block>) -> Message {
    let origin = Some(Origin { wire: WIRE.to_owned(), raw: None });
    Message { origin, ..Message::new(Role::Assistant, blocks) }
}

/// The known fields of a block.
#[derive(Deserialize)]
struct KnownFields {
    r#type: String,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    data: Option<String>,
    id: Option<String>,
    name: Option<String>,
    input: Option<Json>,
}

/// Gives a call a unique id, if its id is missing or in use.
pub(super) fn with_id(raw: Json, ids: &mut CallIds) -> Json {
    let Ok(KnownFields { r#type, id, .. }) = raw.decode::<KnownFields>() else { return raw };
    if r#type != "tool_use" {
        return raw;
    }
    let given = id.unwrap_or_default();
    let unique = ids.unique(&given);
    if *unique == *given { raw } else { with_field(&raw, "id", &Json::of(&*unique).unwrap_or_else(|_| raw.clone())) }
}

/// Parses a block. An unknown block is stored as received.
pub(super) fn block(raw: Json) -> Block {
    let Ok(known) = raw.decode::<KnownFields>() else { return Block { kind: BlockKind::Other, raw: Some(raw) } };
    let mut raw = raw;
    let mut kind = None;
    match known.r#type.as_str() {
        "text" => kind = known.text.map(BlockKind::Text),
        "thinking" => {
            let signature = known.signature.filter(|signature| !signature.is_empty());
            kind = known.thinking.map(|text| BlockKind::Thinking { text, signature });
        }
        "redacted_thinking" => kind = known.data.map(|data| BlockKind::RedactedThinking { data }),
        "tool_use" => {
            // Invalid arguments are reported as such, and sent back as an object.
            let has_input = known.input.is_some();
            let input = known.input.unwrap_or_else(|| Json::from(serde_json::json!({})));
            if let (Some(id), Some(name)) = (known.id, known.name) {
                if !has_input || !input.is_object() {
                    raw = with_field(&raw, "input", &as_object(&input));
                }
                kind = Some(BlockKind::ToolUse(ToolCall {
                    id: id.into(),
                    name: name.into(),
                    arguments: unwrap_invalid(input).detached(),
                }));
            }
        }
        _ => {}
    }
    Block { kind: kind.unwrap_or(BlockKind::Other), raw: Some(raw) }
}

pub(super) fn stop_reason(reported: Option<&str>, blocks: &[Block]) -> StopReason {
    match reported {
        Some("end_turn" | "stop_sequence") => StopReason::EndTurn,
        Some("tool_use") => StopReason::ToolUse,
        Some("max_tokens" | "model_context_window_exceeded") => StopReason::MaxTokens,
        Some("refusal") => StopReason::Refusal,
        Some(other) => StopReason::Other(other.into()),
        None if blocks.iter().any(|block| matches!(block.kind, BlockKind::ToolUse(_))) => StopReason::ToolUse,
        None => StopReason::EndTurn,
    }
}
