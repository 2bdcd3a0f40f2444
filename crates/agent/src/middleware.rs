//! Layers between the agent loop and the model or the tools. A layer has one method, `handle(request, next)`, and may
//! call `next` any number of times.
//!
//! | layer, outermost first | applies to | default |
//! |---|---|---|
//! | the host's own layers | requests and calls | none |
//! | [`Caching`] | model requests | on, if the model supports it |
//! | [`ModelRetry`], with a [`ConcurrencyLimit`] of the attempts | model requests | 2 retries, no limit |
//! | [`AttemptTimeout`] | each attempt of a request, without the wait for the concurrency limit | off |
//! | a recorder ([`crate::cassette`]) | requests and calls | off |
//! | [`LoopGuard`] | tool calls | 10 identical calls in a row |
//! | [`ToolRetry`] | tool calls that cannot have run or are safe to repeat | 3 retries |
//!
//! Limits are not a layer. The run enforces them, so they apply with any driver. Summarization is not a layer either: it
//! changes what the model reads of the run, and its requests pass through the layers.

mod caching;
mod concurrency;
mod config;
mod layered_model;
mod loop_guard;
mod model_retry;
mod range;
mod retry_policy;
mod timeout;
mod tool_retry;

use std::sync::Arc;

use wharf_protocol::{BoxFuture, CallFailed, Hints, ToolCall, ToolOutput, Tools};

use crate::{AgentEvent, EventSink, Model, ModelError, ModelRequest, ModelResponse};

pub use caching::Caching;
pub use concurrency::ConcurrencyLimit;
pub use config::{
    LoopGuardSettings, Middleware, ModelRetrySettings, OnModelFailure, OnToolFailure, OnUnsupported, PromptCaching,
    Summarization, ToolRetrySettings, ToolSearch,
};
pub use layered_model::LayeredModel;
pub use loop_guard::LoopGuard;
pub use model_retry::ModelRetry;
pub use retry_policy::{CategoryRetry, EscalationStrategy, RetryPolicy, TimeoutEscalation};
pub use timeout::AttemptTimeout;
pub use tool_retry::ToolRetry;

/// A layer around model requests.
pub trait ModelLayer: Send + Sync {
    /// Handles one request, usually by calling [`NextModel::complete`].
    fn handle<'a>(
        &'a self,
        request: ModelRequest<'a>,
        next: NextModel<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>>;
}

/// A layer around tool calls.
pub trait ToolLayer: Send + Sync {
    /// Handles one call, usually by calling [`NextTool::call`].
    fn handle<'a>(&'a self, call: &'a ToolCall, next: NextTool<'a>) -> BoxFuture<'a, Result<ToolOutput, CallFailed>>;
}

/// The inner layers and the model.
#[derive(Clone, Copy)]
pub struct NextModel<'a> {
    pub(crate) layers: &'a [Arc<dyn ModelLayer>],
    pub(crate) model: &'a dyn Model,
    pub(crate) sink: &'a dyn EventSink,
}

/// The inner layers and the tools.
#[derive(Clone, Copy)]
pub struct NextTool<'a> {
    pub(crate) layers: &'a [Arc<dyn ToolLayer>],
    pub(crate) tools: &'a dyn Tools,
    pub(crate) sink: &'a dyn EventSink,
}

impl<'a> NextModel<'a> {
    /// Passes the request to the next layer, or to the model.
    pub fn complete(self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        match self.layers.split_first() {
            Some((first, layers)) => first.handle(request, NextModel { layers, ..self }),
            None => Box::pin(async move { self.model.complete(&request).await }),
        }
    }

    /// Returns the model of the run.
    pub fn model(&self) -> &'a dyn Model {
        self.model
    }

    /// Reports an event of the run.
    pub fn emit(&self, event: AgentEvent) {
        self.sink.event(event);
    }
}

impl<'a> NextTool<'a> {
    /// Passes the call to the next layer, or to the tools.
    pub fn call(self, call: &'a ToolCall) -> BoxFuture<'a, Result<ToolOutput, CallFailed>> {
        match self.layers.split_first() {
            Some((first, layers)) => first.handle(call, NextTool { layers, ..self }),
            None => self.tools.call(call),
        }
    }

    /// Returns the hints of a tool.
    pub fn hints(&self, name: &str) -> Option<Hints> {
        hints(self.tools, name)
    }

    /// Reports an event of the run.
    pub fn emit(&self, event: AgentEvent) {
        self.sink.event(event);
    }
}

/// Returns the hints of a tool by its name.
pub(crate) fn hints(tools: &dyn Tools, name: &str) -> Option<Hints> {
    tools.offered().iter().find(|offered| *offered.name == *name).map(|offered| offered.hints)
}
