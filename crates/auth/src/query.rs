//! Parses URL queries, and encodes form bodies.

use wharf_io::percent::{self, encode};

/// Returns the decoded names and values of a URL's query, in order.
pub(super) fn query(url: &str) -> Vec<(String, String)> {
    let url = url.split_once('#').map_or(url, |(before, _)| before);
    let Some((_, query)) = url.split_once('?') else { return Vec::new() };
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    };
    query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect()
}

/// Encodes pairs as a form body or query.
pub(super) fn form(pairs: &[(&str, &str)]) -> String {
    let pair = |(name, value): &(&str, &str)| format!("{}={}", encode(name), encode(value));
    pairs.iter().map(pair).collect::<Vec<_>>().join("&")
}

/// Decodes a name or a value, in which `+` is a space.
fn decode(text: &str) -> String {
    percent::decode(&text.replace('+', " "))
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
    fn a_query_is_split_and_decoded() {
        check("http://h/p?code=a%2Fb&state=x+y%2B", &[("code", "a/b"), ("state", "x y+")]);
        check("http://h/p?&a&b=&=c&d=e=f#?g=h", &[("a", ""), ("b", ""), ("", "c"), ("d", "e=f")]);
        check("http://h/p", &[]);
        check("http://h/p#?a=b", &[]);
        check("?a=%C3%a9", &[("a", "é")]);
    }

    #[test]
    fn invalid_escapes_stay_and_invalid_utf8_is_replaced() {
        check("?a=%&b=%4&c=%zz&d=%4%41&e=%+1", &[("a", "%"), ("b", "%4"), ("c", "%zz"), ("d", "%4A"), ("e", "% 1")]);
        check("?a=%ff%fe", &[("a", "\u{fffd}\u{fffd}")]);
    }

    #[test]
    fn reserved_characters_are_escaped() {
        assert_eq!(form(&[("scope", "a b"), ("k&", "=")]), "scope=a%20b&k%26=%3D");
    }

    proptest! {
        #[test]
        fn encoding_round_trips(
            pairs in prop::collection::vec(("[a-z&=%+é ]{1,5}", "[#?&=%+\0é ]{0,5}"), 0..4),
        ) {
            let written: Vec<_> = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            prop_assert_eq!(query(&format!("http://h/?{}", form(&written))), pairs);
        }
    }
}
