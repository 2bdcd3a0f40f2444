//! Messages between people, models and tools, the same whichever model speaks.
//!
//! What a model said is kept twice: in our words, for everybody, and as its provider wrote it ([`Block::raw`],
//! [`Origin::raw`]), for when it is said to that provider again. Order, signatures and blocks that nobody here knows come
//! back byte for byte.

mod wire;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Content, ContentKind, Json, ResourceBody, ToolCall, ToolOutput};

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said, in order.
    pub content: Vec<Block>,
    /// What it cost, for what a model said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Where it comes from, for what a model said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// Who says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Whoever set the model up.
    System,
    /// Whoever asks it.
    User,
    /// The model.
    Assistant,
    /// A tool it called.
    Tool,
}

/// The wire format a message was read from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// Its name; what was read from one format means nothing in another.
    pub wire: String,
    /// The whole message as it was sent, where the format has no blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Json>,
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// What it is.
    pub kind: BlockKind,
    /// The block as its provider wrote it.
    pub raw: Option<Json>,
}

/// The kinds of blocks.
#[derive(Clone, Debug, PartialEq)]
pub enum BlockKind {
    /// Text.
    Text(String),
    /// A call of a tool.
    ToolUse(ToolCall),
    /// What came of a call.
    ToolResult(ToolReturn),
    /// What a model thought before it spoke.
    Thinking {
        /// The thought.
        text: String,
        /// The provider's proof that it is the model's own.
        signature: Option<String>,
    },
    /// A thought that the provider shows to nobody.
    RedactedThinking {
        /// For the provider to read.
        data: String,
    },
    /// A block that nobody here knows; [`Block::raw`] has it.
    Other,
}

/// What came of a tool call.
#[derive(Clone, Debug)]
pub struct ToolReturn {
    /// The model's id for the call.
    pub call_id: Arc<str>,
    /// What the tool answered.
    pub output: ToolOutput,
}

/// What something cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens that went in, with those that came from a cache or went into one.
    pub input_tokens: u64,
    /// Tokens that came out, with those that were thought.
    pub output_tokens: u64,
    /// Of those that went in, those that came from a cache.
    pub cache_read_tokens: u64,
    /// Of those that went in, those that went into a cache.
    pub cache_write_tokens: u64,
    /// Of those that came out, those that were thought.
    pub reasoning_tokens: u64,
    /// In US dollars, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl Message {
    /// A message of blocks.
    pub fn new(role: Role, content: Vec<Block>) -> Self {
        Self { role, content, usage: None, origin: None }
    }

    /// A message of one text.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self::new(role, vec![Block::text(text)])
    }

    /// What came of a call.
    pub fn returned(call_id: Arc<str>, output: ToolOutput) -> Self {
        Self::new(Role::Tool, vec![Block::from(BlockKind::ToolResult(ToolReturn { call_id, output }))])
    }

    /// All its text, without thoughts and calls.
    pub fn spoken(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match &block.kind {
            BlockKind::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("")
    }

    /// The calls it makes.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|block| match &block.kind {
            BlockKind::ToolUse(call) => Some(call),
            _ => None,
        })
    }

    /// The result it brings.
    pub fn result(&self) -> Option<&ToolReturn> {
        self.content.iter().find_map(|block| match &block.kind {
            BlockKind::ToolResult(returned) => Some(returned),
            _ => None,
        })
    }
}

impl Block {
    /// A text.
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
    /// The result as text, other blocks described in a line each.
    pub fn text(&self) -> String {
        self.output.text()
    }

    /// The images in it, as base64 and type.
    pub fn images(&self) -> impl Iterator<Item = (&str, &str)> {
        self.output.content.iter().filter_map(|block| image(block))
    }
}

/// An image, or a resource that is one.
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
    /// Everything that went in and came out.
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
