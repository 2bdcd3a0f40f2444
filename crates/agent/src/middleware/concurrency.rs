//! Limits the number of concurrent model requests over all runs that share the limit.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{ModelError, ModelErrorKind};

/// A limit of concurrent model requests. Clones share it. Waiting for it does not count toward the timeouts of a
/// request.
#[derive(Clone, Debug)]
pub struct ConcurrencyLimit(Arc<Semaphore>);

impl ConcurrencyLimit {
    /// Allows up to `max` concurrent requests, at least one.
    pub fn new(max: usize) -> Self {
        Self(Arc::new(Semaphore::new(max.max(1))))
    }

    /// Waits until another request may start. Dropping the permit ends the request.
    pub(super) async fn acquire(&self) -> Result<SemaphorePermit<'_>, ModelError> {
        let closed = |_| ModelError::new(ModelErrorKind::Overloaded, "the concurrency limit is closed");
        self.0.acquire().await.map_err(closed)
    }
}
