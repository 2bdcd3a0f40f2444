//! What the model reads of a run's conversation, and how long it is.

use std::sync::Arc;

use wharf_protocol::{Message, Usage};

use super::{Run, State};
use crate::Compaction;
use crate::compaction::{CompactedView, ContextBudget, Planner};

impl Run {
    /// Returns the number of tokens of the next request, which has `overhead` estimated tokens besides its messages.
    pub(crate) fn request_tokens(&mut self, overhead: u64) -> u64 {
        self.view.update(&self.messages, &self.compactions);
        self.view.request_tokens(overhead)
    }

    /// Returns the conversation as the model reads it, as of the last [`Run::request_tokens`].
    pub(crate) fn visible_messages(&self) -> &[Message] {
        self.view.messages(&self.messages)
    }

    /// Returns the current view.
    pub(crate) fn compacted_view(&self) -> CompactedView {
        self.compactions.last().map(|last| last.view.clone()).unwrap_or_default()
    }

    /// Returns a planner of the next compaction.
    pub(crate) fn planner(&self, overhead: u64, budget: ContextBudget) -> Planner<'_> {
        Planner::new(&self.messages, &self.view, overhead, budget)
    }

    /// Changes what the model reads, before the next request.
    pub(crate) fn compact(&mut self, compaction: Compaction) {
        if matches!(self.progress.state, State::CallModel { .. }) {
            self.compactions.push(compaction);
        }
    }

    /// Returns the tools that the model has found, in order. They stay offered.
    pub(crate) fn found_tools(&self) -> &[Arc<str>] {
        &self.progress.found_tools
    }

    /// Adds tools that the model has found.
    pub(crate) fn add_found_tools(&mut self, names: impl IntoIterator<Item = Arc<str>>) {
        let found = &mut self.progress.found_tools;
        for name in names {
            if !found.contains(&name) {
                found.push(name);
            }
        }
    }

    /// Adds the cost of a request that is no turn.
    pub(crate) fn add_usage(&mut self, usage: Usage) {
        self.progress.usage += usage;
    }
}
