//! The trace of one call, from its start to its end, even if the caller stops waiting for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use wharf_client::Progress;
use wharf_protocol::{
    CallFailed, Json, Outcome, ToolCall, ToolOutput, ToolTrace, TraceEvent, TraceFailure, TraceSink, TraceStep,
};

use super::user_prompt::UserPrompt;
use crate::catalog::Entry;

/// Records one call. Without a sink it does nothing and allocates nothing.
pub(super) struct CallTrace<'a>(Option<Recording<'a>>);

struct Recording<'a> {
    sink: &'a dyn TraceSink,
    call: &'a ToolCall,
    began: Instant,
    user_prompt: &'a dyn UserPrompt,
    /// For how long the user had been asked before the call began.
    asked_before: Duration,
    entry: Option<&'a Entry>,
    sent: Option<Json>,
    steps: Vec<TraceStep>,
    /// The outcome of the call if it was dropped now.
    outcome_if_dropped: Outcome,
}

impl<'a> CallTrace<'a> {
    pub(super) fn begin(sink: Option<&'a dyn TraceSink>, call: &'a ToolCall, user_prompt: &'a dyn UserPrompt) -> Self {
        let Some(sink) = sink else { return Self(None) };
        let ToolCall { id, name, arguments } = call.clone();
        sink.record(TraceEvent::ToolStarted { id, name, arguments });
        Self(Some(Recording {
            sink,
            call,
            began: Instant::now(),
            user_prompt,
            asked_before: user_prompt.time_asked(),
            entry: None,
            sent: None,
            // Most calls have one step: who allowed them.
            steps: Vec::with_capacity(1),
            outcome_if_dropped: Outcome::NotRun,
        }))
    }

    pub(super) fn set_entry(&mut self, entry: &'a Entry) {
        if let Some(recording) = &mut self.0 {
            recording.entry = Some(entry);
        }
    }

    pub(super) fn step(&mut self, step: impl FnOnce() -> TraceStep) {
        if let Some(recording) = &mut self.0 {
            recording.steps.push(step());
        }
    }

    /// Removes what earlier steps quote of an output that a hook withholds or replaces.
    pub(super) fn withhold_output(&mut self) {
        for step in self.0.iter_mut().flat_map(|recording| &mut recording.steps) {
            if let TraceStep::OutputMisfit { fault } = step {
                "withheld with the output".clone_into(fault);
            }
        }
    }

    /// Records that the call is sent with these arguments. From now on it may have an effect.
    pub(super) fn sent(&mut self, arguments: &Json) {
        if let Some(recording) = &mut self.0 {
            recording.outcome_if_dropped = Outcome::Unknown;
            let written = &recording.call.arguments;
            recording.sent = (!std::ptr::eq(arguments, written) && arguments != written).then(|| arguments.clone());
        }
    }

    /// Records that the tool has answered.
    pub(super) fn answered(&mut self) {
        if let Some(recording) = &mut self.0 {
            recording.outcome_if_dropped = Outcome::Answered;
        }
    }

    /// Returns a callback that records progress, if the call is traced.
    pub(super) fn progress(&self) -> Option<impl FnMut(Progress) + Send + use<'a>> {
        let recording = self.0.as_ref()?;
        let sink = recording.sink;
        let call = recording.call;
        Some(move |Progress { progress, total, message }: Progress| {
            sink.record(TraceEvent::ToolProgress { id: call.id.clone(), progress, total, message });
        })
    }

    pub(super) fn end(mut self, result: &Result<ToolOutput, CallFailed>) {
        let Some(recording) = self.0.take() else { return };
        match result {
            Ok(output) => recording.finish(Some(output), None),
            Err(CallFailed { reason, outcome, .. }) => {
                recording.finish(None, Some(TraceFailure { reason: reason.clone(), outcome: *outcome }));
            }
        }
    }
}

impl Recording<'_> {
    fn finish(self, output: Option<&ToolOutput>, failed: Option<TraceFailure>) {
        let asked = self.user_prompt.time_asked().saturating_sub(self.asked_before);
        let duration = self.began.elapsed().saturating_sub(asked);
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self.sink.record(TraceEvent::ToolFinished(Box::new(ToolTrace {
            id: self.call.id.clone(),
            name: self.call.name.clone(),
            // Copies: tasks that count references to the same names slow each other down.
            server: self.entry.and_then(|entry| Some(entry.server.as_ref()?.copied())),
            tool: self.entry.map(|entry| Arc::from(&*entry.tool.name)),
            sent: self.sent,
            steps: self.steps,
            output: output.map(|output| output.raw.clone()),
            is_error: output.is_none_or(|output| output.is_error),
            failed,
            millis,
        })));
    }
}

/// The caller dropped the call.
impl Drop for CallTrace<'_> {
    fn drop(&mut self) {
        if let Some(recording) = self.0.take() {
            let outcome = recording.outcome_if_dropped;
            let reason = "the caller canceled the call".to_owned();
            recording.finish(None, Some(TraceFailure { reason, outcome }));
        }
    }
}
