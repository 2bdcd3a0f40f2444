//! The embeddings API of `OpenAI` and of compatible providers, for example a local llama.cpp or Ollama.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wharf_protocol::{BoxFuture, Usage};

use super::endpoint::{Endpoint, InvalidEndpoint};
use super::openai::Dialect;
use super::prices::cost_of;
use super::wire::{self, BodyKind, Reply, malformed, provider_error};
use crate::{Embedder, Embeddings, ModelError};

/// The maximum length of a vector.
const MAX_DIMENSIONS: usize = 65_536;

/// An embedding model.
#[derive(Debug)]
pub struct OpenAiEmbeddings {
    endpoint: Endpoint,
    model: String,
    dialect: Dialect,
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    input: &'a [String],
    encoding_format: &'static str,
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    data: Option<Vec<Entry>>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    usage: Value,
    #[serde(default)]
    error: Value,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    index: Option<usize>,
    embedding: Vec<f32>,
}

impl OpenAiEmbeddings {
    /// Creates a model at an endpoint.
    ///
    /// # Errors
    /// Returns an error if the API key contains characters that are invalid in a header.
    pub fn new(dialect: Dialect, endpoint: Endpoint, model: impl Into<String>) -> Result<Self, InvalidEndpoint> {
        let endpoint = endpoint.with_key_header("authorization", "Bearer ")?;
        Ok(Self { endpoint, model: model.into(), dialect })
    }

    async fn send(&self, texts: &[String]) -> Result<Embeddings, ModelError> {
        let body = Request { model: &self.model, input: texts, encoding_format: "float" };
        match wire::post(&self.endpoint, "/embeddings", &body, BodyKind::Document).await? {
            Reply::Document(text) => self.read(&text, texts.len()),
            Reply::Events(_) => Err(malformed(&self.endpoint, "unexpected event stream")),
        }
    }

    /// Reads a response: exactly one vector for each text, all of the same length, with finite numbers.
    fn read(&self, text: &str, count: usize) -> Result<Embeddings, ModelError> {
        let invalid = |reason: &str| malformed(&self.endpoint, reason);
        let document: Document = serde_json::from_str(text).map_err(|error| invalid(&error.to_string()))?;
        if !document.error.is_null() {
            return Err(provider_error(&self.endpoint, &serde_json::json!({ "error": document.error })));
        }
        let entries = document.data.ok_or_else(|| invalid("no vectors"))?;
        let mut vectors: Vec<Option<Vec<f32>>> = vec![None; count];
        for (position, Entry { index, embedding }) in entries.into_iter().enumerate() {
            let place = vectors.get_mut(index.unwrap_or(position)).ok_or_else(|| invalid("too many vectors"))?;
            if !(1..=MAX_DIMENSIONS).contains(&embedding.len()) || !embedding.iter().all(|number| number.is_finite()) {
                return Err(invalid("a vector is empty, too long or not finite"));
            }
            if place.replace(embedding).is_some() {
                return Err(invalid("two vectors for one text"));
            }
        }
        let vectors: Vec<Vec<f32>> =
            vectors.into_iter().collect::<Option<_>>().ok_or_else(|| invalid("a vector is missing"))?;
        if vectors.windows(2).any(|pair| pair[0].len() != pair[1].len()) {
            return Err(invalid("vectors of different lengths"));
        }
        let model = document.model.unwrap_or_else(|| self.model.clone());
        let tokens = document.usage.get("prompt_tokens").and_then(Value::as_u64).unwrap_or_default();
        let cost = document.usage.get("cost").and_then(Value::as_f64);
        let mut usage = Usage { input_tokens: tokens, cost_usd: cost, ..Usage::default() };
        usage.cost_usd = cost.or_else(|| cost_of(self.dialect.interface(), [&model, &self.model], &usage));
        Ok(Embeddings { vectors, model, usage })
    }
}

impl Embedder for OpenAiEmbeddings {
    fn interface(&self) -> &str {
        self.dialect.interface()
    }

    fn name(&self) -> &str {
        &self.model
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Embeddings, ModelError>> {
        Box::pin(self.send(texts))
    }
}
