//! Calls a tool again whose call cannot have had an effect, or one that does no harm.

use wharf_protocol::{BoxFuture, CallFailed, Hints, Outcome, ToolCall, ToolOutput};

use super::config::ToolRetrySettings;
use super::{NextTool, ToolLayer};
use crate::AgentEvent;

/// Calls again. A tool that answers with an error has answered, and is not called again.
#[derive(Clone, Debug, Default)]
pub struct ToolRetry(pub ToolRetrySettings);

impl ToolLayer for ToolRetry {
    fn handle<'a>(&'a self, call: &'a ToolCall, next: NextTool<'a>) -> BoxFuture<'a, Result<ToolOutput, CallFailed>> {
        Box::pin(async move {
            let mut failures = 0;
            loop {
                let failed = match next.call(call).await {
                    Err(failed) if failures < self.0.max_retries && may_repeat(&failed, next.hints(&call.name)) => {
                        failed
                    }
                    result => return result,
                };
                failures += 1;
                let delay = self.0.backoff().delay(failures);
                tracing::info!(attempt = failures, ?delay, tool = &*call.name, "a tool is called again");
                let (what, reason) = (call.name.to_string(), failed.reason);
                next.tell(AgentEvent::Retry { what, attempt: failures, reason, delay });
                tokio::time::sleep(delay).await;
            }
        })
    }
}

fn may_repeat(failed: &CallFailed, hints: Option<Hints>) -> bool {
    match failed.outcome {
        Outcome::NotRun => true,
        Outcome::Unknown => hints.is_some_and(Hints::safe_to_repeat),
        Outcome::Answered => false,
    }
}
