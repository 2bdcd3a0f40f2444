//! The story of one call for whoever traces: told from its beginning to its end, also when nobody waits for that any more.

use std::sync::Arc;

use tokio::time::Instant;
use wharf_client::Progress;
use wharf_protocol::{
    CallFailed, Json, Outcome, ToolCall, ToolOutput, ToolTrace, TraceEvent, TraceFailure, TraceSink, TraceStep,
};

use crate::catalog::Entry;

/// What is told; nothing is put together where nobody listens.
pub(super) struct Story<'a>(Option<Told<'a>>);

struct Told<'a> {
    sink: &'a dyn TraceSink,
    call: &'a ToolCall,
    began: Instant,
    entry: Option<&'a Entry>,
    sent: Option<Json>,
    steps: Vec<TraceStep>,
    /// Whether the call would have run if it was given up now.
    so_far: Outcome,
}

impl<'a> Story<'a> {
    pub(super) fn begin(sink: Option<&'a dyn TraceSink>, call: &'a ToolCall) -> Self {
        let Some(sink) = sink else { return Self(None) };
        let ToolCall { id, name, arguments } = call.clone();
        sink.record(TraceEvent::ToolStarted { id, name, arguments });
        let (began, so_far) = (Instant::now(), Outcome::NotRun);
        // Of most calls nothing is told but who allowed them.
        let steps = Vec::with_capacity(1);
        Self(Some(Told { sink, call, began, entry: None, sent: None, steps, so_far }))
    }

    pub(super) fn is_about(&mut self, entry: &'a Entry) {
        if let Some(told) = &mut self.0 {
            told.entry = Some(entry);
        }
    }

    pub(super) fn step(&mut self, step: impl FnOnce() -> TraceStep) {
        if let Some(told) = &mut self.0 {
            told.steps.push(step());
        }
    }

    /// The call goes out with these arguments; what happens from now on may have had an effect.
    pub(super) fn goes_out(&mut self, arguments: &Json) {
        if let Some(told) = &mut self.0 {
            told.so_far = Outcome::Unknown;
            let written = &told.call.arguments;
            told.sent = (!std::ptr::eq(arguments, written) && arguments != written).then(|| arguments.clone());
        }
    }

    /// The tool has answered.
    pub(super) fn came_back(&mut self) {
        if let Some(told) = &mut self.0 {
            told.so_far = Outcome::Answered;
        }
    }

    /// What hears of progress, if anybody listens.
    pub(super) fn progress(&self) -> Option<impl FnMut(Progress) + Send + use<'a>> {
        let (sink, call) = self.0.as_ref().map(|told| (told.sink, told.call))?;
        Some(move |Progress { progress, total, message }: Progress| {
            sink.record(TraceEvent::ToolProgress { id: call.id.clone(), progress, total, message });
        })
    }

    pub(super) fn ends(mut self, result: &Result<ToolOutput, CallFailed>) {
        let Some(told) = self.0.take() else { return };
        match result {
            Ok(output) => told.finish(Some(output), None),
            Err(CallFailed { reason, outcome, .. }) => {
                told.finish(None, Some(TraceFailure { reason: reason.clone(), outcome: *outcome }));
            }
        }
    }
}

impl Told<'_> {
    fn finish(self, output: Option<&ToolOutput>, failed: Option<TraceFailure>) {
        let millis = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.sink.record(TraceEvent::ToolFinished(Box::new(ToolTrace {
            id: self.call.id.clone(),
            name: self.call.name.clone(),
            // Copies: tasks that count references to the same names all the time keep each other waiting.
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

/// Whoever waited has gone away.
impl Drop for Story<'_> {
    fn drop(&mut self) {
        if let Some(told) = self.0.take() {
            let outcome = told.so_far;
            let reason = "nobody waits for the call any more".to_owned();
            told.finish(None, Some(TraceFailure { reason, outcome }));
        }
    }
}
