//! Decides what is removed from a conversation, without the summary itself.

use wharf_protocol::{Message, Role};

use super::CompactedView;
use super::measure::message_tokens;
use super::view::{View, cleared, compacted};

/// The smallest part of the trigger that is worth a summary: a request for each new message would cost more than it saves.
const LEAST_GAIN: u64 = 8;
/// The lengths to which texts are shortened, in characters.
const LENGTHS: [usize; 8] = [32_768, 16_384, 8_192, 4_096, 2_048, 1_024, 512, 256];

/// The sizes of a conversation, in tokens, at which it is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContextBudget {
    /// The size that triggers a compaction.
    pub(crate) trigger: u64,
    /// The size that must not be exceeded, even if recent messages have to be shortened.
    pub(crate) limit: u64,
    /// Number of recent messages that are not summarized.
    pub(crate) keep_messages: usize,
}

impl ContextBudget {
    /// Returns the budget for a model of which is only known that it rejects a request of this size.
    pub(crate) fn of_rejected(tokens: u64, keep_messages: u64) -> Self {
        let keep_messages = usize::try_from(keep_messages).unwrap_or(usize::MAX);
        Self { trigger: tokens, limit: tokens, keep_messages }
    }

    /// Returns the budget for a model that has rejected a request of this size.
    #[must_use]
    pub(crate) fn below(self, rejected: u64) -> Self {
        let trigger = self.trigger.min(rejected / 5 * 4);
        Self { trigger, limit: self.limit.min(rejected / 10 * 9).max(trigger), ..self }
    }
}

/// Finds the view with which a request is short enough.
pub(crate) struct Planner<'a> {
    messages: &'a [Message],
    now: &'a View,
    /// Estimated tokens besides the messages.
    overhead: u64,
    /// The size that suffices.
    target: u64,
    /// The size that must not be exceeded.
    limit: u64,
    /// The least size of what is summarized.
    least_gain: u64,
    /// The first message that is not summarized.
    cut: usize,
}

/// The next view.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The view. Its summary is still that of the view before, if messages are to be summarized.
    pub(crate) view: CompactedView,
    /// The messages to summarize: from the end of the previous summary.
    pub(crate) summarize: Option<std::ops::Range<usize>>,
}

impl<'a> Planner<'a> {
    /// Plans for a request that is longer than the budget.
    pub(crate) fn new(messages: &'a [Message], now: &'a View, overhead: u64, budget: ContextBudget) -> Self {
        Self {
            messages,
            now,
            overhead,
            // So that the next messages do not trigger another compaction.
            target: budget.trigger / 4 * 3,
            limit: budget.limit,
            least_gain: budget.trigger / LEAST_GAIN,
            cut: cut(messages, budget.keep_messages),
        }
    }

    /// Returns the request's size with another view.
    pub(crate) fn tokens(&self, view: &CompactedView) -> u64 {
        let estimate: u64 = compacted(self.messages, view).iter().map(message_tokens).sum();
        self.now.calibrated(estimate + self.overhead)
    }

    /// Plans the removal of old tool results, and what else the model's own summary has to replace.
    pub(crate) fn before_summary(&self, view: &CompactedView) -> Plan {
        let cleared = view.cleared.max(self.cut);
        let view = CompactedView { cleared, ..view.clone() };
        let old = self.old_messages(&view);
        let is_enough = self.tokens(&view) <= self.target;
        let gain = || self.now.calibrated(self.messages[old.clone()].iter().map(message_tokens).sum());
        let summarize = (!is_enough && !old.is_empty() && gain() >= self.least_gain).then_some(old.clone());
        Plan { view, summarize }
    }

    /// Shortens recent messages if the request is still too long: tool results before the last ones are removed, then
    /// long texts are shortened. Returns messages that must be summarized after all.
    pub(crate) fn after_summary(&self, view: CompactedView) -> Plan {
        let size = self.tokens(&view);
        if size <= self.limit {
            return Plan { view, summarize: None };
        }
        let view = self.without_results(view, size);
        let view = self.with_short_texts(view);
        let old = self.old_messages(&view);
        let summarize = (!old.is_empty() && self.tokens(&view) > self.limit).then_some(old);
        Plan { view, summarize }
    }

    /// Removes tool results, oldest first, except for those that the model has not read yet.
    fn without_results(&self, mut view: CompactedView, mut size: u64) -> CompactedView {
        let unread = self.messages.iter().rposition(|message| message.role != Role::Tool).unwrap_or(0);
        for position in view.cleared.max(view.summarized)..unread {
            if size <= self.target {
                break;
            }
            let message = &self.messages[position];
            if message.role == Role::Tool {
                let gain = message_tokens(message).saturating_sub(message_tokens(&cleared(message)));
                size = size.saturating_sub(self.now.calibrated(gain));
            }
            view.cleared = position + 1;
        }
        view
    }

    fn with_short_texts(&self, mut view: CompactedView) -> CompactedView {
        for length in LENGTHS {
            if self.tokens(&view) <= self.limit {
                break;
            }
            view.max_chars = Some(view.max_chars.unwrap_or(usize::MAX).min(length));
        }
        view
    }

    /// Returns the messages between the summary and the recent messages.
    fn old_messages(&self, view: &CompactedView) -> std::ops::Range<usize> {
        view.summarized.min(self.cut)..self.cut
    }
}

/// Returns the position of the first message that is not summarized: the last `keep` messages, and a few more if a call
/// would be separated from its results. Returns 0 if nothing is left to summarize besides the question.
fn cut(messages: &[Message], keep: usize) -> usize {
    let mut cut = messages.len().saturating_sub(keep);
    while cut > 0 && messages[cut].role == Role::Tool {
        cut -= 1;
    }
    let is_opening = |message: &Message| matches!(message.role, Role::System | Role::User);
    if messages[..cut].iter().all(is_opening) { 0 } else { cut }
}
