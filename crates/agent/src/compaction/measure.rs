//! Estimated tokens of messages and tools.

use wharf_protocol::{Block, BlockKind, Message, ServerInstructions, ToolDefinition};

use crate::instructions::instructions_section;
use crate::tokens::estimate_tokens;

/// Tokens that every API adds to a message or a tool call.
const FRAME_TOKENS: u64 = 4;
/// Tokens of an image. Providers charge by its size, which is not known; this is an image of a megapixel.
const IMAGE_TOKENS: u64 = 1_500;
/// Bytes of a token in data that is not text.
const BYTES_PER_TOKEN: usize = 4;

/// Estimates the tokens of a message.
pub(super) fn message_tokens(message: &Message) -> u64 {
    FRAME_TOKENS + message.content.iter().map(block_tokens).sum::<u64>()
}

fn block_tokens(block: &Block) -> u64 {
    match &block.kind {
        BlockKind::Text(text) | BlockKind::Thinking { text, .. } => estimate_tokens(text),
        BlockKind::ToolUse(call) => {
            FRAME_TOKENS + estimate_tokens(&call.name) + estimate_tokens(call.arguments.as_str())
        }
        BlockKind::ToolResult(returned) => {
            let images = returned.images().count() as u64;
            FRAME_TOKENS + estimate_tokens(&returned.text()) + IMAGE_TOKENS * images
        }
        BlockKind::RedactedThinking { data } => bytes_as_tokens(data.len()),
        BlockKind::Other => block.raw.as_ref().map_or(0, |raw| bytes_as_tokens(raw.as_str().len())),
    }
}

fn bytes_as_tokens(bytes: usize) -> u64 {
    (bytes / BYTES_PER_TOKEN) as u64
}

/// Estimates the tokens of tool definitions.
pub(crate) fn tool_tokens(tool: &ToolDefinition) -> u64 {
    let ToolDefinition { name, description, input_schema, .. } = tool;
    2 * FRAME_TOKENS + estimate_tokens(name) + estimate_tokens(description) + estimate_tokens(input_schema.as_str())
}

/// Estimates the tokens of the instructions of servers.
pub(crate) fn instructions_tokens(instructions: &[ServerInstructions]) -> u64 {
    instructions.iter().map(|own| estimate_tokens(&instructions_section(own))).sum()
}
