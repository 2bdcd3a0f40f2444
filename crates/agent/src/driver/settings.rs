//! The settings of an agent.

use std::sync::Arc;
use std::time::Duration;

use super::{Agent, Checkpoint, OnCheckpointFailure};
use crate::middleware::{ConcurrencyLimit, Middleware, ModelLayer, ToolLayer};
use crate::{EventSink, ModelOptions};

impl Agent {
    /// Sets how long tool calls in flight may take to finish after a run was canceled; by default no time.
    #[must_use]
    pub fn with_drain_timeout(mut self, time: Duration) -> Self {
        self.drain_timeout = time;
        self
    }

    /// Sets the request options.
    #[must_use]
    pub fn with_options(mut self, options: ModelOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the middleware settings. Pass their limits to [`Run::new`].
    #[must_use]
    pub fn with_middleware(mut self, middleware: Middleware) -> Self {
        self.middleware = middleware;
        self
    }

    /// Limits the number of concurrent model requests. Share the limit between agents.
    #[must_use]
    pub fn with_concurrency_limit(mut self, limit: ConcurrencyLimit) -> Self {
        self.concurrency_limit = Some(limit);
        self
    }

    /// Sets the timeout of each attempt of a model request.
    #[must_use]
    pub fn with_attempt_timeout(mut self, time: Duration) -> Self {
        self.attempt_timeout = Some(time);
        self
    }

    /// Sets the model's context window in tokens, instead of the one that the model reports.
    #[must_use]
    pub fn with_context_window(mut self, tokens: u64) -> Self {
        self.context_window = Some(tokens);
        self
    }

    /// Adds a layer around model requests, outside of the built-in layers.
    #[must_use]
    pub fn with_model_layer(mut self, layer: Arc<dyn ModelLayer>) -> Self {
        self.model_layers.push(layer);
        self
    }

    /// Adds a layer around tool calls, outside of the built-in layers.
    #[must_use]
    pub fn with_tool_layer(mut self, layer: Arc<dyn ToolLayer>) -> Self {
        self.tool_layers.push(layer);
        self
    }

    /// Sets the receiver of events.
    #[must_use]
    pub fn with_events(mut self, sink: Arc<dyn EventSink>) -> Self {
        self.sink = sink;
        self
    }

    /// Saves every run before and after each step.
    #[must_use]
    pub fn with_checkpoint(mut self, checkpoint: Arc<dyn Checkpoint>) -> Self {
        self.checkpoint = Some(checkpoint);
        self
    }

    /// Sets what happens to a run that cannot be saved.
    #[must_use]
    pub fn with_checkpoint_failure(mut self, action: OnCheckpointFailure) -> Self {
        self.on_checkpoint_failure = action;
        self
    }
}
