//! The Chat Completions API of `OpenAI` and of compatible providers.

mod context_window;
mod emulation;
mod merge;
mod messages;
mod request;
mod response;
mod response_format;
mod stream;
mod usage;

use tokio::sync::OnceCell;
use wharf_protocol::BoxFuture;

use super::endpoint::{Endpoint, InvalidEndpoint};
use super::wire::{self, BodyKind, Reply};
use crate::{Capabilities, Model, ModelError, ModelRequest, ModelResponse};

/// Name of the wire format in [`Origin`](wharf_protocol::Origin).
const WIRE: &str = "openai";
/// Name of the wire format with emulated tools. Its messages contain calls as text.
const EMULATED: &str = "openai-emulated";

/// A model behind Chat Completions.
#[derive(Debug)]
pub struct OpenAi {
    endpoint: Endpoint,
    model: String,
    dialect: Dialect,
    emulate_tools: bool,
    text_only: bool,
    window: OnceCell<Option<u64>>,
}

/// A provider of Chat Completions. Providers differ in base URL, key and extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `OpenAI` itself.
    OpenAi,
    /// `OpenRouter`, a router to many providers.
    OpenRouter,
    /// Any other endpoint: llama.cpp, vLLM, LM Studio, …
    Endpoint,
    /// A local Ollama.
    Ollama,
}

/// The providers behind `OpenRouter` that cache prompts without a request.
const AUTOMATIC_CACHES: [&str; 5] = ["openai/", "deepseek/", "google/", "moonshotai/", "x-ai/"];

impl Dialect {
    /// Returns the name of the interface.
    pub fn interface(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::OpenRouter => "openrouter",
            Self::Endpoint => "openai-endpoint",
            Self::Ollama => "ollama",
        }
    }

    /// Returns the default base URL.
    pub fn base_url(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some("https://api.openai.com/v1"),
            Self::OpenRouter => Some("https://openrouter.ai/api/v1"),
            Self::Endpoint => None,
            Self::Ollama => Some("http://127.0.0.1:11434/v1"),
        }
    }

    /// Returns whether requests require an API key.
    pub fn needs_key(self) -> bool {
        matches!(self, Self::OpenAi | Self::OpenRouter)
    }
}

impl OpenAi {
    /// Creates a model at an endpoint.
    ///
    /// # Errors
    /// Returns an error if the API key contains characters that are invalid in a header.
    pub fn new(dialect: Dialect, endpoint: Endpoint, model: impl Into<String>) -> Result<Self, InvalidEndpoint> {
        let endpoint = endpoint.with_key_header("authorization", "Bearer ")?;
        Ok(Self {
            endpoint,
            model: model.into(),
            dialect,
            emulate_tools: false,
            text_only: false,
            window: OnceCell::new(),
        })
    }

    /// Describes tools in the prompt and parses calls from the text of the answer, for models without tool support.
    #[must_use]
    pub fn with_emulated_tools(mut self) -> Self {
        self.emulate_tools = true;
        self
    }

    /// Describes images of tool results in text, for models without image input.
    #[must_use]
    pub fn without_images(mut self) -> Self {
        self.text_only = true;
        self
    }

    /// Returns whether prompt caching must be requested for this model.
    fn needs_cache_request(&self) -> bool {
        self.dialect == Dialect::OpenRouter
            && (self.model.starts_with("anthropic/") || self.model.starts_with("~anthropic/"))
    }

    /// Returns whether the provider caches prompts without a request. About endpoints of others nothing is known.
    fn caches_by_itself(&self) -> bool {
        match self.dialect {
            Dialect::OpenAi | Dialect::Ollama => true,
            Dialect::OpenRouter => AUTOMATIC_CACHES.iter().any(|provider| self.model.starts_with(provider)),
            Dialect::Endpoint => false,
        }
    }

    async fn send(&self, request: &ModelRequest<'_>) -> Result<ModelResponse, ModelError> {
        let body = request::Request::new(self, request);
        let kind = BodyKind::requested(body.stream);
        match wire::post(&self.endpoint, "/chat/completions", &body, kind).await? {
            Reply::Document(text) => response::document(self, request, &text),
            Reply::Events(stream) => stream::read(self, request, *stream).await,
        }
    }
}

impl Model for OpenAi {
    fn interface(&self) -> &'static str {
        self.dialect.interface()
    }

    fn name(&self) -> &str {
        &self.model
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            system_prompt: true,
            streaming: !self.emulate_tools,
            structured_output: true,
            tools: true,
            thinking: true,
            result_images: !self.text_only,
            prompt_caching: self.needs_cache_request(),
            automatic_caching: self.caches_by_itself(),
        }
    }

    fn complete<'a>(&'a self, request: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(self.send(request))
    }

    fn context_window(&self) -> BoxFuture<'_, Option<u64>> {
        let find = || context_window::find(&self.endpoint, &self.model);
        Box::pin(async move { *self.window.get_or_try_init(find).await.ok()? })
    }
}
