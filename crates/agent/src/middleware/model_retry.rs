//! Retries model requests that failed with a transient error.

use std::time::Duration;

use wharf_protocol::BoxFuture;

use super::config::ModelRetrySettings;
use super::{ModelLayer, NextModel};
use crate::{AgentEvent, ModelError, ModelRequest, ModelResponse};

/// Maximum delay that a provider may request. A provider that requests more will not respond soon, so there is no
/// retry.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(120);

/// Retries transient failures with growing delays, or after the delay that the provider requests.
#[derive(Clone, Debug, Default)]
pub struct ModelRetry(pub ModelRetrySettings);

impl ModelLayer for ModelRetry {
    fn handle<'a>(
        &'a self,
        request: ModelRequest<'a>,
        next: NextModel<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let mut failures = FailureCounts::default();
            loop {
                let error = match next.complete(request).await {
                    Err(error) if error.is_transient() => error,
                    result => return result,
                };
                let Some(backoff) = failures.next_delay(&self.0, &error) else { return Err(error) };
                let failures = failures.total;
                let delay = match error.retry_after {
                    Some(after) if after > MAX_RETRY_AFTER => return Err(error),
                    Some(after) => after.max(backoff),
                    None => backoff,
                };
                tracing::info!(attempt = failures, ?delay, reason = error.kind.as_str(), "retrying the model request");
                next.emit(AgentEvent::Retry {
                    what: "model".to_owned(),
                    attempt: failures,
                    reason: error.to_string(),
                    delay,
                });
                tokio::time::sleep(delay).await;
            }
        })
    }
}

/// The failures of one request: in total, and for each kind of error of a retry policy.
#[derive(Default)]
struct FailureCounts {
    total: u32,
    by_category: [u32; 4],
}

impl FailureCounts {
    /// Counts a failure. Returns the delay before the next attempt; `None` if retries are exhausted.
    fn next_delay(&mut self, settings: &ModelRetrySettings, error: &ModelError) -> Option<Duration> {
        self.total += 1;
        let Some(policy) = &settings.policy else {
            return (self.total <= settings.max_retries).then(|| settings.backoff().delay(self.total));
        };
        let (index, retry) = policy.of(error.kind)?;
        let count = &mut self.by_category[index];
        *count += 1;
        (*count <= retry.max_attempts).then(|| retry.backoff().delay(*count))
    }
}
