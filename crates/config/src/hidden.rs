//! What the eye does not see: blanks at the ends, line breaks, characters without width, letters of other alphabets.

use wharf_protocol::ServerName;

use super::problem::is_hidden;

/// What in a text the eye does not see, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hidden {
    pub(crate) what: String,
    /// Whether it is a line break within the text, which some values may have.
    pub(crate) is_inner_break: bool,
}

/// The first thing in a text that the eye does not see.
pub(crate) fn find(text: &str) -> Option<Hidden> {
    let found = |what: String| Some(Hidden { what, is_inner_break: false });
    if text.starts_with(char::is_whitespace) {
        return found(format!("begins with {}", name(text.chars().next()?)));
    }
    if text.ends_with(char::is_whitespace) {
        return found(format!("ends with {}", name(text.chars().next_back()?)));
    }
    let odd = |(_, c): &(usize, char)| is_hidden(*c) || (c.is_control() && !matches!(c, '\n' | '\r' | '\t'));
    if let Some((index, character)) = text.chars().enumerate().find(odd) {
        return found(format!("has {} as character {}", name(character), index + 1));
    }
    let (index, character) = text.chars().enumerate().find(|(_, c)| matches!(c, '\n' | '\r'))?;
    Some(Hidden { what: format!("has {} as character {}", name(character), index + 1), is_inner_break: true })
}

fn name(character: char) -> String {
    let known = match character {
        ' ' => "a blank",
        '\n' => "a line break",
        '\r' => "a carriage return",
        '\t' => "a tab",
        '\u{a0}' => "a non-breaking blank",
        '\u{200b}' => "a blank without width",
        '\u{200c}' | '\u{200d}' => "a joiner without width",
        '\u{feff}' => "a byte order mark",
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => "a mark that turns text around",
        _ => "a hidden character",
    };
    if matches!(character, ' ' | '\n' | '\r' | '\t') {
        known.to_owned()
    } else {
        format!("{known} (U+{:04X})", u32::from(character))
    }
}

/// Letters of other alphabets, and the ones they pass for.
const LOOK_ALIKES: &[(&str, &str)] = &[
    ("абеёгіїјкмнорсԁтухѕԛԝһӏв", "abeeriijkmhopcdtyxsqwhlb"),
    ("АВЕЅІЈКМНОРСТУХԚԜ", "ABESIJKMHOPCTYXQW"),
    ("αβεικνορτυχγω", "abeikvoptuxyw"),
    ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEZHIKMNOPTYX"),
    ("ıɡɑℓ‐‑‒–—−․", "igal------."),
];

/// The ASCII name that a name looks like; `None` if it looks like none.
pub(crate) fn looks_like(name: &str) -> Option<ServerName> {
    if name.is_ascii() {
        return None;
    }
    let plain: Option<String> = name.chars().filter(|c| !is_hidden(*c)).map(plain).collect();
    plain?.parse().ok()
}

fn plain(character: char) -> Option<char> {
    // Full-width forms stand at a fixed distance from the plain ones.
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

/// A valid name that is close to one that is not.
pub(crate) fn valid_name(name: &str) -> Option<ServerName> {
    if let Some(like) = looks_like(name) {
        return Some(like);
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let words: Vec<&str> = name.split(|c| !allowed(c)).filter(|word| !word.is_empty()).collect();
    let mut joined = words.join("-");
    joined.truncate(64);
    joined.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_named_with_its_place() {
        let what = |text| find(text).map(|found| found.what);
        assert_eq!(what("plain text"), None);
        assert_eq!(what(" x").unwrap(), "begins with a blank");
        assert_eq!(what("x\n").unwrap(), "ends with a line break");
        assert_eq!(what("x\u{a0}y").unwrap(), "has a non-breaking blank (U+00A0) as character 2");
        assert_eq!(what("\u{feff}x").unwrap(), "has a byte order mark (U+FEFF) as character 1");
        assert_eq!(what("a\u{202e}b").unwrap(), "has a mark that turns text around (U+202E) as character 2");
        assert_eq!(what("a\nb").unwrap(), "has a line break as character 2");
    }

    #[test]
    fn letters_of_other_alphabets_are_seen_through() {
        let like = |name| looks_like(name).map(String::from);
        assert_eq!(like("gіthub").as_deref(), Some("github"));
        assert_eq!(like("ｇithub").as_deref(), Some("github"));
        assert_eq!(like("git\u{200b}hub").as_deref(), Some("github"));
        assert_eq!(like("日本"), None);
        assert_eq!(like("github"), None);
    }

    #[test]
    fn every_look_alike_has_its_letter() {
        for (theirs, ours) in LOOK_ALIKES {
            assert_eq!(theirs.chars().count(), ours.chars().count(), "{theirs}");
        }
    }

    #[test]
    fn a_bad_name_leads_to_a_good_one() {
        let valid = |name: &str| valid_name(name).map(String::from);
        assert_eq!(valid("my server!").as_deref(), Some("my-server"));
        assert_eq!(valid("@scope/pkg").as_deref(), Some("scope-pkg"));
        assert_eq!(valid(&"é".repeat(3)), None);
        assert_eq!(valid(&"x".repeat(100)).map(|name| name.len()), Some(64));
    }
}
