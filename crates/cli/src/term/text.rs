//! Text from servers, made harmless for a terminal.

use crate::env::variable;

/// Escapes everything a terminal would act on. Line feeds and tabs stay.
pub(crate) fn plain(text: &str) -> String {
    let visible = |c: char| match c {
        '\n' | '\t' => c.to_string(),
        c if c.is_control() || is_bidi(c) => format!("\\u{{{:x}}}", u32::from(c)),
        c => c.to_string(),
    };
    text.replace("\r\n", "\n").chars().map(visible).collect()
}

/// Like [`plain`], but escapes line feeds and tabs as well, so that one line results.
pub(crate) fn flat(text: &str) -> String {
    plain(text).replace('\n', "\\n").replace('\t', "\\t")
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

/// Whether a character reverses the direction of text, so that it reads as something else.
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

/// Whether the terminal cannot move its cursor.
pub(crate) fn is_dumb() -> bool {
    variable(&["TERM"]).is_none_or(|terminal| terminal == "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_control_characters_are_escaped() {
        let text = "a\u{1b}[31mred\u{1b}]52;c;x\u{7}\r\nb\tc\u{202e}d\rover";
        assert_eq!(plain(text), "a\\u{1b}[31mred\\u{1b}]52;c;x\\u{7}\nb\tc\\u{202e}d\\u{d}over");
    }

    #[test]
    fn a_long_line_is_cut_and_the_cut_is_marked() {
        assert_eq!(brief("  Ünïcödé is counted in characters\nmore", 10), "Ünïcödé i…");
        assert_eq!(brief("short", 10), "short");
    }
}
