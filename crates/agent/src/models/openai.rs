//! Chat Completions: the API of `OpenAI`, in the dialects of those who speak it too.

mod answer;
mod emulated;
mod merge;
mod request;
mod schema;
mod stream;
mod usage;
mod window;

use tokio::sync::OnceCell;
use wharf_protocol::BoxFuture;

use super::endpoint::{Endpoint, InvalidEndpoint};
use super::wire::{self, Expect, Reply};
use crate::{Capabilities, Model, ModelError, ModelRequest, ModelResponse};

/// The name of the wire format, in the origin of what was read from it.
const WIRE: &str = "openai";
/// The same with calls written as text, which means nothing where calls are calls.
const EMULATED: &str = "openai-emulated";

/// A model behind Chat Completions.
#[derive(Debug)]
pub struct OpenAi {
    endpoint: Endpoint,
    model: String,
    dialect: Dialect,
    emulate_tools: bool,
    blind: bool,
    window: OnceCell<Option<u64>>,
}

/// Who is asked: they differ in where they are and in what they add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `OpenAI` itself.
    OpenAi,
    /// `OpenRouter`, which passes on to many others.
    OpenRouter,
    /// Any other endpoint.
    Endpoint,
    /// Ollama on this machine.
    Ollama,
}

impl Dialect {
    /// The name of the interface.
    pub fn interface(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::OpenRouter => "openrouter",
            Self::Endpoint => "openai-endpoint",
            Self::Ollama => "ollama",
        }
    }

    /// Where it is, unless somebody says otherwise.
    pub fn base_url(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some("https://api.openai.com/v1"),
            Self::OpenRouter => Some("https://openrouter.ai/api/v1"),
            Self::Endpoint => None,
            Self::Ollama => Some("http://127.0.0.1:11434/v1"),
        }
    }

    /// Whether nobody is answered without a key.
    pub fn needs_key(self) -> bool {
        matches!(self, Self::OpenAi | Self::OpenRouter)
    }
}

impl OpenAi {
    /// A model at an endpoint.
    ///
    /// # Errors
    /// If the key cannot be sent.
    pub fn new(dialect: Dialect, endpoint: Endpoint, model: impl Into<String>) -> Result<Self, InvalidEndpoint> {
        let endpoint = endpoint.authorized("authorization", "Bearer ")?;
        Ok(Self { endpoint, model: model.into(), dialect, emulate_tools: false, blind: false, window: OnceCell::new() })
    }

    /// For a model that has never heard of tools: they are described to it in words, and the form of its answer is one
    /// in which it can call them.
    #[must_use]
    pub fn emulating_tools(mut self) -> Self {
        self.emulate_tools = true;
        self
    }

    /// For a model that takes no images: those that tools answer with are told in words only.
    #[must_use]
    pub fn without_images(mut self) -> Self {
        self.blind = true;
        self
    }

    /// Whether it is a model whose caching has to be asked for.
    fn caches_by_wish(&self) -> bool {
        self.dialect == Dialect::OpenRouter
            && (self.model.starts_with("anthropic/") || self.model.starts_with("~anthropic/"))
    }

    async fn asked(&self, ask: &ModelRequest<'_>) -> Result<ModelResponse, ModelError> {
        let request = request::Request::new(self, ask);
        let expect = Expect::events(request.stream);
        match wire::post(&self.endpoint, "/chat/completions", &request, expect).await? {
            Reply::Document(text) => answer::document(self, ask, &text),
            Reply::Events(stream) => stream::read(self, ask, *stream).await,
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
            result_images: !self.blind,
            prompt_caching: self.caches_by_wish(),
        }
    }

    fn ask<'a>(&'a self, ask: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(self.asked(ask))
    }

    fn window(&self) -> BoxFuture<'_, Option<u64>> {
        Box::pin(async { *self.window.get_or_try_init(|| window::find(&self.endpoint, &self.model)).await.ok()? })
    }
}
