//! The embedding model of a run. It compares the meanings of texts.

use std::sync::Arc;

use serde_json::{Value, json};
use wharf_agent::Embedder;

/// The embedding model of a run.
#[derive(Clone)]
pub struct EmbeddingModel {
    /// The model.
    pub embedder: Arc<dyn Embedder>,
    /// Base URL, if it is not the provider's own.
    pub base_url: Option<String>,
    /// The minimum cosine similarity of a value to the truth, from 0 to 1. A `semantic_match` has its own.
    pub threshold: f64,
}

impl EmbeddingModel {
    /// The default of [`threshold`](Self::threshold).
    pub const DEFAULT_THRESHOLD: f64 = 0.85;

    /// Returns what can change a similarity.
    pub(crate) fn identity(&self) -> Value {
        let Self { embedder, base_url, threshold } = self;
        json!({"interface": embedder.interface(), "name": embedder.name(), "base_url": base_url, "threshold": threshold})
    }
}
