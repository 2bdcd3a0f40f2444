//! Texts of models, tools and benchmarks for formats that people read: characters that hide or reorder others are shown
//! by their code point. The page of the HTML report does the same in `report-web/src/text.ts`.

use std::fmt::Write as _;

/// Replaces line ends of Windows by line feeds, and controls other than tab and line feed, direction marks, and invisible
/// characters by their code point, for example `[U+202E]`.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.replace("\r\n", "\n").chars() {
        if is_hidden(character) {
            let _ = write!(shown, "[U+{:04X}]", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Returns a text in one line of at most `max` characters.
pub(super) fn one_line(text: &str, max: usize) -> String {
    let mut words = text.split_whitespace();
    let mut line = String::new();
    let mut left = max;
    let mut is_cut = false;
    while let Some(word) = words.next() {
        let separator = usize::from(!line.is_empty());
        let word = visible(word);
        let fits: String = word.chars().take(left.saturating_sub(separator)).collect();
        is_cut = fits.len() < word.len();
        if !fits.is_empty() {
            line.extend(std::iter::repeat_n(' ', separator));
            left = left.saturating_sub(separator + fits.chars().count());
            line.push_str(&fits);
        }
        if is_cut || left == 0 {
            is_cut = is_cut || words.next().is_some();
            break;
        }
    }
    if is_cut {
        line.push('…');
    }
    line
}

fn is_hidden(character: char) -> bool {
    let is_control = character.is_control() && !matches!(character, '\t' | '\n');
    is_control
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
            | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_shown_by_their_code_point() {
        assert_eq!(visible("a\u{202e}b\0c\u{7f}\u{ffff}\nd\te"), "a[U+202E]b[U+0000]c[U+007F][U+FFFF]\nd\te");
        assert_eq!(visible("a\r\nb\rc"), "a\nb[U+000D]c");
        assert_eq!(visible("Ünïcode 🚢 العربية"), "Ünïcode 🚢 العربية");
    }

    #[test]
    fn a_line_has_no_breaks_and_at_most_its_length() {
        assert_eq!(one_line("  a\n\n b\tc ", 80), "a b c");
        assert_eq!(one_line("abcdef", 6), "abcdef");
        assert_eq!(one_line("abcdefg", 6), "abcdef…");
        assert_eq!(one_line("abc def ghi", 7), "abc def…");
        assert_eq!(one_line("abc def", 4), "abc…");
        assert_eq!(one_line("", 4), "");
        assert!(one_line(&"x".repeat(1_000_000), 50).chars().count() == 51);
    }
}
