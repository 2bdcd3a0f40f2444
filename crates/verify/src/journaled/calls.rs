//! Tool calls through the journal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use wharf_agent::middleware::{NextTool, ToolLayer};
use wharf_protocol::{BoxFuture, CallFailed, Json, Outcome, ToolCall, ToolOutput, Usage};

use super::denials::Denials;
use super::steps::{Executed, FinishedStep, Steps};
use super::stop::StopCause;
use crate::journal::StepKind;

/// A layer that executes each tool call, with its retries, as a step.
pub(crate) struct JournaledCalls {
    steps: Arc<Steps>,
    denials: Arc<Denials>,
    servers: ServerLifetime,
    /// Whether a recorded call has changed servers that are gone.
    has_lost_effects: AtomicBool,
}

/// How long the servers of a trial live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerLifetime {
    /// As long as the trial runs in one process. A resumed trial gets other ones, without what earlier calls changed.
    Trial,
    /// Longer than the trial, or it has none.
    Run,
}

/// The recorded form of a call.
#[derive(Serialize, Deserialize)]
struct CallBody {
    result: CallResult,
    /// Why the call was denied, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    denied: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CallResult {
    Output(Json),
    Failed(FailedCall),
    /// The time limit of the run, in seconds, ended the call.
    TimeLimit(u64),
    /// The call was not executed: earlier calls changed servers that the trial no longer has.
    ServersRestarted,
}

#[derive(Serialize, Deserialize)]
struct FailedCall {
    reason: String,
    outcome: Outcome,
}

impl JournaledCalls {
    pub(crate) fn new(steps: Arc<Steps>, denials: Arc<Denials>, servers: ServerLifetime) -> Self {
        Self { steps, denials, servers, has_lost_effects: AtomicBool::default() }
    }

    async fn execute<'a>(&self, call: &'a ToolCall, next: NextTool<'a>) -> Executed {
        // A name that is not offered reaches no server.
        if self.has_lost_effects.load(Ordering::Relaxed) && next.hints(&call.name).is_some() {
            let body = body(&CallBody { result: CallResult::ServersRestarted, denied: None });
            return Executed { body, failed: false, usage: Usage::default() };
        }
        let result = match next.call(call).await {
            Ok(output) => CallResult::Output(output.raw),
            Err(CallFailed { reason, outcome, .. }) => CallResult::Failed(FailedCall { reason, outcome }),
        };
        let denied = self.denials.take(&call.id);
        Executed { body: body(&CallBody { result, denied }), failed: false, usage: Usage::default() }
    }

    async fn call<'a>(&'a self, call: &'a ToolCall, next: NextTool<'a>) -> Option<Result<ToolOutput, CallFailed>> {
        // The tools of the turn decide what may be repeated. A name that is not offered reaches no server.
        let hints = next.hints(&call.name);
        let is_repeatable = hints.is_none_or(wharf_protocol::Hints::safe_to_repeat);
        let changes_servers = hints.is_some_and(|hints| hints.read_only != Some(true));
        let kind = if is_repeatable { StepKind::ReadOnlyTool } else { StepKind::Tool };
        let digest = self.steps.digest(call);
        let on_time_limit = |seconds| body(&CallBody { result: CallResult::TimeLimit(seconds), denied: None });
        let step = self.steps.run(kind, digest, self.execute(call, next), on_time_limit).await?;
        let FinishedStep { result, is_recorded } = step;
        let CallBody { result: recorded, denied } = self.steps.decode(&result)?;
        if is_recorded && changes_servers && self.servers == ServerLifetime::Trial && recorded.may_have_run() {
            self.has_lost_effects.store(true, Ordering::Relaxed);
        }
        self.steps.add_call(result.millis);
        if let Some(reason) = denied {
            self.steps.add_denied(reason);
        }
        Some(match recorded {
            CallResult::ServersRestarted => {
                let reason = "the trial was interrupted after calls that may have changed its servers, and its servers \
                              have been started again";
                self.steps.stop().set(StopCause::Indeterminate(reason.to_owned()));
                return None;
            }
            CallResult::Output(output) => {
                ToolOutput::from_json(&output).map_err(|reason| failed(call, reason, Outcome::Answered))
            }
            CallResult::Failed(FailedCall { reason, outcome }) => Err(failed(call, reason, outcome)),
            CallResult::TimeLimit(seconds) => {
                self.steps.set_time_limit_reached(seconds);
                Err(failed(call, format!("the limit of {seconds} s was reached"), Outcome::Unknown))
            }
        })
    }
}

impl CallResult {
    fn may_have_run(&self) -> bool {
        !matches!(self, Self::Failed(FailedCall { outcome: Outcome::NotRun, .. }) | Self::ServersRestarted)
    }
}

impl ToolLayer for JournaledCalls {
    fn handle<'a>(&'a self, call: &'a ToolCall, next: NextTool<'a>) -> BoxFuture<'a, Result<ToolOutput, CallFailed>> {
        Box::pin(async move {
            let result = self.call(call, next).await;
            // Without a result the cause is set, and the agent is about to be stopped.
            result.unwrap_or_else(|| Err(failed(call, "the run was stopped".to_owned(), Outcome::Unknown)))
        })
    }
}

fn failed(call: &ToolCall, reason: String, outcome: Outcome) -> CallFailed {
    CallFailed { name: call.name.to_string(), reason, outcome }
}

fn body(call: &CallBody) -> String {
    serde_json::to_string(call).unwrap_or_default()
}
