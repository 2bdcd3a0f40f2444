//! Long conversations: what a model reads instead of the messages that no longer fit its context window.
//!
//! A run keeps all of its messages. A [`Compaction`] says how the model's view of them differs: old tool results are
//! removed, older messages are replaced by a summary, and as a last resort long results are
//! shortened. The view is a pure
//! function of the messages and the last compaction, so a resumed run continues with the same view.

mod measure;
mod plan;
mod summary;
#[cfg(test)]
mod tests;
mod view;

use serde::{Deserialize, Serialize};
use wharf_protocol::Usage;

pub(crate) use measure::{instructions_tokens, tool_tokens};
pub(crate) use plan::{ContextBudget, Planner};
pub(crate) use summary::{SummaryRequest, without_model};
pub(crate) use view::View;

/// A change of what the model reads of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compaction {
    /// Number of the turn whose request is the first one with this change, from 1.
    pub turn: u32,
    /// Number of messages of the conversation at that time. Later messages are not changed.
    pub messages: usize,
    /// Why the conversation was compacted.
    pub reason: CompactionReason,
    /// What the model reads from then on.
    #[serde(flatten)]
    pub view: CompactedView,
    /// Why the summary is not one of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Estimated tokens of the request before.
    pub tokens_before: u64,
    /// Estimated tokens of the request after.
    pub tokens_after: u64,
    /// Tokens and cost of the summary.
    #[serde(default)]
    pub usage: Usage,
}

/// How the model's view differs from the conversation. Positions are indexes into the whole conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactedView {
    /// Messages before this position are replaced by the summary. System messages and the question stay.
    pub summarized: usize,
    /// Contents of tool results before this position are removed.
    pub cleared: usize,
    /// Maximum length of tool results, in characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_chars: Option<usize>,
    /// The text in place of the summarized messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// Why a conversation was compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionReason {
    /// It reached the configured number of tokens.
    Threshold,
    /// The provider rejected the request as too long.
    Overflow,
}
