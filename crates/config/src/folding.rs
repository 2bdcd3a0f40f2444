//! Characters that look like ASCII characters: other alphabets, accents, full-width and mathematical forms.
//!
//! Only obvious look-alikes are known. What is compared after folding is still shown as it was sent.

use unicode_width::UnicodeWidthChar as _;

/// Letters of other alphabets, small capitals and punctuation, and the ASCII characters that they look like.
const OTHERS: (&str, &str) = (
    "Наеіїјкморсԁтухѕһԝгпαεικορτυχνωոօսցհıȷɡɩʜ：∶꞉ː﹕׃ⲁⲃⲉⲏⲓⲕⲙⲛⲟⲣⲥⲧⲩⲭᴀʙᴄᴅᴇꜰɢɪᴊᴋʟᴍɴᴏᴘꞯʀꜱᴛᴜᴠᴡʏᴢℏɦᏂꮒꭵ℮⁚︓։܃ꓽ᛬",
    "Haeiijkmopcdtyxshwrnaeikoptuxvwnoughijgih::::::abehikmnopctyxabcdefgijklmnopqrstuvwyzhhhhie::::::",
);
/// Raised, lowered and letter-like forms, among them those that the mathematical alphabets leave out.
const FORMS: (&str, &str) = (
    "ʰʲʳʷʸˡˢˣᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁᵂᵃᵇᵈᵉᵍᵏᵐᵒᵖᵗᵘᵛᵢᵣᵤᵥⁱⁿₐₑₒₓₕₖₗₘₙₚₛₜℂℊℋℌℍℎℐℑℒℓℕℙℚℛℜℝℤℨ\u{212a}ℬℭℯℰℱℳℴℹⅅⅆⅇⅈⅉⅠⅤⅩⅬⅭⅮⅯ\
     ⅰⅴⅹⅼⅽⅾⅿ𝚤𝚥",
    "hjrwylsxABDEGHIJKLMNOPRTUWabdegkmoptuviruvinaeoxhklmnpstCgHHHhIILlNPQRRRZZKBCeEFMoiDdeijIVXLCDM\
     ivxlcdmij",
);
/// Latin letters with accents, and the letters without.
const ACCENTED: (&str, &str) = (
    "àáâãäåāăąçćĉċčďđèéêëēĕėęěĝğġģĥħìíîïĩīĭįĵķĺļľłñńņňòóôõöøōŏőŕŗřśŝşšţťŧùúûüũūŭůűųŵýÿŷźżž",
    "aaaaaaaaacccccddeeeeeeeeegggghhiiiiiiiijkllllnnnnooooooooorrrsssstttuuuuuuuuuuwyyyzzz",
);
/// Latin letters with rarer accents, and the letters without.
const RARELY_ACCENTED: (&str, &str) = (
    "ḁḃḅḇḉḋḍḏḑḓḕḗḙḛḝḟḡḣḥḧḩḫḭḯḱḳḵḷḹḻḽḿṁṃṅṇṉṋṍṏṑṓṕṗṙṛṝṟṡṣṥṧṩṫṭṯṱṳṵṷṹṻṽṿẁẃẅẇẉẋẍẏẑẓẕẖẗẘẙẚẛạảấầẩẫậắằẳẵặẹẻ\
     ẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ",
    "abbbcdddddeeeeefghhhhhiikkkllllmmmnnnnoooopprrrrsssssttttuuuuuvvwwwwwxxyzzzhtwyasaaaaaaaaaaaaee\
     eeeeeeiioooooooooooouuuuuuuyyyy",
);

const TABLES: [(&str, &str); 4] = [OTHERS, FORMS, ACCENTED, RARELY_ACCENTED];

/// Returns the ASCII character that a character looks like, or else the character; `None` for one that shows nothing of
/// its own.
pub fn folded(c: char) -> Option<char> {
    if c.is_ascii() {
        return Some(c);
    }
    match c {
        // Characters without width, and marks that combine with the letter before them.
        '\u{ad}' => None,
        _ if c.width() == Some(0) => None,
        // Full-width forms have a fixed offset from ASCII.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0),
        // Mathematical alphabets of 52 letters each, capital ones first.
        '\u{1d400}'..='\u{1d6a3}' => Some(mathematical(c)),
        // Letters in circles, parentheses and squares.
        '\u{249c}'..='\u{24b5}' => nth_letter('a', c, '\u{249c}'),
        '\u{24b6}'..='\u{24cf}' => nth_letter('A', c, '\u{24b6}'),
        '\u{24d0}'..='\u{24e9}' => nth_letter('a', c, '\u{24d0}'),
        '\u{1f110}'..='\u{1f129}' => nth_letter('A', c, '\u{1f110}'),
        '\u{1f130}'..='\u{1f149}' => nth_letter('A', c, '\u{1f130}'),
        '\u{1f150}'..='\u{1f169}' => nth_letter('A', c, '\u{1f150}'),
        '\u{1f170}'..='\u{1f189}' => nth_letter('A', c, '\u{1f170}'),
        c => Some(TABLES.iter().find_map(|table| replaced(c, *table)).unwrap_or(c)),
    }
}

/// Returns the letter that is as far from `first` as a character is from the first of its kind.
fn nth_letter(first: char, c: char, first_of_kind: char) -> Option<char> {
    char::from_u32(u32::from(first) + u32::from(c) - u32::from(first_of_kind))
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
            ("hi\u{5b0}n\u{64b}t։", "hint:"),
            ("hínt: Ñ", "hint: N"),
            ("НІNТ: Еrrоr", "HINT: Error"),
            ("𝐡𝓲𝗇𝚝: 𝐀𝒁", "hint: AZ"),
            ("ℎ𝑖nt: hⅰnt: ẖint: ʜɪɴᴛ:", "hint: hint: hint: hint:"),
            ("ⓗⓘⓝⓣ: hᵢnt: ⲏint: eᵣror:", "hint: hint: hint: error:"),
            ("🅷int: ⒣int: ⓔⓡⓡⓞⓡ: ʰint: ℰrror:", "Hint: hint: error: hint: Error:"),
            ("plain 壊 text", "plain 壊 text"),
        ] {
            assert_eq!(text.chars().filter_map(folded).collect::<String>(), expected, "{text}");
        }
    }

    #[test]
    fn every_look_alike_has_its_letter() {
        for (theirs, ours) in TABLES {
            assert_eq!(theirs.chars().count(), ours.chars().count(), "{theirs}");
        }
    }
}
