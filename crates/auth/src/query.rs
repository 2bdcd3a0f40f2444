//! The part of a URL behind the question mark, and the form bodies that are written the same way.

use std::fmt::Write as _;

/// The names and values in a URL's query, decoded, in their order.
pub(super) fn query(url: &str) -> Vec<(String, String)> {
    let url = url.split_once('#').map_or(url, |(before, _)| before);
    let Some((_, query)) = url.split_once('?') else { return Vec::new() };
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    };
    query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect()
}

/// A text as it may stand anywhere in a URL: all but letters, digits and `-._~` is escaped.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Pairs as the body of a form, or as a query.
pub(super) fn form(pairs: &[(&str, &str)]) -> String {
    let pair = |(name, value): &(&str, &str)| format!("{}={}", encode(name), encode(value));
    pairs.iter().map(pair).collect::<Vec<_>>().join("&")
}

/// Undoes the escapes. What is no escape stays as it is, because others let it pass too.
fn decode(text: &str) -> String {
    let (mut rest, mut decoded) = (text.as_bytes(), Vec::with_capacity(text.len()));
    while let [first, behind @ ..] = rest {
        rest = behind;
        decoded.push(match (first, behind) {
            (b'+', _) => b' ',
            (b'%', [high, low, behind @ ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => {
                    rest = behind;
                    high << 4 | low
                }
                _ => b'%',
            },
            _ => *first,
        });
    }
    String::from_utf8(decoded).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(url: &str, expected: &[(&str, &str)]) {
        let found = query(url);
        let found: Vec<_> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(found, expected, "{url}");
    }

    #[test]
    fn a_query_is_taken_apart_and_decoded() {
        check("http://h/p?code=a%2Fb&state=x+y%2B", &[("code", "a/b"), ("state", "x y+")]);
        check("http://h/p?&a&b=&=c&d=e=f#?g=h", &[("a", ""), ("b", ""), ("", "c"), ("d", "e=f")]);
        check("http://h/p", &[]);
        check("http://h/p#?a=b", &[]);
        check("?a=%C3%a9", &[("a", "é")]);
    }

    #[test]
    fn what_is_no_escape_stays_and_bytes_that_are_no_text_are_replaced() {
        check("?a=%&b=%4&c=%zz&d=%4%41&e=%+1", &[("a", "%"), ("b", "%4"), ("c", "%zz"), ("d", "%4A"), ("e", "% 1")]);
        check("?a=%ff%fe", &[("a", "\u{fffd}\u{fffd}")]);
    }

    #[test]
    fn all_but_the_unreserved_is_escaped() {
        assert_eq!(encode("aZ09-._~"), "aZ09-._~");
        assert_eq!(encode("a b+c/é\n&="), "a%20b%2Bc%2F%C3%A9%0A%26%3D");
        assert_eq!(form(&[("scope", "a b"), ("k&", "=")]), "scope=a%20b&k%26=%3D");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_the_same(
            pairs in prop::collection::vec(("[a-z&=%+é ]{1,5}", "[#?&=%+\0é ]{0,5}"), 0..4),
        ) {
            let written: Vec<_> = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            prop_assert_eq!(query(&format!("http://h/?{}", form(&written))), pairs);
        }
    }
}
