//! The interface to language models: a request with a conversation and tools, and a response with a message.

use serde::{Deserialize, Serialize};
use wharf_protocol::{BoxFuture, Json, Message, Role, ServerInstructions, ToolDefinition, Usage};

use crate::instructions::instructions_section;
use crate::{Delta, ModelError, PreparedRun, StopReason};

/// A language model behind some API.
pub trait Model: Send + Sync {
    /// Returns the name of the interface: `anthropic`, `openai`, `scripted`, …
    fn interface(&self) -> &str;

    /// Returns the model's name at its provider.
    fn name(&self) -> &str;

    /// Returns what the model and its API support.
    fn capabilities(&self) -> Capabilities;

    /// Sends one request and returns the response.
    ///
    /// Dropping the future cancels the request. [`ModelRequest::on_delta`] receives parts of the response as they
    /// arrive. If the future fails, discard the received parts.
    fn complete<'a>(&'a self, request: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>>;

    /// Returns the whole run for a conversation, if the model has it prepared and needs no requests for it. The error
    /// ends the run.
    fn prepared(&self, messages: &[Message]) -> Option<Result<PreparedRun, ModelError>> {
        let _ = messages;
        None
    }

    /// Returns the maximum length of a conversation in tokens, if known.
    fn context_window(&self) -> BoxFuture<'_, Option<u64>> {
        Box::pin(std::future::ready(None))
    }
}

/// The features that a model and its API support.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each feature is independent of the others")]
pub struct Capabilities {
    /// Instructions separate from the conversation.
    pub system_prompt: bool,
    /// Streamed responses.
    pub streaming: bool,
    /// Responses that follow a JSON Schema.
    pub structured_output: bool,
    /// Tool calls, native or emulated.
    pub tools: bool,
    /// Reasoning before the answer.
    pub thinking: bool,
    /// Images in tool results.
    pub result_images: bool,
    /// Prompt caching that must be requested.
    pub prompt_caching: bool,
    /// Prompt caching without a request.
    pub automatic_caching: bool,
}

/// One request to a model.
#[derive(Clone, Copy)]
pub struct ModelRequest<'a> {
    /// The conversation, system messages first.
    pub messages: &'a [Message],
    /// The instructions of the tools' servers, which belong into the system prompt; see [`ModelRequest::system_texts`].
    pub instructions: &'a [ServerInstructions],
    /// The tools that the model may call. Omitted from the request if empty.
    pub tools: &'a [ToolDefinition],
    /// All tools, even if the model may call none of them. Some providers require the definitions of tools that occur
    /// in the conversation.
    pub all_tools: &'a [ToolDefinition],
    /// The request parameters.
    pub options: &'a ModelOptions,
    /// What the request is for.
    pub purpose: RequestPurpose,
    /// Receives parts of the response as they arrive.
    pub on_delta: &'a (dyn Fn(Delta) + Send + Sync),
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPurpose {
    /// The next turn of a run.
    Turn {
        /// How often the conversation was compacted. While it is the same, messages are only appended.
        compactions: usize,
    },
    /// A summary of a conversation. It is no part of the conversation.
    Summary,
}

impl RequestPurpose {
    /// A turn of a conversation that was never compacted.
    pub const TURN: Self = Self::Turn { compactions: 0 };
}

impl ModelRequest<'_> {
    /// Returns the texts of the system prompt: the system messages, then the instructions of servers, marked as such.
    pub fn system_texts(&self) -> Vec<String> {
        let system = self.messages.iter().filter(|message| message.role == Role::System).map(Message::plain_text);
        let instructions = self.instructions.iter().map(instructions_section);
        system.chain(instructions).filter(|text| !text.trim().is_empty()).collect()
    }
}

/// The parameters of model requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelOptions {
    /// Maximum length of the response, in tokens.
    pub max_tokens: u32,
    /// Sampling temperature. `None` omits the parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Maximum number of reasoning tokens. `None` disables reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<u32>,
    /// JSON Schema of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
    /// Requests caching of the prompt prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// Whether to stream the response, if the API supports it.
    pub stream: bool,
}

/// Lifetime of cached prompt prefixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cache {
    /// Five minutes after the last use.
    #[default]
    #[serde(rename = "5m")]
    FiveMinutes,
    /// One hour after the last use.
    #[serde(rename = "1h")]
    Hour,
}

/// The response of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelResponse {
    /// The model's message.
    pub message: Message,
    /// Why the response ended.
    pub stop: StopReason,
    /// The model that responded, according to the provider.
    pub model: String,
    /// The provider's id of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Tokens and cost of the response.
    pub usage: Usage,
}

impl Default for ModelOptions {
    fn default() -> Self {
        Self { max_tokens: 16_384, temperature: None, thinking: None, schema: None, cache: None, stream: true }
    }
}

impl Cache {
    /// Returns the lifetime in the notation of providers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FiveMinutes => "5m",
            Self::Hour => "1h",
        }
    }
}
