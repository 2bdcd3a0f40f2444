//! The Messages API of Anthropic and of compatible providers.

mod request;
mod response;
mod results;
mod stream;
mod usage;

use wharf_protocol::BoxFuture;

use super::endpoint::{Endpoint, InvalidEndpoint};
use super::wire::{self, BodyKind, Reply};
use crate::{Capabilities, Model, ModelError, ModelRequest, ModelResponse};

/// Name of the wire format in [`Origin`](wharf_protocol::Origin).
const WIRE: &str = "anthropic";

/// A model behind the Messages API.
#[derive(Debug)]
pub struct Anthropic {
    endpoint: Endpoint,
    model: String,
}

impl Anthropic {
    /// Base URL of Anthropic's own API.
    pub const BASE_URL: &'static str = "https://api.anthropic.com";

    /// Creates a model at an endpoint. The base URL may end with the version.
    ///
    /// # Errors
    /// Returns an error if the API key contains characters that are invalid in a header.
    pub fn new(endpoint: Endpoint, model: impl Into<String>) -> Result<Self, InvalidEndpoint> {
        let endpoint = endpoint.without_suffix("/v1").with_key_header("x-api-key", "")?;
        Ok(Self { endpoint: endpoint.with_default_header("anthropic-version", "2023-06-01"), model: model.into() })
    }

    async fn send(&self, request: &ModelRequest<'_>) -> Result<ModelResponse, ModelError> {
        let body = request::Request::new(&self.model, request);
        let kind = BodyKind::requested(request.options.stream);
        match wire::post(&self.endpoint, "/v1/messages", &body, kind).await? {
            Reply::Document(text) => response::document(&self.endpoint, &self.model, request, &text),
            Reply::Events(stream) => stream::read(&self.endpoint, &self.model, request, *stream).await,
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
            automatic_caching: false,
        }
    }

    fn complete<'a>(&'a self, request: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(self.send(request))
    }
}
