//! A model behind layers, as one model: for layers that belong inside the built-in ones of an agent.

use std::sync::Arc;

use wharf_protocol::{BoxFuture, Message};

use super::{ModelLayer, NextModel};
use crate::{AgentEvent, Capabilities, EventSink, Model, ModelError, ModelRequest, ModelResponse, PreparedRun};

/// A model whose requests pass layers, the first one outermost. Events of the layers are dropped.
pub struct LayeredModel {
    model: Arc<dyn Model>,
    layers: Vec<Arc<dyn ModelLayer>>,
}

struct NoEvents;

impl EventSink for NoEvents {
    fn event(&self, _: AgentEvent) {}
}

impl LayeredModel {
    /// Puts layers around a model.
    pub fn new(model: Arc<dyn Model>, layers: Vec<Arc<dyn ModelLayer>>) -> Self {
        Self { model, layers }
    }
}

impl Model for LayeredModel {
    fn interface(&self) -> &str {
        self.model.interface()
    }

    fn name(&self) -> &str {
        self.model.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.model.capabilities()
    }

    fn complete<'a>(&'a self, request: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        NextModel { layers: &self.layers, model: &*self.model, sink: &NoEvents }.complete(*request)
    }

    fn prepared(&self, messages: &[Message]) -> Option<Result<PreparedRun, ModelError>> {
        self.model.prepared(messages)
    }

    fn context_window(&self) -> BoxFuture<'_, Option<u64>> {
        self.model.context_window()
    }
}
