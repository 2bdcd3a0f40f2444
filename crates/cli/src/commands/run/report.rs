//! The report of `--output json`, and the traces of tool calls for it.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::Serialize;
use wharf::agent::{AgentEvent, AgentResult, EventSink};
use wharf::{ToolTrace, TraceEvent, TraceSink, TraceStep};

/// The layout of `--output json`.
#[derive(Serialize)]
pub(super) struct JsonReport<'a> {
    version: u32,
    model: &'a str,
    prompt: Option<&'a str>,
    #[serde(flatten)]
    result: &'a AgentResult,
    /// The decisions and changes of every call.
    tool_traces: &'a [ToolTrace],
}

/// The last line of `--output stream-json`.
#[derive(Serialize)]
pub(super) struct JsonLastLine<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    report: &'a JsonReport<'a>,
}

impl<'a> JsonReport<'a> {
    pub(super) fn new(
        model: &'a str,
        prompt: Option<&'a str>,
        result: &'a AgentResult,
        tool_traces: &'a [ToolTrace],
    ) -> Self {
        Self { version: 1, model, prompt, result, tool_traces }
    }

    pub(super) fn last_line(&'a self) -> JsonLastLine<'a> {
        JsonLastLine { r#type: "result", report: self }
    }
}

/// Collects the traces of tool calls, and forwards their progress and warnings.
#[derive(Default)]
pub(super) struct TraceRecorder {
    traces: Mutex<Vec<ToolTrace>>,
    sink: OnceLock<Arc<dyn EventSink>>,
}

impl TraceRecorder {
    pub(super) fn send_events_to(&self, sink: Arc<dyn EventSink>) {
        let _ = self.sink.set(sink);
    }

    pub(super) fn take(&self) -> Vec<ToolTrace> {
        std::mem::take(&mut *self.traces.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl TraceSink for TraceRecorder {
    fn record(&self, event: TraceEvent) {
        match event {
            TraceEvent::ToolFinished(trace) => {
                if let (Some(sink), Some(message)) = (self.sink.get(), large_output(&trace)) {
                    sink.event(AgentEvent::Warning { message });
                }
                self.traces.lock().unwrap_or_else(PoisonError::into_inner).push(*trace);
            }
            TraceEvent::ToolProgress { id, progress, total, message } => {
                if let Some(sink) = self.sink.get() {
                    sink.event(AgentEvent::ToolProgress { id, progress, total, message });
                }
            }
            TraceEvent::ToolStarted { .. } => {}
        }
    }
}

/// Returns a warning about an output that takes much of the model's context.
fn large_output(trace: &ToolTrace) -> Option<String> {
    let tokens = trace.steps.iter().find_map(|step| match step {
        TraceStep::LargeOutput { tokens } => Some(tokens),
        _ => None,
    })?;
    let is_cut = trace.steps.iter().any(|step| matches!(step, TraceStep::Cut { .. }));
    let cut = if is_cut { ", of which the model reads the beginning" } else { "" };
    Some(format!("{}: the output has about {tokens} tokens{cut}", trace.name))
}

/// Returns a unique name for a run.
pub(super) fn session_id() -> String {
    // Every `RandomState` has different keys; the hashed value does not matter.
    let random = || RandomState::new().hash_one(0_u8);
    format!("{:016x}{:016x}", random(), random())
}
