//! Retries tool calls that did not run, and those of read-only and idempotent tools that may have run.

use wharf_protocol::{BoxFuture, CallFailed, Outcome, ToolCall, ToolOutput};

use super::config::ToolRetrySettings;
use super::{NextTool, ToolLayer};
use crate::AgentEvent;

/// A layer that retries failed calls by [`Outcome::retry_safety`](wharf_protocol::Outcome::retry_safety). A tool that
/// returns an error has answered and is not called again.
#[derive(Clone, Debug, Default)]
pub struct ToolRetry(pub ToolRetrySettings);

impl ToolLayer for ToolRetry {
    fn handle<'a>(&'a self, call: &'a ToolCall, next: NextTool<'a>) -> BoxFuture<'a, Result<ToolOutput, CallFailed>> {
        Box::pin(async move {
            let mut failures = 0;
            let mut may_have_run = false;
            loop {
                let mut failed = match next.call(call).await {
                    Ok(output) => return Ok(output),
                    Err(failed) => failed,
                };
                let may_retry = failed.outcome.retry_safety(next.hints(&call.name)).allows_retry();
                may_have_run |= failed.outcome == Outcome::Unknown;
                if !may_retry || failures >= self.0.max_retries {
                    // The last attempt did not run, but one before it may have.
                    if may_have_run && failed.outcome == Outcome::NotRun {
                        failed.outcome = Outcome::Unknown;
                    }
                    return Err(failed);
                }
                failures += 1;
                let delay = self.0.backoff().delay(failures);
                tracing::info!(attempt = failures, ?delay, tool = &*call.name, "retrying a tool call");
                next.emit(AgentEvent::Retry {
                    what: call.name.to_string(),
                    attempt: failures,
                    max_attempts: self.0.max_retries.saturating_add(1),
                    reason: failed.reason,
                    delay,
                });
                tokio::time::sleep(delay).await;
            }
        })
    }
}
