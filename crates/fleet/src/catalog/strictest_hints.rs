//! The strictest hints that a server has sent for each of its tools. A tool that was destructive once stays so, whatever a
//! later list says: otherwise a server could call a tool harmless right before it is called.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use wharf_protocol::Hints;

/// How many tools of one server are remembered. Of any further tool, only hints that make it stricter are believed.
const MAX_TOOLS: usize = 20_000;

/// The strictest hints of a server's tools, for as long as its connection is managed.
#[derive(Debug, Default)]
pub struct StrictestHints(Mutex<HashMap<Arc<str>, StrictHints>>);

/// What a tool has said about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StrictHints {
    pub(super) hints: Hints,
    pub(super) requires_user: bool,
}

impl StrictestHints {
    /// Adds what a tool says about itself now, and returns the strictest of all that it has said.
    pub(super) fn add(&self, tool: &Arc<str>, now: StrictHints) -> StrictHints {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get_mut(tool) {
            known.hints = known.hints.strictest(now.hints);
            known.requires_user |= now.requires_user;
            return *known;
        }
        if known.len() >= MAX_TOOLS {
            return StrictHints { hints: now.hints.strictest(Hints::default()), ..now };
        }
        known.insert(Arc::clone(tool), now);
        now
    }
}
