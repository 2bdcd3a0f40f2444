//! What follows a failed execution of a call: another attempt, or the end.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use wharf_client::{CallError, CallErrorKind};
use wharf_protocol::{CallFailed, Outcome, Tool, TraceStep};

use super::call_trace::CallTrace;
use super::freshness::{accept, trace_drift};
use super::{Answered, CallFailure, Stop, messages};
use crate::catalog::{Entry, ExecutionError, ToolFreshness};

/// How often a call is executed again: once because its tool changed while the user was asked, and once because the
/// session or the connection was lost.
const MAX_RETRIES: u32 = 2;

/// What is left of a call's retries and of its time.
pub(super) struct Retries {
    left: u32,
    deadline: Option<Instant>,
    /// The last error of an attempt that may have run.
    may_have_run: Option<Box<CallError>>,
}

impl Retries {
    pub(super) fn until(deadline: Option<Instant>) -> Self {
        Self { left: MAX_RETRIES, deadline, may_have_run: None }
    }

    pub(super) fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }
}

/// Decides what follows a failed execution: the next attempt, with the tool's new definition if it has one, or the end.
pub(super) async fn before_retry(
    entry: &Entry,
    tool: &Arc<Tool>,
    retries: &mut Retries,
    error: ExecutionError,
    trace: &mut CallTrace<'_>,
) -> ControlFlow<Result<Answered, Stop>, Option<Arc<Tool>>> {
    // On another session the tool may be another one. A call that did not run may use the new definition.
    let (is_safe, may_use_new_definition) = match &error {
        ExecutionError::ToolChanged => (true, true),
        // The session itself has retried what does not need a new connection.
        ExecutionError::Call(error) => (
            error.needs_reconnect() && error.retry_safety(Some(tool.hints.strictest(entry.hints))).allows_retry(),
            matches!(error.kind, CallErrorKind::SessionLost { .. } | CallErrorKind::SessionReplaced),
        ),
    };
    if !is_safe || retries.left == 0 {
        return ControlFlow::Break(failed(entry, retries, error, trace));
    }
    retries.left -= 1;
    let limit = retries.time_left().unwrap_or(Duration::MAX);
    let Ok(freshness) = tokio::time::timeout(limit, entry.executor.freshness(tool)).await else {
        return ControlFlow::Break(failed(entry, retries, error, trace));
    };
    if !may_use_new_definition && !matches!(freshness, ToolFreshness::Same) {
        return ControlFlow::Break(failed(entry, retries, error, trace));
    }
    match accept(entry, freshness, trace) {
        Ok(newer) => {
            if let Some(newer) = &newer {
                trace_drift(entry, newer, trace);
            }
            if let ExecutionError::Call(error) = error
                && error.outcome() == Outcome::Unknown
            {
                retries.may_have_run = Some(error);
            }
            ControlFlow::Continue(newer)
        }
        Err(stop) => ControlFlow::Break(Err(stop)),
    }
}

/// Returns the result of a call whose last attempt failed with `error`.
fn failed(
    entry: &Entry,
    retries: &mut Retries,
    error: ExecutionError,
    trace: &mut CallTrace<'_>,
) -> Result<Answered, Stop> {
    let is_not_run = match &error {
        ExecutionError::ToolChanged => true,
        ExecutionError::Call(error) => error.outcome() == Outcome::NotRun,
    };
    // The last attempt did not run, but one before it may have.
    let error = match (retries.may_have_run.take(), error) {
        (Some(error), _) if is_not_run => *error,
        (_, ExecutionError::Call(error)) => *error,
        (_, changed @ ExecutionError::ToolChanged) => {
            let reason = changed.to_string();
            let failed = CallFailed { name: entry.name.to_string(), reason: reason.clone(), outcome: Outcome::NotRun };
            return Err(Stop::Failed(failed, CallFailure::Refused(reason)));
        }
    };
    match &error.kind {
        CallErrorKind::Output { fault, .. } => trace.step(|| TraceStep::OutputMisfit { fault: fault.to_string() }),
        CallErrorKind::Arguments { fault, .. } => trace.step(|| TraceStep::Misfit { fault: fault.to_string() }),
        _ => {}
    }
    let cause = CallFailure::Error(Box::new(error.clone()));
    match messages::of_error(entry, error) {
        Ok(output) => Ok((output, Some(cause))),
        Err(failed) => Err(Stop::Failed(failed, cause)),
    }
}
