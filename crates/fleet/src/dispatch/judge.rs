//! A policy that is asked for every call, and notes on each tool what it says about it.

use std::sync::atomic::{AtomicU64, Ordering};

use wharf_protocol::Json;

use super::condition::Facts;
use super::policy::{Decision, Policy};
use crate::catalog::Entry;

/// Decides about calls. Where no rule looks at arguments, what is decided about a tool once holds for all its calls.
pub(super) struct Judge {
    policy: Policy,
    /// Tells its notes from those of others; `None` if it takes none.
    id: Option<u32>,
}

impl Judge {
    pub(super) fn new(policy: Policy) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = (!policy.looks_at_arguments()).then(|| NEXT.fetch_add(1, Ordering::Relaxed));
        // After four thousand million of them, the others take no notes.
        Self { policy, id: id.and_then(|id| u32::try_from(id).ok()) }
    }

    pub(super) fn decide(&self, entry: &Entry, arguments: &Json) -> Decision<'_> {
        let deciding = || self.policy.deciding(&Facts::new(entry, arguments));
        let place = match self.id {
            None => deciding(),
            Some(id) => noted(entry, id).unwrap_or_else(|| {
                let place = deciding();
                note(entry, id, place);
                place
            }),
        };
        self.policy.decision(place, entry)
    }
}

/// The place of the rule that decides about a tool, if that has been noted by this judge: `Some(None)` where none does.
fn noted(entry: &Entry, id: u32) -> Option<Option<usize>> {
    let note = entry.decided.load(Ordering::Relaxed);
    let (by, place) = (note >> 32, note & u64::from(u32::MAX));
    (by == u64::from(id)).then(|| usize::try_from(place).ok()?.checked_sub(1))
}

fn note(entry: &Entry, id: u32, place: Option<usize>) {
    // A policy of so many rules is looked through for every call.
    if let Ok(place) = u32::try_from(place.map_or(0, |place| place + 1)) {
        entry.decided.store(u64::from(id) << 32 | u64::from(place), Ordering::Relaxed);
    }
}
