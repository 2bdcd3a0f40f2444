//! Asks a model again that may answer the next time.

use wharf_protocol::BoxFuture;

use super::config::ModelRetrySettings;
use super::{ModelLayer, NextModel};
use crate::{AgentEvent, ModelError, ModelRequest, ModelResponse};

/// The longest a provider is left alone because it says so. One that wants more will not answer soon.
const LONGEST_WISH: std::time::Duration = std::time::Duration::from_secs(120);

/// Asks again.
#[derive(Clone, Debug, Default)]
pub struct ModelRetry(pub ModelRetrySettings);

impl ModelLayer for ModelRetry {
    fn handle<'a>(
        &'a self,
        ask: ModelRequest<'a>,
        next: NextModel<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let mut failures = 0;
            loop {
                let error = match next.ask(ask).await {
                    Err(error) if error.may_retry() && failures < self.0.max_retries => error,
                    result => return result,
                };
                failures += 1;
                let pause = self.0.backoff().delay(failures);
                let delay = match error.retry_after {
                    Some(wish) if wish > LONGEST_WISH => return Err(error),
                    Some(wish) => wish.max(pause),
                    None => pause,
                };
                tracing::info!(attempt = failures, ?delay, reason = error.kind.as_str(), "a model is asked again");
                let (what, reason) = ("model".to_owned(), error.to_string());
                next.tell(AgentEvent::Retry { what, attempt: failures, reason, delay });
                tokio::time::sleep(delay).await;
            }
        })
    }
}
