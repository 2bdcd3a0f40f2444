//! Whether providers accept the keys of a run. A run in which none did has a wrong key, and says nothing about its models.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wharf::agent::{Capabilities, Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse, PreparedRun};
use wharf::{BoxFuture, Message};

/// What the providers of the answering models said about their keys.
#[derive(Debug, Default)]
pub(crate) struct KeyWatch {
    accepted: AtomicBool,
    rejected: AtomicBool,
}

impl KeyWatch {
    /// Returns a model whose requests are watched.
    pub(crate) fn watched(self: &Arc<Self>, model: Arc<dyn Model>) -> Arc<dyn Model> {
        Arc::new(WatchedModel { model, watch: Arc::clone(self) })
    }

    /// Whether keys were rejected, and none was accepted.
    pub(crate) fn has_only_rejected(&self) -> bool {
        self.rejected.load(Ordering::Relaxed) && !self.accepted.load(Ordering::Relaxed)
    }

    fn record(&self, result: &Result<ModelResponse, ModelError>) {
        match result {
            Ok(_) => self.accepted.store(true, Ordering::Relaxed),
            Err(error) if error.kind == ModelErrorKind::Auth => self.rejected.store(true, Ordering::Relaxed),
            Err(_) => {}
        }
    }
}

struct WatchedModel {
    model: Arc<dyn Model>,
    watch: Arc<KeyWatch>,
}

impl Model for WatchedModel {
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
        Box::pin(async move {
            let result = self.model.complete(request).await;
            self.watch.record(&result);
            result
        })
    }

    fn prepared(&self, messages: &[Message]) -> Option<Result<PreparedRun, ModelError>> {
        self.model.prepared(messages)
    }

    fn context_window(&self) -> BoxFuture<'_, Option<u64>> {
        self.model.context_window()
    }
}
