//! Percent-encoding of URLs (RFC 3986).

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Everything but the unreserved characters of RFC 3986: letters, digits and `-._~`.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes a text so that it can stand anywhere in a URL: everything but letters, digits and `-._~` is escaped.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Decodes all escapes. A `%` without two hexadecimal digits stays as it is; bytes that are not UTF-8 are replaced.
pub fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Decodes the escapes of unreserved characters only, which mean the same with and without escaping.
pub fn decode_unreserved(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut decoded = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match piece.get(..2).and_then(unreserved) {
            Some(character) => {
                decoded.push(character);
                decoded.push_str(&piece[2..]);
            }
            None => {
                decoded.push('%');
                decoded.push_str(piece);
            }
        }
    }
    decoded
}

/// Returns whether every `%` is followed by two hexadecimal digits.
pub fn is_well_formed(text: &str) -> bool {
    text.split('%').skip(1).all(|piece| piece.get(..2).is_some_and(are_hex_digits))
}

/// Returns the unreserved character that two hexadecimal digits stand for.
fn unreserved(digits: &str) -> Option<char> {
    if !are_hex_digits(digits) {
        return None;
    }
    let byte = u8::from_str_radix(digits, 16).ok()?;
    (byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)).then(|| char::from(byte))
}

fn are_hex_digits(digits: &str) -> bool {
    digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn everything_but_unreserved_characters_is_encoded() {
        assert_eq!(encode("aZ09-._~"), "aZ09-._~");
        assert_eq!(encode("a b+c/é\n&=%"), "a%20b%2Bc%2F%C3%A9%0A%26%3D%25");
    }

    #[test]
    fn invalid_escapes_stay_and_invalid_utf8_is_replaced() {
        assert_eq!(decode("a%2Fb+%C3%a9"), "a/b+é");
        assert_eq!(decode("% %4 %zz %4%41 %+1"), "% %4 %zz %4A %+1");
        assert_eq!(decode("%ff%fe"), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn only_unreserved_characters_are_decoded_and_only_once() {
        assert_eq!(decode_unreserved("/%6Dcp/%2e%2E/%7e%5F"), "/mcp/../~_");
        assert_eq!(decode_unreserved("%2F%20%2541%é%+1%4"), "%2F%20%2541%é%+1%4");
    }

    #[test]
    fn a_percent_sign_without_two_digits_is_not_well_formed() {
        for text in ["", "a", "%41", "a%C3%a9b"] {
            assert!(is_well_formed(text), "{text}");
        }
        for text in ["%", "%4", "%PATH%", "%+1", "%4é", "a%41%"] {
            assert!(!is_well_formed(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(text: String) {
            prop_assert_eq!(decode(&encode(&text)), text.clone());
            prop_assert!(is_well_formed(&encode(&text)));
        }
    }
}
