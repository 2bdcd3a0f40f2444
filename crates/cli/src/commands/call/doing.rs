//! What a person sees of a call while it is under way, and what they may want to know about it afterwards.

use std::sync::{Mutex, MutexGuard, PoisonError};

use wharf::{TraceEvent, TraceSink, TraceStep};

use crate::args::Globals;
use crate::render::{self, Transient};

/// One line on the terminal. It hears of progress from the dispatcher.
pub(super) struct Doing {
    quiet: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    line: Option<Transient>,
    steps: Vec<TraceStep>,
}

impl Doing {
    pub(super) fn new(quiet: bool) -> Self {
        Self { quiet, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn show(&self, text: &str) {
        self.state().line.get_or_insert_with(|| Transient::new(self.quiet)).show(text);
    }

    /// Takes the line away, so that something else can be written.
    pub(super) fn clear(&self) {
        self.state().line = None;
    }

    /// Tells what was done to the call on its way, as far as somebody wants to know.
    pub(super) fn tell(&self, server: &str, globals: &Globals) {
        for step in self.state().steps.drain(..) {
            match words(step) {
                Some((Weight::Odd, words)) if !globals.quiet => render::warning(&format!("{server}: {words}")),
                Some((Weight::Usual, words)) if globals.verbose => render::note(&format!("{server}: {words}")),
                _ => {}
            }
        }
    }
}

impl TraceSink for Doing {
    fn record(&self, event: TraceEvent) {
        match event {
            TraceEvent::ToolProgress { progress, total, message, .. } => {
                let total = total.map(|total| format!(" of {total}")).unwrap_or_default();
                let message = message.map(|message| format!("  {message}")).unwrap_or_default();
                self.show(&format!("{progress}{total}{message}"));
            }
            TraceEvent::ToolFinished(trace) => self.state().steps = trace.steps,
            TraceEvent::ToolStarted { .. } => {}
        }
    }
}

enum Weight {
    Odd,
    Usual,
}

/// What a step means to a person; `None` for those that the outcome tells already.
fn words(step: TraceStep) -> Option<(Weight, String)> {
    let (weight, words) = match step {
        TraceStep::HookFailed { by, reason } => (Weight::Odd, format!("the hook `{by}` failed: {reason}")),
        TraceStep::Rewritten { by } => (Weight::Usual, format!("the hook `{by}` changed the arguments")),
        TraceStep::Replaced { by } => (Weight::Usual, format!("the hook `{by}` replaced the output")),
        TraceStep::Annotated { by, .. } => (Weight::Usual, format!("the hook `{by}` added to the output")),
        TraceStep::Bound { names } => {
            (Weight::Usual, format!("the configuration sets these arguments: {}", names.join(", ")))
        }
        TraceStep::Repaired => (Weight::Usual, "the arguments were mended to fit the schema".to_owned()),
        TraceStep::Unchecked { reason } => (Weight::Usual, format!("the arguments could not be checked: {reason}")),
        TraceStep::Drifted { what, called: true } => (Weight::Usual, format!("the tool has changed: {what}")),
        _ => return None,
    };
    Some((weight, words))
}
