//! Limits the duration of each attempt of a model request.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use wharf_protocol::BoxFuture;

use super::{ModelLayer, NextModel, RetryPolicy};
use crate::{ModelError, ModelErrorKind, ModelRequest, ModelResponse};

/// The timeout of one attempt, from the request to the end of the response.
#[derive(Debug)]
pub struct AttemptTimeout {
    base: Duration,
    policy: Option<RetryPolicy>,
    /// How many attempts in a row timed out. A run has one request at a time.
    timeouts: AtomicU32,
}

impl AttemptTimeout {
    /// Creates the layer. A retry policy may lengthen the timeout after attempts that timed out.
    pub fn new(base: Duration, policy: Option<RetryPolicy>) -> Self {
        Self { base, policy, timeouts: AtomicU32::new(0) }
    }
}

impl ModelLayer for AttemptTimeout {
    fn handle<'a>(
        &'a self,
        request: ModelRequest<'a>,
        next: NextModel<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let timeouts = self.timeouts.load(Ordering::Relaxed);
            let limit = self.policy.as_ref().map_or(self.base, |policy| policy.escalated(self.base, timeouts));
            let message = || format!("no complete response within {} s", limit.as_secs_f64());
            let result = match tokio::time::timeout(limit, next.complete(request)).await {
                Ok(result) => result,
                Err(_) => Err(ModelError::new(ModelErrorKind::Timeout, message())),
            };
            let timed_out = matches!(&result, Err(error) if error.kind == ModelErrorKind::Timeout);
            self.timeouts.store(if timed_out { timeouts.saturating_add(1) } else { 0 }, Ordering::Relaxed);
            result
        })
    }
}
