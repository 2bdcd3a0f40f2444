//! Calls that the policy, a hook or the user denied, from the trace of the dispatcher.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use wharf_protocol::{ToolTrace, TraceEvent, TraceSink, TraceStep};

/// Collects denials by the id of the call.
#[derive(Default)]
pub(crate) struct Denials(Mutex<HashMap<Arc<str>, String>>);

impl Denials {
    /// Returns why a call was denied, if it was.
    pub(super) fn take(&self, call: &str) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(call)
    }
}

impl TraceSink for Denials {
    fn record(&self, event: TraceEvent) {
        let TraceEvent::ToolFinished(trace) = event else { return };
        if let Some(reason) = denial(&trace) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(&trace.id), reason);
        }
    }
}

fn denial(trace: &ToolTrace) -> Option<String> {
    let name = &trace.name;
    trace.steps.iter().find_map(|step| match step {
        TraceStep::Denied { by } => Some(format!("the policy denied a call of `{name}` ({by})")),
        TraceStep::Blocked { by, reason } => Some(format!("the hook `{by}` blocked a call of `{name}`: {reason}")),
        TraceStep::Asked { by, approved: false, .. } => {
            Some(format!("a call of `{name}` needs approval and was not approved ({by})"))
        }
        _ => None,
    })
}
