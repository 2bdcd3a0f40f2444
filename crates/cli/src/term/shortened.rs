//! What a question shows of long values and of many values: enough to decide, and short enough that the question stays on
//! the screen.

use super::text::counted;

/// A longer value or key is shortened to its head and its tail.
const MAX_SHOWN_CHARS: usize = 200;
const HEAD_CHARS: usize = 120;
const TAIL_CHARS: usize = 60;
/// Of more lines, only the first and the last are shown.
pub(super) const MAX_SHOWN_LINES: usize = 20;
const FIRST_LINES: usize = 14;
const LAST_LINES: usize = 5;

/// A line of a question.
pub(super) trait Line {
    fn whole(&self) -> String;

    /// Returns the line in a limited length, and whether something was left out.
    fn short(&self) -> (String, bool);
}

/// What fits on the screen.
pub(super) struct Shortened {
    pub(super) lines: Vec<String>,
    pub(super) is_cut: bool,
}

/// Returns the short form of each line, and of many lines the first and the last.
pub(super) fn shortened<L: Line>(lines: &[L]) -> Shortened {
    let shown = |lines: &[L]| lines.iter().map(L::short).collect::<Vec<_>>();
    let (lines, is_split) = if lines.len() > MAX_SHOWN_LINES {
        let (first, rest) = lines.split_at(FIRST_LINES);
        let (between, last) = rest.split_at(rest.len() - LAST_LINES);
        let chars = between.iter().map(|line| line.whole().chars().count()).sum();
        let left_out = format!("… {} more ({})", between.len(), counted(chars, "character"));
        (shown(first).into_iter().chain([(left_out, true)]).chain(shown(last)).collect(), true)
    } else {
        (shown(lines), false)
    };
    let is_cut = is_split || lines.iter().any(|(_, is_cut)| *is_cut);
    Shortened { lines: lines.into_iter().map(|(line, _)| line).collect(), is_cut }
}

/// Returns the length, the head and the tail of a long text; `None` if it is short.
pub(super) fn ends(text: &str, show: fn(&str) -> String) -> Option<String> {
    ends_beyond(MAX_SHOWN_CHARS, text, show)
}

/// Like [`ends`], for texts of more than `max_chars`.
pub(super) fn ends_beyond(max_chars: usize, text: &str, show: fn(&str) -> String) -> Option<String> {
    let count = text.chars().count();
    // Escapes take more room than what they stand for.
    if count <= max_chars && show(text).chars().count() <= 2 * max_chars {
        return None;
    }
    let at = |index: usize| text.char_indices().nth(index).map_or(text.len(), |(at, _)| at);
    let head = &text[..at(HEAD_CHARS.min(count / 2))];
    let tail = &text[at(count - TAIL_CHARS.min(count / 4))..];
    Some(format!("({count} characters) {} … {}", show(head), show(tail)))
}
