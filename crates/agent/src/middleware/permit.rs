//! Lets only so many questions be under way at a time, over all runs that share it.

use std::sync::Arc;

use tokio::sync::Semaphore;
use wharf_protocol::BoxFuture;

use super::{ModelLayer, NextModel};
use crate::{ModelError, ModelErrorKind, ModelRequest, ModelResponse};

/// Lets only so many be under way. Waiting for it is no part of an attempt's time.
#[derive(Clone, Debug)]
pub struct ConcurrencyLimit(Arc<Semaphore>);

impl ConcurrencyLimit {
    /// So many at a time; at least one.
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Semaphore::new(most.max(1))))
    }
}

impl ModelLayer for ConcurrencyLimit {
    fn handle<'a>(
        &'a self,
        ask: ModelRequest<'a>,
        next: NextModel<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let closed = |_| ModelError::new(ModelErrorKind::Overloaded, "no more questions may be asked");
            let _permit = self.0.acquire().await.map_err(closed)?;
            next.ask(ask).await
        })
    }
}
