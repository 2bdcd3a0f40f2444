//! Messages between users, models and tools, in one form for all model APIs.
//!
//! A model's message is stored twice: in the common form, and as its provider wrote it ([`Block::raw`],
//! [`Origin::raw`]). The latter is sent when the conversation goes back to the same provider, so that order, signatures
//! and unknown blocks are returned byte for byte.

mod wire;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Content, ContentKind, Json, ResourceBody, ToolCall, ToolOutput};

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The author of the message.
    pub role: Role,
    /// The blocks of the message, in order.
    pub content: Vec<Block>,
    /// Tokens and cost, for a model's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The wire format, for a model's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The host: instructions for the model.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool that the model called.
    Tool,
}

/// The wire format of a received message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// Name of the format. The raw form is meaningful in the same format only.
    pub wire: String,
    /// The whole message as received, for formats without blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Json>,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The content in the common form.
    pub kind: BlockKind,
    /// The block as received from its provider.
    pub raw: Option<Json>,
}

/// The kinds of message blocks.
#[derive(Clone, Debug, PartialEq)]
pub enum BlockKind {
    /// Text for the reader.
    Text(String),
    /// A tool call by the model.
    ToolUse(ToolCall),
    /// The result of a tool call.
    ToolResult(ToolReturn),
    /// The model's reasoning.
    Thinking {
        /// The reasoning as text.
        text: String,
        /// The provider's proof that the text is the model's own.
        signature: Option<String>,
    },
    /// Reasoning that the provider encrypts.
    RedactedThinking {
        /// The encrypted text, for the provider only.
        data: String,
    },
    /// An unknown kind of block. [`Block::raw`] holds it.
    Other,
}

/// The result of a tool call in a conversation.
#[derive(Clone, Debug)]
pub struct ToolReturn {
    /// The model's id for the call.
    pub call_id: Arc<str>,
    /// The tool's result.
    pub output: ToolOutput,
}

/// Tokens and cost of one or more model responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Input tokens, including tokens read from or written to a cache.
    pub input_tokens: u64,
    /// Output tokens, including reasoning tokens.
    pub output_tokens: u64,
    /// Input tokens that were read from a cache.
    pub cache_read_tokens: u64,
    /// Input tokens that were written to a cache.
    pub cache_write_tokens: u64,
    /// Output tokens that were used for reasoning.
    pub reasoning_tokens: u64,
    /// Cost in US dollars, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl Message {
    /// Creates a message from blocks.
    pub fn new(role: Role, content: Vec<Block>) -> Self {
        Self { role, content, usage: None, origin: None }
    }

    /// Creates a message with one text block.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self::new(role, vec![Block::text(text)])
    }

    /// Creates the message that returns a tool's result to the model.
    pub fn tool_result(call_id: Arc<str>, output: ToolOutput) -> Self {
        Self::new(Role::Tool, vec![Block::from(BlockKind::ToolResult(ToolReturn { call_id, output }))])
    }

    /// Returns all text of the message, without reasoning and tool calls.
    pub fn plain_text(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match &block.kind {
            BlockKind::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("")
    }

    /// Returns the tool calls of the message.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|block| match &block.kind {
            BlockKind::ToolUse(call) => Some(call),
            _ => None,
        })
    }

    /// Returns the tool result of the message.
    pub fn result(&self) -> Option<&ToolReturn> {
        self.content.iter().find_map(|block| match &block.kind {
            BlockKind::ToolResult(returned) => Some(returned),
            _ => None,
        })
    }
}

impl Block {
    /// Creates a text block.
    pub fn text(text: impl Into<String>) -> Self {
        BlockKind::Text(text.into()).into()
    }
}

impl From<BlockKind> for Block {
    fn from(kind: BlockKind) -> Self {
        Self { kind, raw: None }
    }
}

impl ToolReturn {
    /// Returns the result as text. Other blocks are described in one line each.
    pub fn text(&self) -> String {
        self.output.text()
    }

    /// Returns the images of the result as pairs of base64 data and MIME type.
    pub fn images(&self) -> impl Iterator<Item = (&str, &str)> {
        self.output.content.iter().filter_map(|block| image(block))
    }
}

/// Returns the data and MIME type of an image, or of a resource that is an image.
fn image(block: &Content) -> Option<(&str, &str)> {
    match &block.kind {
        ContentKind::Image { data, mime_type } => Some((data, mime_type)),
        ContentKind::Resource { mime_type: Some(mime), body: ResourceBody::Blob(data), .. }
            if mime.starts_with("image/") =>
        {
            Some((data, mime))
        }
        _ => None,
    }
}

impl PartialEq for ToolReturn {
    fn eq(&self, other: &Self) -> bool {
        self.call_id == other.call_id && self.output.raw == other.output.raw
    }
}

impl Usage {
    /// Returns the sum of input and output tokens.
    pub fn total_tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(other.reasoning_tokens);
        self.cost_usd = match (self.cost_usd, other.cost_usd) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
    }
}
