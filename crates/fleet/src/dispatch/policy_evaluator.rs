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
        let number = self.id.and_then(|id| noted(entry, id)).unwrap_or_else(|| {
            let number = self.policy.deciding(&Facts::new(entry, arguments)).map_or(0, |place| place + 1);
            self.id.into_iter().for_each(|id| note(entry, id, number));
            number
        });
        self.policy.decision(number.checked_sub(1), entry)
    }
}

/// The number of the rule that decides about a tool, counted from 1 and 0 if none does, where this judge has noted it.
fn noted(entry: &Entry, id: u32) -> Option<usize> {
    let note = entry.decided.load(Ordering::Relaxed);
    let (by, number) = (note >> 32, note & u64::from(u32::MAX));
    if by == u64::from(id) { usize::try_from(number).ok() } else { None }
}

fn note(entry: &Entry, id: u32, number: usize) {
    // A policy of more rules than that is looked through for every call.
    if let Ok(number) = u32::try_from(number) {
        entry.decided.store((u64::from(id) << 32) | u64::from(number), Ordering::Relaxed);
    }
}
