//! Limits of texts: a report shows what a person can read, and the store has the rest.

use std::fmt::Write as _;

/// The maximum length of one text, in characters.
pub(super) const MAX_TEXT_CHARS: usize = 100_000;
/// The maximum length of all texts of one unit, in characters.
const MAX_UNIT_CHARS: usize = 2_000_000;

/// What is left of a unit's share.
pub(super) struct TextBudget {
    left: usize,
}

impl TextBudget {
    pub(super) fn new() -> Self {
        Self { left: MAX_UNIT_CHARS }
    }

    /// Returns a text within the limits, and marks where it was cut.
    pub(super) fn cut(&mut self, text: &str) -> String {
        let text = cut(text, self.left.min(MAX_TEXT_CHARS));
        self.left = self.left.saturating_sub(text.len());
        text
    }
}

/// Returns the first characters of a text, and marks the cut.
pub(super) fn cut(text: &str, max_chars: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(max_chars) else { return text.to_owned() };
    let mut shown = text[..end].to_owned();
    let _ = write!(shown, "\n… [{} more characters are in the store]", text[end..].chars().count());
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_text_says_how_much_is_missing() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöü", 1), "ä\n… [2 more characters are in the store]");
        assert_eq!(cut("", 0), "");
    }

    #[test]
    fn many_texts_of_one_unit_share_a_limit() {
        let text = "a".repeat(MAX_TEXT_CHARS);
        let mut budget = TextBudget::new();
        let all: usize = (0..100).map(|_| budget.cut(&text).len()).sum();
        assert!(all < MAX_UNIT_CHARS + 100 * 80, "{all}");
        assert!(budget.cut("abc").starts_with("\n… [3 more"));
    }
}
