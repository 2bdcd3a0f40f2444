//! Text from servers, made harmless for a terminal. This file decides which characters are shown; `line_quoter.rs`
//! decides which lines may begin like lines of ours.
//!
//! | text | function |
//! |---|---|
//! | results, which keep their lines and their joiners | [`plain`] |
//! | messages of ours that quote a server | [`visible`] |
//! | names, and everything in a question | [`name`] |
//! | cells of a table | [`flat`] |

use std::fmt::Write as _;

use crate::env::variable;

/// Escapes everything a terminal would act on, and everything that reverses or hides text. Line feeds and tabs stay, and
/// so do the joiners of Persian and emoji.
pub(crate) fn plain(text: &str) -> String {
    escaped(text, |_, c| is_deceptive(c))
}

/// Like [`plain`], but escapes line feeds and tabs as well, so that one line results.
pub(crate) fn flat(text: &str) -> String {
    one_line(&plain(text))
}

/// Like [`plain`], but escapes characters without width as well: two texts that look the same are the same.
pub(crate) fn visible(text: &str) -> String {
    escaped(text, |before, c| is_deceptive(c) || is_invisible(before, c))
}

/// Like [`visible`], in one line.
pub(crate) fn name(text: &str) -> String {
    one_line(&visible(text))
}

/// Runs of more spaces are counted.
const MAX_SPACES: usize = 3;

/// Makes the blanks of one line visible: long runs of spaces are counted, and blanks other than spaces are escaped. Else
/// they could push text to where another line is expected.
pub(super) fn with_visible_blanks(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let spaces = rest.len() - rest.trim_start_matches(' ').len();
        if spaces > MAX_SPACES {
            let _ = write!(shown, "⟨{spaces} spaces⟩");
            rest = &rest[spaces..];
            continue;
        }
        if c.is_whitespace() && c != ' ' {
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
        } else {
            shown.push(c);
        }
        rest = &rest[c.len_utf8()..];
    }
    shown
}

/// Returns the first line of a text, cut to `max_chars`.
pub(crate) fn brief(text: &str, max_chars: usize) -> String {
    let line = text.trim().lines().next().unwrap_or_default().trim_end();
    if line.chars().count() <= max_chars {
        return plain(line);
    }
    let cut: String = line.chars().take(max_chars.saturating_sub(1)).collect();
    plain(&format!("{}…", cut.trim_end()))
}

/// Returns a count with its noun: `1 tool`, `2 tools`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Whether a character controls a terminal, reverses text, ends a line, or is a tag, which shows nothing and spells text.
pub(super) fn is_deceptive(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t')
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Whether a character shows nothing. A variation selector after an emoji does: it gives the emoji its color.
fn is_invisible(before: Option<char>, c: char) -> bool {
    match c {
        '\u{fe0e}' | '\u{fe0f}' => before.is_none_or(|before| before.is_ascii() || has_no_width(before)),
        c => has_no_width(c),
    }
}

/// Whether a character has no width, or is blank without being a space.
pub(super) fn has_no_width(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{206a}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0100}'..='\u{e01ef}')
}

/// Escapes characters. `is_escaped` receives each one with the one before it.
fn escaped(text: &str, is_escaped: impl Fn(Option<char>, char) -> bool) -> String {
    let text = text.replace("\r\n", "\n");
    let mut shown = String::with_capacity(text.len());
    let mut before = None;
    for c in text.chars() {
        if is_escaped(before, c) {
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
        } else {
            shown.push(c);
        }
        before = Some(c);
    }
    shown
}

fn one_line(text: &str) -> String {
    text.replace('\n', "\\n").replace('\t', "\\t")
}

/// Whether the terminal cannot move its cursor.
pub(crate) fn is_dumb() -> bool {
    variable(&["TERM"]).is_none_or(|terminal| terminal == "dumb")
}

/// Groups digits, for example `46,120`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let group = |(index, digit): (usize, char)| {
        let comma = index > 0 && (digits.len() - index).is_multiple_of(3);
        if comma { format!(",{digit}") } else { digit.to_string() }
    };
    digits.chars().enumerate().map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_control_characters_are_escaped() {
        let text = "a\u{1b}[31mred\u{1b}]52;c;x\u{7}\r\nb\tc\u{202e}d\rover";
        assert_eq!(plain(text), "a\\u{1b}[31mred\\u{1b}]52;c;x\\u{7}\nb\tc\\u{202e}d\\u{d}over");
        assert_eq!(plain("\u{9b}31m\u{85}\u{61c}\u{2028}\u{e0041}"), "\\u{9b}31m\\u{85}\\u{61c}\\u{2028}\\u{e0041}");
    }

    #[test]
    fn results_keep_their_joiners_and_names_show_them() {
        let family = "👩\u{200d}👧 می\u{200c}خواهم";
        assert_eq!(plain(family), family);
        assert_eq!(name("pay\u{200b}pal\u{feff}\n"), "pay\\u{200b}pal\\u{feff}\\n");
        assert_eq!(name("❤\u{fe0f}"), "❤\u{fe0f}");
        assert_eq!(name("a\u{fe0f}❤\u{fe0f}\u{fe0f}"), "a\\u{fe0f}❤\u{fe0f}\\u{fe0f}");
    }

    #[test]
    fn long_runs_of_spaces_and_other_blanks_are_visible() {
        assert_eq!(with_visible_blanks("a   b c"), "a   b c");
        assert_eq!(with_visible_blanks("    a     b"), "⟨4 spaces⟩a⟨5 spaces⟩b");
        assert_eq!(with_visible_blanks("a\u{a0}\u{3000}b"), "a\\u{a0}\\u{3000}b");
    }

    #[test]
    fn a_long_line_is_cut_and_the_cut_is_marked() {
        assert_eq!(brief("  Ünïcödé is counted in characters\nmore", 10), "Ünïcödé i…");
        assert_eq!(brief("short", 10), "short");
    }
}
