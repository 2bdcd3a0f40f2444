//! The labels with which our lines begin. Text of servers that begins like them is quoted.

use wharf::config::folded;

use super::text::has_no_width;

/// What begins a line of ours.
const LABELS: [&str; 4] = ["error:", "warning:", "hint:", "caution:"];

/// What begins a quoted line.
pub(super) const QUOTE_MARK: &str = "│ ";

/// How the beginning of a text compares with our labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LabelMatch {
    /// A label, or what looks like one.
    Whole,
    /// The beginning of a label.
    Partial,
    None,
}

/// Compares letters of [`letter`] with our labels.
pub(super) fn compare(letters: &str) -> LabelMatch {
    if LABELS.iter().any(|label| letters.starts_with(label)) {
        LabelMatch::Whole
    } else if LABELS.iter().any(|label| label.starts_with(letters)) {
        LabelMatch::Partial
    } else {
        LabelMatch::None
    }
}

/// Whether a label stands anywhere in a text. A terminal that breaks the text may begin a row with it.
pub(super) fn contains_label(text: &str) -> bool {
    let letters: String = text.chars().filter_map(letter).collect();
    let letters = without_space_before_colon(&letters);
    LABELS.iter().any(|label| letters.contains(label))
}

/// Whether letters are a label without its colon. Spaces may follow: `hint :` looks like `hint:`.
pub(super) fn lacks_colon(letters: &str) -> bool {
    LABELS.iter().any(|label| label.strip_suffix(':') == Some(letters))
}

/// Removes the spaces before colons and at the end.
fn without_space_before_colon(letters: &str) -> String {
    letters.split(':').map(str::trim_end).collect::<Vec<_>>().join(":")
}

/// Returns a character in the form in which it is compared; `None` if it has no width.
pub(super) fn letter(c: char) -> Option<char> {
    if has_no_width(c) { None } else { folded(c)?.to_lowercase().next() }
}
