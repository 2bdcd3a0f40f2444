//! The Messages API of Anthropic, and of everybody who speaks it too.

mod answer;
mod request;
mod results;
mod stream;
mod usage;

use wharf_protocol::BoxFuture;

use super::endpoint::{Endpoint, InvalidEndpoint};
use super::wire::{self, Expect, Reply};
use crate::{Capabilities, Model, ModelError, ModelRequest, ModelResponse};

/// The name of the wire format, in the origin of what was read from it.
const WIRE: &str = "anthropic";

/// A model behind the Messages API.
#[derive(Debug)]
pub struct Anthropic {
    endpoint: Endpoint,
    model: String,
}

impl Anthropic {
    /// Where Anthropic's own models are.
    pub const BASE_URL: &'static str = "https://api.anthropic.com";

    /// A model at an endpoint; whether its address ends with the version does not matter.
    ///
    /// # Errors
    /// If the key cannot be sent.
    pub fn new(endpoint: Endpoint, model: impl Into<String>) -> Result<Self, InvalidEndpoint> {
        let endpoint = endpoint.without_suffix("/v1").authorized("x-api-key", "")?;
        Ok(Self { endpoint: endpoint.saying("anthropic-version", "2023-06-01"), model: model.into() })
    }

    async fn asked(&self, ask: &ModelRequest<'_>) -> Result<ModelResponse, ModelError> {
        let request = request::Request::new(&self.model, ask);
        let expect = Expect::events(ask.options.stream);
        match wire::post(&self.endpoint, "/v1/messages", &request, expect).await? {
            Reply::Document(text) => answer::document(&self.endpoint, &self.model, ask, &text),
            Reply::Events(stream) => stream::read(&self.endpoint, &self.model, ask, *stream).await,
        }
    }
}

impl Model for Anthropic {
    fn interface(&self) -> &'static str {
        "anthropic"
    }

    fn name(&self) -> &str {
        &self.model
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            system_prompt: true,
            streaming: true,
            structured_output: true,
            tools: true,
            thinking: true,
            result_images: true,
            prompt_caching: true,
        }
    }

    fn ask<'a>(&'a self, ask: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(self.asked(ask))
    }
}
