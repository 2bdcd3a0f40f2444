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
            let mut failures = 0;
            loop {
                let error = match next.complete(request).await {
                    Err(error) if error.is_transient() && failures < self.0.max_retries => error,
                    result => return result,
                };
                failures += 1;
                let backoff = self.0.backoff().delay(failures);
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
