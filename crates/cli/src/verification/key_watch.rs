//! Whether providers accept the keys of a run. A run in which none did has a wrong key, and says nothing about its models.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wharf::BoxFuture;
use wharf::agent::middleware::{LayeredModel, ModelLayer, NextModel};
use wharf::agent::{Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse};

/// What the providers of the answering models said about their keys.
#[derive(Debug, Default)]
pub(crate) struct KeyWatch {
    accepted: AtomicBool,
    rejected: AtomicBool,
}

impl KeyWatch {
    /// Returns a model whose requests are watched.
    pub(crate) fn watched(self: &Arc<Self>, model: Arc<dyn Model>) -> Arc<dyn Model> {
        Arc::new(LayeredModel::new(model, vec![Arc::clone(self) as _]))
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

impl ModelLayer for KeyWatch {
    fn handle<'a>(
        &'a self,
        request: ModelRequest<'a>,
        next: NextModel<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let result = next.complete(request).await;
            self.record(&result);
            result
        })
    }
}
