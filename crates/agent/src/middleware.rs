//! What stands between the loop and the world. Every layer is one method, `handle(request, next)`, and may ask `next` as
//! often as it likes, or not at all.
//!
//! | order, outermost first | about | on unless said otherwise |
//! |---|---|---|
//! | a host's own layers | questions and calls | as it says |
//! | [`Caching`] | questions | yes, where the model has it |
//! | [`ModelRetry`] | questions | twice |
//! | [`ConcurrencyLimit`] | questions | no |
//! | [`AttemptTimeout`] | questions: each attempt by itself, and not the wait for a permit | no |
//! | a recorder ([`crate::cassette`]) | questions and calls | no |
//! | [`LoopGuard`] | calls | ten of the same in a row |
//! | [`ToolRetry`] | calls | three times, where nothing can have happened twice |
//!
//! Limits are no layer: the loop itself keeps them, so that they hold for whoever drives it.

mod caching;
mod config;
mod permit;
mod repetition;
mod retry;
mod timeout;
mod tool_retry;

use std::sync::Arc;

use wharf_protocol::{BoxFuture, CallFailed, Hints, ToolCall, ToolOutput, Tools};

use crate::{AgentEvent, EventSink, Model, ModelError, ModelRequest, ModelResponse};

pub use caching::Caching;
pub use config::{
    LoopGuardSettings, Middleware, ModelRetrySettings, OnModelFailure, OnToolFailure, OnUnsupported, PromptCaching,
    Summarization, ToolRetrySettings,
};
pub use permit::ConcurrencyLimit;
pub use repetition::LoopGuard;
pub use retry::ModelRetry;
pub use timeout::AttemptTimeout;
pub use tool_retry::ToolRetry;

/// Stands between the loop and the model.
pub trait ModelLayer: Send + Sync {
    /// Handles one question.
    fn handle<'a>(
        &'a self,
        ask: ModelRequest<'a>,
        next: NextModel<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>>;
}

/// Stands between the loop and the tools.
pub trait ToolLayer: Send + Sync {
    /// Handles one call.
    fn handle<'a>(&'a self, call: &'a ToolCall, next: NextTool<'a>) -> BoxFuture<'a, Result<ToolOutput, CallFailed>>;
}

/// The layers further in, and the model behind them.
#[derive(Clone, Copy)]
pub struct NextModel<'a> {
    pub(crate) layers: &'a [Arc<dyn ModelLayer>],
    pub(crate) model: &'a dyn Model,
    pub(crate) sink: &'a dyn EventSink,
}

/// The layers further in, and the tools behind them.
#[derive(Clone, Copy)]
pub struct NextTool<'a> {
    pub(crate) layers: &'a [Arc<dyn ToolLayer>],
    pub(crate) tools: &'a dyn Tools,
    pub(crate) sink: &'a dyn EventSink,
}

impl<'a> NextModel<'a> {
    /// Asks.
    pub fn ask(self, ask: ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        match self.layers.split_first() {
            Some((first, layers)) => first.handle(ask, NextModel { layers, ..self }),
            None => Box::pin(async move { self.model.ask(&ask).await }),
        }
    }

    /// The model that is asked.
    pub fn model(&self) -> &'a dyn Model {
        self.model
    }

    /// Tells what happens.
    pub fn tell(&self, event: AgentEvent) {
        self.sink.event(event);
    }
}

impl<'a> NextTool<'a> {
    /// Calls.
    pub fn call(self, call: &'a ToolCall) -> BoxFuture<'a, Result<ToolOutput, CallFailed>> {
        match self.layers.split_first() {
            Some((first, layers)) => first.handle(call, NextTool { layers, ..self }),
            None => self.tools.call(call),
        }
    }

    /// What a tool says about itself.
    pub fn hints(&self, name: &str) -> Option<Hints> {
        hints(self.tools, name)
    }

    /// Tells what happens.
    pub fn tell(&self, event: AgentEvent) {
        self.sink.event(event);
    }
}

/// What a tool says about itself.
pub(crate) fn hints(tools: &dyn Tools, name: &str) -> Option<Hints> {
    tools.offered().iter().find(|offered| *offered.name == *name).map(|offered| offered.hints)
}
