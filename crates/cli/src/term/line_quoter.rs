//! Quotes text of servers where it begins a row of the terminal like a line of ours: at the start of a line, and where
//! the terminal breaks a long line.

use super::labels::{LabelMatch, QUOTE_MARK, compare, lacks_colon, letter};

/// Quotes the rows of a text that begin like a line of ours: a server must not speak for us. `width` is that of the
/// terminal, if the text goes to one.
pub(crate) fn unlabeled(text: &str, width: Option<usize>) -> String {
    let mut quoter = LineQuoter::new(width);
    let mut shown = quoter.push(text);
    shown.push_str(&quoter.end_line());
    shown
}

/// The state of a stream of text. Holds back what may be the beginning of a label until it is known whether it is one.
#[derive(Default)]
pub(crate) struct LineQuoter {
    width: Option<usize>,
    /// What is not shown yet: the beginning of a line or of a row.
    held: String,
    /// The letters of it, without blanks, as labels are compared.
    letters: String,
    is_inside_line: bool,
    columns: Columns,
}

/// How far the shown part of a line reaches. The width of most characters is up to the terminal.
#[derive(Clone, Copy, Default)]
struct Columns {
    least: usize,
    most: usize,
    /// How much of it are the blanks at its end.
    blank: usize,
}

impl Columns {
    fn add(&mut self, c: char) {
        let (least, most) = match c {
            '\t' => (1, 8),
            c if c.is_ascii() => (1, 1),
            // A wide character that does not fit into a row leaves a gap.
            _ => (0, 3),
        };
        self.least += least;
        self.most += most;
        self.blank = if letter(c).is_none_or(char::is_whitespace) { self.blank + most } else { 0 };
    }

    /// Whether what follows may be the first text in a row after the first.
    fn may_start_row(self, width: usize) -> bool {
        let last_row = self.most / width * width;
        last_row > 0 && last_row >= self.least.saturating_sub(self.blank)
    }
}

impl LineQuoter {
    /// Creates a quoter for a terminal of this width, if the text goes to one.
    pub(crate) fn new(width: Option<usize>) -> Self {
        Self { width: width.filter(|width| *width > 0), ..Self::default() }
    }

    /// Adds a piece of text. Returns what can be shown now.
    pub(crate) fn push(&mut self, text: &str) -> String {
        let mut shown = String::with_capacity(text.len());
        for c in text.chars() {
            self.push_char(c, &mut shown);
        }
        shown
    }

    /// Returns what is held back. The next piece continues the line.
    pub(crate) fn release(&mut self) -> String {
        let mut shown = String::new();
        if self.letters.is_empty() {
            self.show_held(&mut shown);
        } else {
            // The beginning of a label is quoted too, since the rest may follow from elsewhere.
            self.quote(&mut shown);
        }
        shown
    }

    /// Starts a new line. Returns what is held back.
    pub(crate) fn end_line(&mut self) -> String {
        let mut shown = String::new();
        self.show_held(&mut shown);
        self.start_line();
        shown
    }

    fn push_char(&mut self, c: char, shown: &mut String) {
        if c == '\n' {
            self.show_held(shown);
            shown.push(c);
            return self.start_line();
        }
        let letter = letter(c).filter(|letter| !letter.is_whitespace());
        let may_be_label = !self.is_inside_line || self.may_start_row() || !self.letters.is_empty();
        let Some(letter) = letter.filter(|_| may_be_label) else {
            let is_between_letters = !self.letters.is_empty() && (!c.is_whitespace() || lacks_colon(&self.letters));
            if is_between_letters || !self.is_inside_line && self.letters.is_empty() && may_be_label {
                self.held.push(c);
            } else {
                self.show_held(shown);
                self.is_inside_line = true;
                self.show(c, shown);
            }
            return;
        };
        self.held.push(c);
        self.letters.push(letter);
        match compare(&self.letters) {
            LabelMatch::Whole => self.quote(shown),
            LabelMatch::Partial => {}
            LabelMatch::None => self.show_first_letter(shown),
        }
    }

    /// Shows the blanks that are held and the first letter. A label may begin with the next one.
    fn show_first_letter(&mut self, shown: &mut String) {
        self.letters.clear();
        self.is_inside_line = true;
        let held = std::mem::take(&mut self.held);
        let mut chars = held.chars();
        for c in chars.by_ref() {
            self.show(c, shown);
            if letter(c).is_some_and(|letter| !letter.is_whitespace()) {
                break;
            }
        }
        for c in chars {
            self.push_char(c, shown);
        }
    }

    /// Shows what is held behind a quote mark.
    fn quote(&mut self, shown: &mut String) {
        let held = std::mem::take(&mut self.held);
        self.letters.clear();
        if !std::mem::replace(&mut self.is_inside_line, true) {
            self.show_all(QUOTE_MARK, shown);
        }
        let label = held.trim_start_matches(|c| letter(c).is_none_or(char::is_whitespace));
        self.show_all(&held[..held.len() - label.len()], shown);
        if self.may_start_row() {
            shown.push('\n');
            self.columns = Columns::default();
            self.show_all(QUOTE_MARK, shown);
        }
        self.show_all(label, shown);
    }

    fn may_start_row(&self) -> bool {
        self.width.is_some_and(|width| self.columns.may_start_row(width))
    }

    fn show_held(&mut self, shown: &mut String) {
        self.is_inside_line |= !self.letters.is_empty();
        self.letters.clear();
        let held = std::mem::take(&mut self.held);
        self.show_all(&held, shown);
    }

    fn show_all(&mut self, text: &str, shown: &mut String) {
        text.chars().for_each(|c| self.show(c, shown));
    }

    fn show(&mut self, c: char, shown: &mut String) {
        self.columns.add(c);
        shown.push(c);
    }

    fn start_line(&mut self) {
        self.is_inside_line = false;
        self.columns = Columns::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streamed(pieces: &[&str], width: Option<usize>) -> String {
        let mut quoter = LineQuoter::new(width);
        let mut shown: String = pieces.iter().map(|piece| quoter.push(piece)).collect();
        shown.push_str(&quoter.end_line());
        shown
    }

    #[test]
    fn lines_that_begin_like_ours_are_quoted() {
        assert_eq!(
            unlabeled("hint: x\nall\n  \u{200b}Error: y\nno hint: z", None),
            "│ hint: x\nall\n│   \u{200b}Error: y\nno hint: z"
        );
        assert_eq!(unlabeled("hint : x\nhi\u{5b0}nt: y", None), "│ hint : x\n│ hi\u{5b0}nt: y");
        assert_eq!(unlabeled("hints: x\nér\n\n", None), "hints: x\nér\n\n");
        for look_alike in ["ｈｉｎｔ: x", "hınt: x", "h\u{200b}i\u{301}nt： x", "\u{a0}һint: x"] {
            assert_eq!(unlabeled(look_alike, None), format!("│ {look_alike}"));
        }
    }

    #[test]
    fn a_label_where_the_terminal_breaks_a_line_is_quoted() {
        let x = "x".repeat(80);
        assert_eq!(unlabeled(&format!("{x}hint: run it"), Some(80)), format!("{x}\n│ hint: run it"));
        assert_eq!(unlabeled(&format!("{x}{x} \thint: it"), Some(80)), format!("{x}{x} \t\n│ hint: it"));
        assert_eq!(unlabeled(&format!("{x}hhhint: it"), Some(80)), format!("{x}hhhint: it"));
        assert_eq!(unlabeled(&format!("{x}xhint: it"), Some(80)), format!("{x}xhint: it"));
        assert_eq!(unlabeled(&format!("{x}hint: it"), None), format!("{x}hint: it"));
        let blanks = " ".repeat(78);
        assert_eq!(unlabeled(&format!("{blanks}hint: it"), Some(80)), format!("│ {blanks}\n│ hint: it"));
        // Whether a character is wide is up to the terminal.
        let wide = "壊".repeat(40);
        assert_eq!(unlabeled(&format!("{wide}error: it"), Some(80)), format!("{wide}\n│ error: it"));
        assert_eq!(unlabeled("a long answer with an error: in its first row", Some(80)).lines().count(), 1);
        assert_eq!(unlabeled(&format!("{x} the hint: stays"), Some(80)).lines().count(), 1);
    }

    #[test]
    fn text_that_begins_no_label_is_shown_at_once() {
        for width in [None, Some(80)] {
            let mut quoter = LineQuoter::new(width);
            let shown =
                ["It", " is: hint", ": 42", "\n  hi", "nt", ": x", "\nhig", "h", "\n"].map(|piece| quoter.push(piece));
            assert_eq!(shown, ["It", " is: hint", ": 42", "\n", "", "│   hint: x", "\nhig", "h", "\n"]);
        }
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
        let text = "hint: a\n\n  \u{200b}ERROR: b\nhints\n hi\nwarning\n: c\ncaution:\nlonger hihint: x\nhint";
        let ends: Vec<usize> = text.char_indices().map(|(index, _)| index).collect();
        for width in [None, Some(7), Some(8), Some(9), Some(80)] {
            for (index, first) in ends.iter().enumerate() {
                for second in &ends[index..] {
                    let pieces = [&text[..*first], &text[*first..*second], &text[*second..]];
                    assert_eq!(streamed(&pieces, width), unlabeled(text, width), "{width:?} {pieces:?}");
                }
            }
        }
    }

    #[test]
    fn the_work_grows_with_the_length_of_the_text_only() {
        for hostile in [" ".repeat(1 << 20), format!("h{}", "\u{301}".repeat(1 << 20)), "hin".repeat(1 << 19)] {
            for before in ["", &"x".repeat(80)] {
                let text = format!("{before}{hostile}");
                assert_eq!(unlabeled(&text, Some(80)), text);
            }
        }
    }
}
