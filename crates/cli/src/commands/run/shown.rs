//! What `--output json` shows of a run, and who keeps the story of every call for it.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::Serialize;
use wharf::agent::{AgentEvent, AgentResult, EventSink};
use wharf::{ToolTrace, TraceEvent, TraceSink};

/// Everything there is to know.
#[derive(Serialize)]
pub(super) struct Shown<'a> {
    version: u32,
    model: &'a str,
    prompt: Option<&'a str>,
    #[serde(flatten)]
    result: &'a AgentResult,
    /// What was decided and changed on the way of every call.
    tool_traces: &'a [ToolTrace],
}

/// The same as the last line of a stream.
#[derive(Serialize)]
pub(super) struct Last<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    shown: &'a Shown<'a>,
}

impl<'a> Shown<'a> {
    pub(super) fn new(
        model: &'a str,
        prompt: Option<&'a str>,
        (result, tool_traces): (&'a AgentResult, &'a [ToolTrace]),
    ) -> Self {
        Self { version: 1, model, prompt, result, tool_traces }
    }

    pub(super) fn last(&'a self) -> Last<'a> {
        Last { r#type: "result", shown: self }
    }
}

/// Keeps the story of every call, and passes its progress on.
#[derive(Default)]
pub(super) struct Recorder {
    kept: Mutex<Vec<ToolTrace>>,
    sink: OnceLock<Arc<dyn EventSink>>,
}

impl Recorder {
    /// Progress is for this one.
    pub(super) fn tell(&self, sink: Arc<dyn EventSink>) {
        let _ = self.sink.set(sink);
    }

    pub(super) fn taken(&self) -> Vec<ToolTrace> {
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl TraceSink for Recorder {
    fn record(&self, event: TraceEvent) {
        match event {
            TraceEvent::ToolFinished(trace) => {
                self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(*trace);
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

/// A name for a run that no other has.
pub(super) fn session_id() -> String {
    // Every `RandomState` has other keys; what is hashed does not matter.
    let random = || RandomState::new().hash_one(0_u8);
    format!("{:016x}{:016x}", random(), random())
}
