//! Limits the number of concurrent model requests over all runs that share the limit.

use std::sync::Arc;

use tokio::sync::Semaphore;
use wharf_protocol::BoxFuture;

use super::{ModelLayer, NextModel};
use crate::{ModelError, ModelErrorKind, ModelRequest, ModelResponse};

/// A limit of concurrent model requests. Clones share it. Waiting for it does not count toward the timeout of an
/// attempt.
#[derive(Clone, Debug)]
pub struct ConcurrencyLimit(Arc<Semaphore>);

impl ConcurrencyLimit {
    /// Allows up to `max` concurrent requests, at least one.
    pub fn new(max: usize) -> Self {
        Self(Arc::new(Semaphore::new(max.max(1))))
    }
}

impl ModelLayer for ConcurrencyLimit {
    fn handle<'a>(
        &'a self,
        request: ModelRequest<'a>,
        next: NextModel<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let closed = |_| ModelError::new(ModelErrorKind::Overloaded, "the concurrency limit is closed");
            let _permit = self.0.acquire().await.map_err(closed)?;
            next.complete(request).await
        })
    }
}
