//! Retries model requests that failed with a transient error.

use std::time::Duration;

use tokio::time::Instant;
use wharf_protocol::BoxFuture;

use super::concurrency::ConcurrencyLimit;
use super::config::ModelRetrySettings;
use super::{ModelLayer, NextModel};
use crate::{AgentEvent, ModelError, ModelErrorKind, ModelRequest, ModelResponse};

/// Maximum delay that a provider may request. A provider that requests more will not respond soon, so there is no
/// retry.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(120);

/// Retries transient failures with growing delays, or after the delay that the provider requests.
///
/// All attempts and delays together take at most [`ModelRetry::MAX_TIME`], without the waits for the concurrency limit.
#[derive(Clone, Debug, Default)]
pub struct ModelRetry {
    settings: ModelRetrySettings,
    concurrency_limit: Option<ConcurrencyLimit>,
}

impl ModelRetry {
    /// The time of all attempts of a request together, with the delays between them.
    pub const MAX_TIME: Duration = Duration::from_secs(60 * 60);

    /// Creates the layer. Each attempt waits for the concurrency limit, and does not hold it until the next one.
    pub fn new(settings: ModelRetrySettings, concurrency_limit: Option<ConcurrencyLimit>) -> Self {
        Self { settings, concurrency_limit }
    }
}

impl ModelLayer for ModelRetry {
    fn handle<'a>(
        &'a self,
        request: ModelRequest<'a>,
        next: NextModel<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let mut failures = FailureCounts::default();
            let mut remaining = Self::MAX_TIME;
            loop {
                let slot = match &self.concurrency_limit {
                    Some(limit) => Some(limit.acquire().await?),
                    None => None,
                };
                let start = Instant::now();
                let Ok(result) = tokio::time::timeout(remaining, next.complete(request)).await else {
                    return Err(out_of_time());
                };
                drop(slot);
                let error = match result {
                    Err(error) if error.is_transient() => error,
                    result => return result,
                };
                remaining = remaining.saturating_sub(start.elapsed());
                let Some(NextAttempt { backoff, max_attempts }) = failures.next(&self.settings, &error) else {
                    return Err(error);
                };
                let failures = failures.total;
                let delay = match error.retry_after {
                    Some(after) if after > MAX_RETRY_AFTER => return Err(error),
                    Some(after) => after.max(backoff),
                    None => backoff,
                };
                if delay >= remaining {
                    return Err(error);
                }
                remaining -= delay;
                tracing::info!(attempt = failures, ?delay, reason = error.kind.as_str(), "retrying the model request");
                next.emit(AgentEvent::Retry {
                    what: "model".to_owned(),
                    attempt: failures,
                    max_attempts,
                    reason: error.to_string(),
                    delay,
                });
                tokio::time::sleep(delay).await;
            }
        })
    }
}

fn out_of_time() -> ModelError {
    let seconds = ModelRetry::MAX_TIME.as_secs();
    let message = format!("no complete response within {seconds} s, with all attempts");
    ModelError::new(ModelErrorKind::Timeout, message)
}

/// The failures of one request: in total, and for each kind of error of a retry policy.
#[derive(Default)]
struct FailureCounts {
    total: u32,
    by_category: [u32; 4],
}

struct NextAttempt {
    /// The delay before it.
    backoff: Duration,
    /// How many attempts there are if all fail like the last one.
    max_attempts: u32,
}

impl FailureCounts {
    /// Counts a failure. Returns the next attempt; `None` if retries are exhausted.
    fn next(&mut self, settings: &ModelRetrySettings, error: &ModelError) -> Option<NextAttempt> {
        self.total += 1;
        let Some(policy) = &settings.policy else {
            let max_attempts = settings.max_retries.saturating_add(1);
            let backoff = settings.backoff().delay(self.total);
            return (self.total < max_attempts).then_some(NextAttempt { backoff, max_attempts });
        };
        let (index, retry) = policy.of(error.kind)?;
        let count = &mut self.by_category[index];
        *count += 1;
        let left = retry.max_attempts.checked_sub(*count)?;
        let max_attempts = self.total.saturating_add(left).saturating_add(1);
        Some(NextAttempt { backoff: retry.backoff().delay(*count), max_attempts })
    }
}
