//! Whether a tool is still the one that the model was shown.

use std::sync::Arc;

use wharf_protocol::{Tool, TraceStep};

use super::call_trace::CallTrace;
use super::{Stop, messages};
use crate::catalog::{Drift, Entry, ToolFreshness, drift};

/// Returns the tool's new definition if it has changed and a call made for the old one still means the same.
pub(super) async fn refresh_tool(entry: &Entry, trace: &mut CallTrace<'_>) -> Result<Option<Arc<Tool>>, Stop> {
    let freshness = match entry.executor.cached_freshness(&entry.tool) {
        Some(freshness) => freshness,
        None => entry.executor.freshness(&entry.tool).await,
    };
    accept(entry, freshness, trace)
}

/// Returns the new definition of a tool if there is a harmless one, and refuses the call if the tool is gone or a call
/// made for the old definition may mean something else.
pub(super) fn accept(
    entry: &Entry,
    freshness: ToolFreshness,
    trace: &mut CallTrace<'_>,
) -> Result<Option<Arc<Tool>>, Stop> {
    match freshness {
        ToolFreshness::Same | ToolFreshness::Unknown => Ok(None),
        ToolFreshness::Unlisted => {
            let what = "the tools may have changed, and the server has not listed them since".to_owned();
            trace.step(|| TraceStep::Drifted { what: what.clone(), called: false });
            Err(Stop::refused(messages::unlisted(entry), what))
        }
        ToolFreshness::Gone => {
            trace.step(|| TraceStep::Drifted { what: "the tool was removed".to_owned(), called: false });
            Err(Stop::refused(messages::removed(entry), "its server no longer offers it"))
        }
        ToolFreshness::Changed(new) => match drift(&entry.tool, &new) {
            Drift::Harmless(_) => Ok(Some(new)),
            Drift::Breaking(what) => {
                let text = messages::changed(entry, &new, &what);
                trace.step(|| TraceStep::Drifted { what: what.clone(), called: false });
                Err(Stop::refused(text, format!("it has changed on its server: {what}")))
            }
        },
    }
}

/// Traces a harmless change of the tool.
pub(super) fn trace_drift(entry: &Entry, tool: &Tool, trace: &mut CallTrace<'_>) {
    if let Drift::Harmless(what) = drift(&entry.tool, tool) {
        trace.step(|| TraceStep::Drifted { what, called: true });
    }
}
