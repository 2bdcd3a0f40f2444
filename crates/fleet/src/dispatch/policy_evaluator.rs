//! Evaluates a policy for each call, and caches the decision on each tool.

use std::sync::atomic::{AtomicU64, Ordering};

use wharf_protocol::Json;

use super::condition::Facts;
use super::policy::{Decision, Policy};
use crate::catalog::Entry;

/// Decides about calls. If no rule depends on arguments, the decision about a tool is the same for all its calls.
pub(super) struct PolicyEvaluator {
    policy: Policy,
    /// Identifies this evaluator's decisions in the cache; `None` if it does not cache any.
    id: Option<u32>,
}

impl PolicyEvaluator {
    pub(super) fn new(policy: Policy) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let id = (!policy.depends_on_arguments()).then(|| NEXT_ID.fetch_add(1, Ordering::Relaxed));
        // After four billion evaluators, the others do not cache.
        Self { policy, id: id.and_then(|id| u32::try_from(id).ok()) }
    }

    pub(super) fn decide(&self, entry: &Entry, arguments: &Json) -> Decision<'_> {
        let cached = self.id.and_then(|id| cached_rule(entry, id));
        let rule = cached.unwrap_or_else(|| {
            let rule = self.policy.deciding_rule(&Facts::new(entry, arguments)).map_or(0, |index| index + 1);
            if let Some(id) = self.id {
                cache_rule(entry, id, rule);
            }
            rule
        });
        self.policy.decision(rule.checked_sub(1), entry)
    }
}

/// Returns the number of the rule that decides about a tool, counted from 1, or 0 for the mode, if this evaluator has
/// cached it.
fn cached_rule(entry: &Entry, id: u32) -> Option<usize> {
    let cached = entry.decided.load(Ordering::Relaxed);
    let rule = cached & u64::from(u32::MAX);
    if cached >> 32 == u64::from(id) { usize::try_from(rule).ok() } else { None }
}

fn cache_rule(entry: &Entry, id: u32, rule: usize) {
    // A policy with more rules than fit is evaluated for each call.
    if let Ok(rule) = u32::try_from(rule) {
        entry.decided.store((u64::from(id) << 32) | u64::from(rule), Ordering::Relaxed);
    }
}
