//! An answer in one piece, and what its blocks are.

use serde::Deserialize;
use serde_json::Value;
use wharf_protocol::{Block, BlockKind, Json, Message, Origin, Role, ToolCall};

use super::super::endpoint::Endpoint;
use super::super::ids::Ids;
use super::super::wire::{as_object, as_written, complaint, malformed, with_field};
use super::WIRE;
use super::usage::Told;
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

/// Reads an answer that came in one piece, and tells of it as of one that came in pieces.
pub(super) fn document(
    endpoint: &Endpoint,
    model: &str,
    ask: &ModelRequest<'_>,
    text: &str,
) -> Result<ModelResponse, ModelError> {
    let document: Document = serde_json::from_str(text).map_err(|error| malformed(endpoint, &error.to_string()))?;
    if !document.error.is_null() {
        return Err(complaint(endpoint, &serde_json::json!({ "error": document.error })));
    }
    let Some(content) = document.content else { return Err(malformed(endpoint, "it has no content")) };
    let mut ids = Ids::of(ask.messages);
    let mut usage = Told::default();
    usage.hear(&document.usage);
    let blocks: Vec<Block> = content.into_iter().map(|raw| block(with_id(raw, &mut ids))).collect();
    for block in &blocks {
        tell(block, ask);
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

pub(super) fn message(blocks: Vec<Block>) -> Message {
    let origin = Some(Origin { wire: WIRE.to_owned(), raw: None });
    Message { origin, ..Message::new(Role::Assistant, blocks) }
}

/// The parts of a block that are understood.
#[derive(Deserialize)]
struct View {
    r#type: String,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    data: Option<String>,
    id: Option<String>,
    name: Option<String>,
    input: Option<Json>,
}

/// A call whose id is missing or taken, with another one.
pub(super) fn with_id(raw: Json, ids: &mut Ids) -> Json {
    let Ok(View { r#type, id, .. }) = raw.decode::<View>() else { return raw };
    if r#type != "tool_use" {
        return raw;
    }
    let given = id.unwrap_or_default();
    let unique = ids.unique(&given);
    if *unique == *given { raw } else { with_field(&raw, "id", &Json::of(&*unique).unwrap_or_else(|_| raw.clone())) }
}

/// Reads a block; what is not understood is kept for whoever wrote it.
pub(super) fn block(raw: Json) -> Block {
    let Ok(view) = raw.decode::<View>() else { return Block { kind: BlockKind::Other, raw: Some(raw) } };
    let (mut raw, mut kind) = (raw, None);
    match view.r#type.as_str() {
        "text" => kind = view.text.map(BlockKind::Text),
        "thinking" => {
            let signature = view.signature.filter(|signature| !signature.is_empty());
            kind = view.thinking.map(|text| BlockKind::Thinking { text, signature });
        }
        "redacted_thinking" => kind = view.data.map(|data| BlockKind::RedactedThinking { data }),
        "tool_use" => {
            // Arguments that are none are told as such, and go back as an object all the same.
            let sent = view.input.is_some();
            let input = view.input.unwrap_or_else(|| Json::from(serde_json::json!({})));
            if let (Some(id), Some(name)) = (view.id, view.name) {
                if !sent || !input.is_object() {
                    raw = with_field(&raw, "input", &as_object(&input));
                }
                kind = Some(BlockKind::ToolUse(ToolCall {
                    id: id.into(),
                    name: name.into(),
                    arguments: as_written(input).detached(),
                }));
            }
        }
        _ => {}
    }
    Block { kind: kind.unwrap_or(BlockKind::Other), raw: Some(raw) }
}

pub(super) fn stop_reason(told: Option<&str>, blocks: &[Block]) -> StopReason {
    match told {
        Some("end_turn" | "stop_sequence") => StopReason::EndTurn,
        Some("tool_use") => StopReason::ToolUse,
        Some("max_tokens" | "model_context_window_exceeded") => StopReason::MaxTokens,
        Some("refusal") => StopReason::Refusal,
        Some(other) => StopReason::Other(other.into()),
        None if blocks.iter().any(|block| matches!(block.kind, BlockKind::ToolUse(_))) => StopReason::ToolUse,
        None => StopReason::EndTurn,
    }
}
