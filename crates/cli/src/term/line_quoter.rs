//! Quotes the lines of a stream that begin like lines of ours, as `unlabeled` does for a whole text.

use super::text::{QUOTE_MARK, is_labeled, may_become_labeled};

/// The state of a stream of text. Holds the beginning of a line back until it is known whether the line is quoted.
#[derive(Default)]
pub(crate) struct LineQuoter {
    held: String,
    is_inside_line: bool,
}

impl LineQuoter {
    /// Adds a piece of text. Returns what can be shown now.
    pub(crate) fn push(&mut self, text: &str) -> String {
        let mut shown = String::with_capacity(text.len());
        for piece in text.split_inclusive('\n') {
            let ends_line = piece.ends_with('\n');
            if self.is_inside_line {
                shown.push_str(piece);
            } else {
                self.held.push_str(piece);
                if !ends_line && !is_labeled(&self.held) && may_become_labeled(&self.held) {
                    return shown;
                }
                if is_labeled(&self.held) {
                    shown.push_str(QUOTE_MARK);
                }
                shown.push_str(&std::mem::take(&mut self.held));
            }
            self.is_inside_line = !ends_line;
        }
        shown
    }

    /// Returns what is held back. The next piece continues the line.
    pub(crate) fn release(&mut self) -> String {
        // The beginning of a label is quoted too, since the rest may follow from elsewhere.
        let held = std::mem::take(&mut self.held);
        if held.trim().is_empty() {
            return held;
        }
        self.is_inside_line = true;
        format!("{QUOTE_MARK}{held}")
    }

    /// Starts a new line. Returns what is held back.
    pub(crate) fn end_line(&mut self) -> String {
        self.is_inside_line = false;
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::unlabeled;
    use super::*;

    fn streamed(pieces: &[&str]) -> String {
        let mut quoter = LineQuoter::default();
        let mut shown: String = pieces.iter().map(|piece| quoter.push(piece)).collect();
        shown.push_str(&quoter.end_line());
        shown
    }

    #[test]
    fn text_that_begins_no_label_is_shown_at_once() {
        let mut quoter = LineQuoter::default();
        let shown =
            ["It", " is: hint", ": 42", "\n  hi", "nt", ": x", "\nhig", "h", "\n"].map(|piece| quoter.push(piece));
        assert_eq!(shown, ["It", " is: hint", ": 42", "\n", "", "│   hint: x", "\nhig", "h", "\n"]);
    }

    #[test]
    fn a_line_that_others_continue_is_not_a_label() {
        let mut quoter = LineQuoter::default();
        assert_eq!(
            (quoter.push("hin"), quoter.release(), quoter.push("t: x")),
            (String::new(), "│ hin".into(), "t: x".into())
        );
        assert_eq!((quoter.end_line(), quoter.push("hint: y")), (String::new(), "│ hint: y".into()));
    }

    #[test]
    fn a_stream_is_quoted_like_the_whole_text() {
        let text = "hint: a\n\n  \u{200b}ERROR: b\nhints\n hi\nwarning\n: c\ncaution:\nhint";
        let ends: Vec<usize> = text.char_indices().map(|(index, _)| index).collect();
        for (index, first) in ends.iter().enumerate() {
            for second in &ends[index..] {
                let pieces = [&text[..*first], &text[*first..*second], &text[*second..]];
                assert_eq!(streamed(&pieces), unlabeled(text), "{pieces:?}");
            }
        }
        let chars: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(streamed(&chars.iter().map(String::as_str).collect::<Vec<_>>()), unlabeled(text));
    }
}
