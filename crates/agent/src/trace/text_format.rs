//! The lines of a raw trace that are not text: headings, lists of calls, notes. Text that looks like one is escaped.
//!
//! A writer puts a backslash before every such line of text, and before a line that already starts with backslashes and
//! continues like one. So each text has one escaped form, and a reader that removes one backslash gets the text back.

use crate::{Limit, RunEnd};

pub(crate) const AI_HEADING: &str = "--- AI Message ---";
pub(crate) const THINKING_HEADING: &str = "--- Thinking ---";
pub(crate) const SYSTEM_HEADING: &str = "--- System Message ---";
pub(crate) const HUMAN_HEADING: &str = "--- Human Message ---";
/// The line before the calls of a message.
pub(crate) const CALLS: &str = "Tool Calls:";
/// What the text of a failed tool call starts with.
pub(crate) const ERROR_MARK: &str = "[ERROR] ";
/// The last line of a trace without an answer.
pub(crate) const NO_ANSWER: &str = "[No final response extracted]";
/// What a host writes in place of a lost tool result.
pub(crate) const LOST_RESULT: &str = "[Tool result not captured]";

const TURN_NOTE: &str = "[Note: Turn limit reached - partial response shown]";
const TIME_NOTE: &str = "[Note: Agent timed out - partial response shown]";
const OTHER_NOTE: &str = "[Note: Recursion limit reached - partial response shown]";

/// The kinds of limits that notes distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitNote {
    Turns,
    Time,
    Other,
}

impl LimitNote {
    const ALL: [Self; 3] = [Self::Turns, Self::Time, Self::Other];

    /// Returns the note of a run that ended at a limit.
    pub(crate) fn of(stop: &RunEnd) -> Option<Self> {
        match stop {
            RunEnd::Limit(Limit::ModelCalls { .. }) => Some(Self::Turns),
            RunEnd::Limit(Limit::Time { .. }) => Some(Self::Time),
            RunEnd::Limit(_) => Some(Self::Other),
            _ => None,
        }
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|note| note.as_str() == line.trim())
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Turns => TURN_NOTE,
            Self::Time => TIME_NOTE,
            Self::Other => OTHER_NOTE,
        }
    }
}

/// Returns the heading of a tool's result.
pub(crate) fn tool_heading(call_id: &str) -> String {
    format!("--- Tool Message (call_id: {}) ---", one_line(call_id))
}

/// Returns the call id of a heading of a tool's result.
pub(crate) fn tool_call_id(line: &str) -> Option<&str> {
    line.trim_end().strip_prefix("--- Tool Message (call_id: ")?.strip_suffix(") ---")
}

/// Replaces control characters, so that a name or an id stays on its line.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Escapes a line of text.
pub(crate) fn escape(line: &str) -> String {
    if looks_structural(line) { format!("\\{line}") } else { line.to_owned() }
}

/// Returns the text of an escaped line.
pub(crate) fn unescape(line: &str) -> &str {
    line.strip_prefix('\\').filter(|rest| looks_structural(rest)).unwrap_or(line)
}

fn looks_structural(line: &str) -> bool {
    let text = line.trim_start_matches(|c: char| c == '\\' || c.is_whitespace()).trim_end();
    let is_heading = text.starts_with("--- ") && text.ends_with(" ---");
    is_heading || text == CALLS || text == NO_ANSWER || LimitNote::parse(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_one_escaped_form_that_reads_back() {
        let structural =
            [AI_HEADING, CALLS, NO_ANSWER, TURN_NOTE, "  --- x ---", "\\--- AI Message ---", "\\\\Tool Calls:"];
        for line in structural {
            assert_eq!(escape(line), format!("\\{line}"));
            assert_eq!(unescape(&escape(line)), line);
        }
        for line in ["", "\\", "\\plain", "plain --- x ---", "---", "Tool Calls: 3", "[Note: mine]"] {
            assert_eq!((escape(line).as_str(), unescape(line)), (line, line));
        }
    }
}
