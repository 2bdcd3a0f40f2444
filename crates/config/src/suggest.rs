//! Suggestions for misspelled keys.

use wharf_protocol::nearest;

use crate::problem::Problem;

/// Longer words are truncated in messages.
const MAX_WORD_CHARS: usize = 64;

/// Adds "did you mean …?" to a problem if a known word is close to `word`.
pub(crate) fn suggest(problem: Problem, word: &str, known: &[&str]) -> Problem {
    match nearest(word, known.iter().copied()) {
        Some(known) => problem.with_hint(did_you_mean(known)),
        None => problem,
    }
}

/// Returns the hint that suggests a known word.
pub(crate) fn did_you_mean(known: &str) -> String {
    format!("did you mean `{known}`?")
}

/// Truncates a word for a message.
pub(crate) fn brief(word: &str) -> String {
    match word.char_indices().nth(MAX_WORD_CHARS) {
        Some((end, _)) => format!("{}…", &word[..end]),
        None => word.to_owned(),
    }
}
