//! The script and the state of fake models.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::turn::Turn;
use crate::seen_request::SeenRequest;

/// The models of one provider, shared by all its connections.
#[derive(Clone, Default)]
pub struct FakeModels {
    shared: Arc<Mutex<State>>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) turns: VecDeque<Turn>,
    /// The response to a request for the list of models; `null` if not available.
    pub(super) models: Value,
    /// The response to requests for a summary; a turn of the script if absent.
    pub(super) summary: Option<String>,
    /// The vectors of texts. Other texts have no embedding.
    pub(super) vectors: HashMap<String, Vec<f32>>,
    pub(super) requests: Vec<SeenRequest>,
}

impl FakeModels {
    /// Creates a provider with a script.
    pub fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        let state = State { turns: turns.into_iter().collect(), ..State::default() };
        Self { shared: Arc::new(Mutex::new(state)) }
    }

    /// Sets the list of models.
    #[must_use]
    pub fn listing(self, models: Value) -> Self {
        self.state().models = models;
        self
    }

    /// Sets the summary of every conversation. A request for one consumes no turn.
    #[must_use]
    pub fn summarizing(self, summary: impl Into<String>) -> Self {
        self.state().summary = Some(summary.into());
        self
    }

    /// Sets the vectors of texts. A request for embeddings consumes no turn, unless one with a fault is left.
    #[must_use]
    pub fn embedding<'a>(self, vectors: impl IntoIterator<Item = (&'a str, Vec<f32>)>) -> Self {
        self.state().vectors = vectors.into_iter().map(|(text, vector)| (text.to_owned(), vector)).collect();
        self
    }

    /// Returns all received requests.
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.state().requests.clone()
    }

    /// Returns the bodies of all received requests, except empty ones.
    ///
    /// # Panics
    /// If a body is not JSON.
    pub fn bodies(&self) -> Vec<Value> {
        let requests = self.requests().into_iter().filter(|request| !request.body.is_empty());
        requests.map(|request| serde_json::from_str(&request.body).expect("bodies are JSON")).collect()
    }

    /// Returns how many turns are left in the script.
    pub fn remaining_turns(&self) -> usize {
        self.state().turns.len()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
