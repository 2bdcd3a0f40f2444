//! What the user sees of a call: its progress while it runs, and what happened to it on the way.

use std::sync::{Mutex, MutexGuard, PoisonError};

use wharf::{TraceEvent, TraceSink, TraceStep};

use crate::globals::Globals;
use crate::term::{self, StatusLine};

/// A status line that shows the progress the dispatcher reports.
pub(in crate::commands) struct ProgressLine {
    line: StatusLine,
    steps: Mutex<Vec<TraceStep>>,
}

impl ProgressLine {
    pub(in crate::commands) fn new(quiet: bool) -> Self {
        Self { line: StatusLine::new(quiet), steps: Mutex::default() }
    }

    pub(in crate::commands) fn show(&self, text: &str) {
        self.line.show(text);
    }

    /// Erases the line, so that something else can be printed.
    pub(in crate::commands) fn clear(&self) {
        self.line.clear();
    }

    /// Prints what hooks and the configuration changed about the call.
    pub(in crate::commands) fn print_steps(&self, server: &str, globals: &Globals) {
        for step in self.steps().drain(..) {
            match describe(step) {
                Some((Weight::Unusual, text)) if !globals.quiet => term::warning(&format!("{server}: {text}")),
                Some((Weight::Usual, text)) if globals.is_verbose() => term::note(&format!("{server}: {text}")),
                _ => {}
            }
        }
    }

    fn steps(&self) -> MutexGuard<'_, Vec<TraceStep>> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TraceSink for ProgressLine {
    fn record(&self, event: TraceEvent) {
        match event {
            TraceEvent::ToolProgress { progress, total, message, .. } => {
                let total = total.map(|total| format!(" of {total}")).unwrap_or_default();
                let message = message.map(|message| format!("  {message}")).unwrap_or_default();
                self.show(&format!("{progress}{total}{message}"));
            }
            TraceEvent::ToolFinished(trace) => *self.steps() = trace.steps,
            TraceEvent::ToolStarted { .. } => {}
        }
    }
}

enum Weight {
    Unusual,
    Usual,
}

/// Describes a step; `None` for steps that the outcome shows.
fn describe(step: TraceStep) -> Option<(Weight, String)> {
    Some(match step {
        TraceStep::HookFailed { by, reason } => (Weight::Unusual, format!("hook `{by}` failed: {reason}")),
        TraceStep::Rewritten { by } => (Weight::Usual, format!("hook `{by}` changed the arguments")),
        TraceStep::Replaced { by } => (Weight::Usual, format!("hook `{by}` replaced the output")),
        TraceStep::Annotated { by, .. } => (Weight::Usual, format!("hook `{by}` added to the output")),
        TraceStep::Bound { names } => {
            (Weight::Usual, format!("the configuration sets these arguments: {}", names.join(", ")))
        }
        TraceStep::Repaired => (Weight::Usual, "repaired the arguments to fit the schema".to_owned()),
        TraceStep::Unchecked { reason } => (Weight::Usual, format!("could not check the arguments: {reason}")),
        TraceStep::Drifted { what, called: true } => (Weight::Usual, format!("the tool changed: {what}")),
        _ => return None,
    })
}
