//! Traces in the JSON form of an [`AgentResult`](crate::AgentResult).

use serde::Deserialize;
use wharf_protocol::{Block, BlockKind, Message, Role, ToolCall, ToolOutput, Usage};

use crate::{Limit, PreparedRun, RunEnd, StopReason, TraceMessage};

/// The fields of a result that are replayed. Everything else follows from them.
#[derive(Debug, Deserialize)]
pub(super) struct RecordedResult {
    trace_messages: Vec<TraceMessage>,
    #[serde(default)]
    limits: Vec<Limit>,
    #[serde(default)]
    stop: Option<RunEnd>,
    #[serde(default)]
    stop_reason: Option<StopReason>,
    #[serde(default)]
    actual_model: Option<String>,
    #[serde(default)]
    usage: Option<Usage>,
}

impl RecordedResult {
    pub(super) fn to_run(&self) -> Result<PreparedRun, String> {
        let messages: Vec<Message> = self.trace_messages.iter().map(message).collect::<Result<_, _>>()?;
        let stop = self.stop.clone().or_else(|| self.limits.last().cloned().map(RunEnd::Limit));
        let mut total = Usage::default();
        for usage in messages.iter().filter_map(|message| message.usage) {
            total += usage;
        }
        Ok(PreparedRun {
            messages,
            limits: self.limits.clone(),
            stop: stop.unwrap_or(RunEnd::Completed),
            stop_reason: self.stop_reason.clone(),
            model: self.actual_model.clone(),
            usage: self.usage.unwrap_or(total),
        })
    }
}

fn message(traced: &TraceMessage) -> Result<Message, String> {
    let mut content = Vec::new();
    match (traced.role, &traced.tool_result) {
        (Role::Tool, Some(result)) => {
            let text = || traced.content.clone();
            let plain = || if result.is_error { ToolOutput::error(text()) } else { ToolOutput::said(text()) };
            let output = result.output.as_ref().map_or_else(|| Ok(plain()), ToolOutput::from_json)?;
            return Ok(Message::tool_result(result.tool_use_id.clone(), output));
        }
        (Role::Assistant, None) => {}
        (role, _) => {
            return Err(format!("message {} is not of the model or a tool: {role:?}", traced.block_index + 1));
        }
    }
    if let Some(thinking) = &traced.thinking {
        let (text, signature) = (thinking.thinking.clone(), thinking.signature.clone());
        content.push(Block::from(BlockKind::Thinking { text, signature }));
    }
    if !traced.content.is_empty() {
        content.push(Block::text(traced.content.clone()));
    }
    for call in &traced.tool_calls {
        let (id, name, arguments) = (call.id.clone(), call.name.clone(), call.input.clone());
        content.push(Block::from(BlockKind::ToolUse(ToolCall { id, name, arguments })));
    }
    Ok(Message { usage: traced.usage_metadata, ..Message::new(Role::Assistant, content) })
}
