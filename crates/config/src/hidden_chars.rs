//! Characters that a reader cannot see or tell apart: leading and trailing spaces, line breaks, zero-width characters,
//! letters of other alphabets.

use wharf_protocol::ServerName;

/// A hidden character in a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HiddenChar {
    /// The character and its position, to follow the name of the value.
    pub(crate) description: String,
    /// Whether it is a line break within the text, which some values may have.
    pub(crate) is_inner_line_break: bool,
}

/// Finds the first hidden character of a text.
pub(crate) fn find(text: &str) -> Option<HiddenChar> {
    let found = |description: String| Some(HiddenChar { description, is_inner_line_break: false });
    if text.starts_with(char::is_whitespace) {
        return found(format!("starts with {}", name(text.chars().next()?)));
    }
    if text.ends_with(char::is_whitespace) {
        return found(format!("ends with {}", name(text.chars().next_back()?)));
    }
    let odd = |(_, c): &(usize, char)| is_hidden(*c) || (c.is_control() && !matches!(c, '\n' | '\r' | '\t'));
    if let Some((index, character)) = text.chars().enumerate().find(odd) {
        return found(format!("contains {} at character {}", name(character), index + 1));
    }
    let (index, character) = text.chars().enumerate().find(|(_, c)| matches!(c, '\n' | '\r'))?;
    let description = format!("contains {} at character {}", name(character), index + 1);
    Some(HiddenChar { description, is_inner_line_break: true })
}

fn name(character: char) -> String {
    let known = match character {
        ' ' => "a space",
        '\n' => "a line break",
        '\r' => "a carriage return",
        '\t' => "a tab",
        '\u{a0}' => "a non-breaking space",
        '\u{200b}' => "a zero-width space",
        '\u{200c}' | '\u{200d}' => "a zero-width joiner",
        '\u{feff}' => "a byte order mark",
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => "a text direction mark",
        _ => "a hidden character",
    };
    if matches!(character, ' ' | '\n' | '\r' | '\t') {
        known.to_owned()
    } else {
        format!("{known} (U+{:04X})", u32::from(character))
    }
}

/// Escapes all control and hidden characters: a file must not control the terminal.
pub(crate) fn visible(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_hidden(character) {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Returns whether a character is invisible, reverses the text direction, or looks like a space.
pub(crate) fn is_hidden(character: char) -> bool {
    matches!(character,
        '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}'
        | '\u{a0}' | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}'
        | '\u{205f}'..='\u{206f}' | '\u{3000}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Letters of other alphabets, and the ASCII letters that they look like.
const LOOK_ALIKES: &[(&str, &str)] = &[
    ("абеёгіїјкмнорсԁтухѕԛԝһӏв", "abeeriijkmhopcdtyxsqwhlb"),
    ("АВЕЅІЈКМНОРСТУХԚԜ", "ABESIJKMHOPCTYXQW"),
    ("αβεικνορτυχγω", "abeikvoptuxyw"),
    ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEZHIKMNOPTYX"),
    ("ıɡɑℓ‐‑‒–—−․", "igal------."),
];

/// Returns the valid name that a non-ASCII name looks like.
pub(crate) fn looks_like(name: &str) -> Option<ServerName> {
    if name.is_ascii() {
        return None;
    }
    let ascii: Option<String> = name.chars().filter(|c| !is_hidden(*c)).map(ascii_look_alike).collect();
    ascii?.parse().ok()
}

fn ascii_look_alike(character: char) -> Option<char> {
    // Full-width forms have a fixed offset from ASCII.
    let code = u32::from(character);
    if (0xff01..=0xff5e).contains(&code) {
        return char::from_u32(code - 0xfee0);
    }
    if character.is_ascii() {
        return Some(character);
    }
    LOOK_ALIKES.iter().find_map(|(theirs, ours)| {
        theirs.chars().position(|letter| letter == character).and_then(|index| ours.chars().nth(index))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_named_with_their_position() {
        let description = |text| find(text).map(|found| found.description);
        assert_eq!(description("plain text"), None);
        assert_eq!(description(" x").unwrap(), "starts with a space");
        assert_eq!(description("x\n").unwrap(), "ends with a line break");
        assert_eq!(description("x\u{a0}y").unwrap(), "contains a non-breaking space (U+00A0) at character 2");
        assert_eq!(description("\u{feff}x").unwrap(), "contains a byte order mark (U+FEFF) at character 1");
        assert_eq!(description("a\u{202e}b").unwrap(), "contains a text direction mark (U+202E) at character 2");
        assert_eq!(description("a\nb").unwrap(), "contains a line break at character 2");
    }

    #[test]
    fn look_alike_letters_resolve_to_ascii() {
        let like = |name| looks_like(name).map(String::from);
        assert_eq!(like("gіthub").as_deref(), Some("github"));
        assert_eq!(like("ｇithub").as_deref(), Some("github"));
        assert_eq!(like("git\u{200b}hub").as_deref(), Some("github"));
        assert_eq!(like("日本"), None);
        assert_eq!(like("github"), None);
    }

    #[test]
    fn every_look_alike_maps_to_one_letter() {
        for (theirs, ours) in LOOK_ALIKES {
            assert_eq!(theirs.chars().count(), ours.chars().count(), "{theirs}");
        }
    }
}
