//! Characters that look like ASCII characters: other alphabets, accents, full-width and mathematical forms.
//!
//! Only obvious look-alikes are known. What is compared after folding is still shown as it was sent.

/// Letters of other alphabets and punctuation, and the ASCII characters that they look like.
const OTHERS: (&str, &str) =
    ("Наеіїјкморсԁтухѕһԝгпαεικορτυχνωոօսցհıȷɡɩʜ：∶꞉ː﹕׃", "Haeiijkmopcdtyxshwrnaeikoptuxvwnoughijgih::::::");
/// Latin letters with accents, and the letters without.
const ACCENTED: (&str, &str) = (
    "àáâãäåāăąçćĉċčďđèéêëēĕėęěĝğġģĥħìíîïĩīĭįĵķĺļľłñńņňòóôõöøōŏőŕŗřśŝşšţťŧùúûüũūŭůűųŵýÿŷźżž",
    "aaaaaaaaacccccddeeeeeeeeegggghhiiiiiiiijkllllnnnnooooooooorrrsssstttuuuuuuuuuuwyyyzzz",
);

/// Returns the ASCII character that a character looks like, or else the character; `None` for one that shows nothing of
/// its own.
pub(super) fn folded(c: char) -> Option<char> {
    if c.is_ascii() {
        return Some(c);
    }
    match c {
        // Characters without width, and marks that combine with the letter before them.
        '\u{ad}'
        | '\u{300}'..='\u{36f}'
        | '\u{483}'..='\u{489}'
        | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2060}'..='\u{2064}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{fe20}'..='\u{fe2f}'
        | '\u{feff}' => None,
        // Full-width forms have a fixed offset from ASCII.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0),
        // Mathematical alphabets of 52 letters each, capital ones first.
        '\u{1d400}'..='\u{1d6a3}' => Some(mathematical(c)),
        c => Some(replaced(c, OTHERS).or_else(|| replaced(c, ACCENTED)).unwrap_or(c)),
    }
}

/// Returns what a table has for a character. For a capital letter it has the small one.
fn replaced(c: char, (theirs, ours): (&str, &str)) -> Option<char> {
    let find = |wanted: char| {
        let place = theirs.chars().position(|letter| letter == wanted)?;
        ours.chars().nth(place)
    };
    let lower = c.to_lowercase().next()?;
    find(c).or_else(|| find(lower).filter(|_| lower != c).map(|letter| letter.to_ascii_uppercase()))
}

fn mathematical(c: char) -> char {
    let place = (u32::from(c) - 0x1d400) % 52;
    let first = if place < 26 { u32::from('A') } else { u32::from('a') - 26 };
    char::from_u32(first + place).unwrap_or(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_alikes_are_folded_to_ascii() {
        for (text, expected) in [
            ("ｈｉｎｔ：", "hint:"),
            ("hınt:", "hint:"),
            ("һіnt꞉", "hint:"),
            ("hi\u{301}n\u{200b}t:", "hint:"),
            ("hínt: Ñ", "hint: N"),
            ("НІNТ: Еrrоr", "HINT: Error"),
            ("𝐡𝓲𝗇𝚝: 𝐀𝒁", "hint: AZ"),
            ("plain 壊 text", "plain 壊 text"),
        ] {
            assert_eq!(text.chars().filter_map(folded).collect::<String>(), expected, "{text}");
        }
    }

    #[test]
    fn every_look_alike_has_its_letter() {
        for (theirs, ours) in [OTHERS, ACCENTED] {
            assert_eq!(theirs.chars().count(), ours.chars().count(), "{theirs}");
        }
    }
}
