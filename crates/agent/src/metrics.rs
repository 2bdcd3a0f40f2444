//! Statistics of tool usage in a run, including results that look like failures without being marked as errors.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::Serialize;
use wharf_protocol::{Message, Role};

use crate::Run;

/// Terms in a result that usually mean failure.
const FAILURE_TERMS: [&str; 16] = [
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

/// Statistics of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Metrics {
    /// Number of model responses.
    pub iterations: usize,
    /// Number of tool calls that were made.
    pub tool_calls: usize,
    /// Number of tool calls that were not made: a limit, a hook, the policy or the user prevented them, the tool was
    /// unknown or had changed, the arguments were invalid, or the run ended.
    pub blocked_tool_calls: usize,
    /// Names of the called tools.
    pub tools_used: BTreeSet<String>,
    /// Number of calls by tool.
    pub tool_call_counts: BTreeMap<String, usize>,
    /// Number of results that are errors or look like failures.
    pub suspect_failed_tool_calls: usize,
    /// Names of the tools with such results.
    pub suspect_failed_tools: BTreeSet<String>,
    /// Number of such results by tool.
    #[serde(skip)]
    suspect_failures: BTreeMap<String, usize>,
}

impl Metrics {
    /// Counts the messages of a run.
    pub fn from_run(run: &Run) -> Self {
        let mut metrics = Self::default();
        let mut names = HashMap::new();
        for (position, message) in run.new_messages().iter().enumerate() {
            match message.role {
                Role::Assistant => metrics.iterations += 1,
                _ if run.is_blocked(position) => metrics.blocked_tool_calls += 1,
                _ => metrics.count_result(message, &names),
            }
            names.extend(message.calls().map(|call| (call.id.clone(), call.name.clone())));
        }
        metrics
    }

    /// Counts a call as not made, because it was refused: see `ToolTrace::is_refused`. Its result was counted as an error.
    pub fn count_refused(&mut self, tool: &str) {
        let Some(count) = self.tool_call_counts.get_mut(tool) else { return };
        *count -= 1;
        if *count == 0 {
            self.tool_call_counts.remove(tool);
            self.tools_used.remove(tool);
        }
        if let Some(failures) = self.suspect_failures.get_mut(tool) {
            *failures = failures.saturating_sub(1);
            if *failures == 0 {
                self.suspect_failures.remove(tool);
                self.suspect_failed_tools.remove(tool);
            }
        }
        self.tool_calls -= 1;
        self.blocked_tool_calls += 1;
        self.suspect_failed_tool_calls = self.suspect_failed_tool_calls.saturating_sub(1);
    }

    fn count_result(&mut self, message: &Message, names: &HashMap<Arc<str>, Arc<str>>) {
        let Some(returned) = message.result() else { return };
        let Some(name) = names.get(&returned.call_id).map(ToString::to_string) else { return };
        self.tool_calls += 1;
        *self.tool_call_counts.entry(name.clone()).or_default() += 1;
        if returned.output.is_error || looks_like_a_failure(&returned.text()) {
            self.suspect_failed_tool_calls += 1;
            self.suspect_failed_tools.insert(name.clone());
            *self.suspect_failures.entry(name.clone()).or_default() += 1;
        }
        self.tools_used.insert(name);
    }
}

/// Returns whether a failure term occurs as a separate word.
fn looks_like_a_failure(text: &str) -> bool {
    let text = text.to_lowercase();
    let is_separate = |(at, term): (usize, &str)| {
        let before = text[..at].chars().next_back();
        let after = text[at + term.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    };
    FAILURE_TERMS.iter().any(|term| text.match_indices(term).any(is_separate))
}

#[cfg(test)]
mod tests {
    use wharf_protocol::ToolOutput;

    use super::*;

    #[test]
    fn a_refused_call_takes_only_its_own_failure_away() {
        let counted = |results: &[&str]| {
            let mut metrics = Metrics::default();
            for (number, text) in results.iter().enumerate() {
                let id: Arc<str> = number.to_string().into();
                let output = if text.starts_with("error") { ToolOutput::error(*text) } else { ToolOutput::said(*text) };
                let result = Message::tool_result(Arc::clone(&id), output);
                metrics.count_result(&result, &HashMap::from([(id, Arc::from("t"))]));
            }
            metrics
        };
        // One call was refused, and one was answered.
        let mut metrics = counted(&["error: denied", "fine"]);
        metrics.count_refused("t");
        assert_eq!((metrics.tool_calls, metrics.blocked_tool_calls, metrics.suspect_failed_tool_calls), (1, 1, 0));
        assert!(metrics.suspect_failed_tools.is_empty() && metrics.tools_used.contains("t"));
        // One call was refused, and one failed.
        let mut metrics = counted(&["error: denied", "error: no"]);
        metrics.count_refused("t");
        assert_eq!(metrics.suspect_failed_tool_calls, 1);
        assert!(metrics.suspect_failed_tools.contains("t"));
    }

    #[test]
    fn failure_terms_count_as_separate_words_only() {
        for text in ["Error: no", "HTTP 404", "it timed out.", "(failed)"] {
            assert!(looks_like_a_failure(text), "{text}");
        }
        for text in ["terrors", "4040", "all is well", "infallible", ""] {
            assert!(!looks_like_a_failure(text), "{text}");
        }
    }
}
