//! What tools were used for in a run, and which of their results look like failures although nobody says so.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;
use wharf_protocol::Message;

/// Words in a result that mean failure more often than not.
const SUSPECT: [&str; 16] = [
    "error",
    "failed",
    "failure",
    "exception",
    "traceback",
    "timeout",
    "timed out",
    "not found",
    "unauthorized",
    "forbidden",
    "denied",
    "invalid",
    "unavailable",
    "refused",
    "404",
    "500",
];

/// The numbers of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Metrics {
    /// How often the model answered.
    pub iterations: usize,
    /// How many calls it made.
    pub tool_calls: usize,
    /// Which tools.
    pub tools_used: BTreeSet<String>,
    /// How often each.
    pub tool_call_counts: BTreeMap<String, usize>,
    /// How many results are errors, or read like one.
    pub suspect_failed_tool_calls: usize,
    /// Of which tools.
    pub suspect_failed_tools: BTreeSet<String>,
}

impl Metrics {
    /// Counts a conversation.
    pub fn of(messages: &[Message]) -> Self {
        let (mut metrics, mut names) = (Self::default(), HashMap::new());
        for message in messages {
            match message.role {
                wharf_protocol::Role::Assistant => metrics.iterations += 1,
                _ => metrics.suspect(message, &names),
            }
            for call in message.calls() {
                metrics.tool_calls += 1;
                metrics.tools_used.insert(call.name.to_string());
                *metrics.tool_call_counts.entry(call.name.to_string()).or_default() += 1;
                names.insert(call.id.clone(), call.name.clone());
            }
        }
        metrics
    }

    fn suspect(&mut self, message: &Message, names: &HashMap<std::sync::Arc<str>, std::sync::Arc<str>>) {
        let Some(returned) = message.result() else { return };
        if returned.output.is_error || reads_like_a_failure(&returned.text()) {
            self.suspect_failed_tool_calls += 1;
            self.suspect_failed_tools.extend(names.get(&returned.call_id).map(ToString::to_string));
        }
    }
}

/// Whether a suspect word stands alone somewhere in a text.
fn reads_like_a_failure(text: &str) -> bool {
    let text = text.to_lowercase();
    let alone = |(at, word): (usize, &str)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    };
    SUSPECT.iter().any(|word| text.match_indices(word).any(alone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_failure_counts_only_where_it_stands_alone() {
        for text in ["Error: no", "HTTP 404", "it timed out.", "(failed)"] {
            assert!(reads_like_a_failure(text), "{text}");
        }
        for text in ["terrors", "4040", "all is well", "infallible", ""] {
            assert!(!reads_like_a_failure(text), "{text}");
        }
    }
}
