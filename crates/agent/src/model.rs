//! What a model is: something that is asked with a conversation and tools, and answers with a message.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wharf_protocol::{BoxFuture, Json, Message, ToolDefinition, Usage};

use crate::{Delta, ModelError};

/// A model behind some interface.
pub trait Model: Send + Sync {
    /// The interface it is behind: `anthropic`, `openai`, `scripted`, …
    fn interface(&self) -> &str;

    /// Its name there.
    fn name(&self) -> &str;

    /// What can be asked of it.
    fn capabilities(&self) -> Capabilities;

    /// Asks once. Dropping the future ends the request. Deltas go to the listener as they come; if the future then fails,
    /// what they told is void.
    fn ask<'a>(&'a self, ask: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>>;

    /// The longest conversation it takes, in tokens, where that is known.
    fn window(&self) -> BoxFuture<'_, Option<u64>> {
        Box::pin(std::future::ready(None))
    }
}

/// What can be asked of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "a table of what there is and is not")]
pub struct Capabilities {
    /// Instructions apart from the conversation.
    pub system_prompt: bool,
    /// Answers that come piece by piece.
    pub streaming: bool,
    /// Answers in the form of a schema.
    pub structured_output: bool,
    /// Tools, whether or not the model has heard of them.
    pub tools: bool,
    /// Thoughts.
    pub thinking: bool,
    /// Images in what tools answer, as images.
    pub result_images: bool,
    /// Caching that has to be asked for.
    pub prompt_caching: bool,
}

/// One question to a model.
#[derive(Clone, Copy)]
pub struct ModelRequest<'a> {
    /// The conversation, system messages first.
    pub messages: &'a [Message],
    /// What it may call. Where there is nothing and never was, the field is not even sent.
    pub tools: &'a [ToolDefinition],
    /// What there is, also where it may call nothing of it: some providers want to hear of the tools that were used in a
    /// conversation, whether or not they may still be.
    pub known: &'a [ToolDefinition],
    /// How it is asked.
    pub options: &'a ModelOptions,
    /// Who hears of the answer while it comes.
    pub listener: &'a (dyn Fn(Delta) + Send + Sync),
}

/// How a model is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelOptions {
    /// The longest answer, in tokens.
    pub max_tokens: u32,
    /// How much chance there is in the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// How many tokens may be thought.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<u32>,
    /// The schema of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
    /// Whether what stays the same is to be cached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// Whether the answer is to come piece by piece, where it can.
    pub stream: bool,
}

/// For how long something is cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cache {
    /// Five minutes from its last use.
    #[default]
    #[serde(rename = "5m")]
    FiveMinutes,
    /// An hour.
    #[serde(rename = "1h")]
    Hour,
}

/// What a model answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelResponse {
    /// The message.
    pub message: Message,
    /// Why it ends there.
    pub stop: StopReason,
    /// The model that answered, by its own account.
    pub model: String,
    /// The provider's id for the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What it cost.
    pub usage: Usage,
}

/// Why an answer ends where it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It is complete.
    EndTurn,
    /// Tools are to be called.
    ToolUse,
    /// It would have been longer than it may be.
    MaxTokens,
    /// The provider or the model will not say more.
    Refusal,
    /// Something else, in the provider's word.
    #[serde(untagged)]
    Other(Arc<str>),
}

impl StopReason {
    /// In a word.
    pub fn as_str(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::Refusal => "refusal",
            Self::Other(word) => word,
        }
    }
}

impl Default for ModelOptions {
    fn default() -> Self {
        Self { max_tokens: 16_384, temperature: None, thinking: None, schema: None, cache: None, stream: true }
    }
}

impl Cache {
    /// As providers write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FiveMinutes => "5m",
            Self::Hour => "1h",
        }
    }
}
