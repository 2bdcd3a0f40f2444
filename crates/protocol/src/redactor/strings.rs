//! The strings of JSON text that may contain secrets.
//!
//! A format has fixed words: its keys, and the values of a few fields such as `type`. A secret may be the same word
//! (`AUTH_TYPE=content`), and replacing it there would make a record unreadable without hiding anything.

use memchr::memchr;

use crate::scan::end_of_string;

/// Keys of the values that tell kinds apart, in Wharf's records, in MCP and in the APIs of models.
const KIND_KEYS: [&str; 12] = [
    "type",
    "role",
    "why",
    "kind",
    "stage",
    "outcome",
    "step",
    "stop",
    "stop_reason",
    "event",
    "exit_behavior",
    "status",
];

/// Returns the strings of JSON text that are not words of a format, with their positions: as written, without quotes.
pub(super) fn strings(json: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    let mut key = "";
    let mut key_end = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at + memchr(b'"', json.as_bytes().get(at..)?)?;
            at = end_of_string(json.as_bytes(), start);
            let string = json.get(start + 1..at - 1)?;
            if json[at..].trim_ascii_start().starts_with(':') {
                (key, key_end) = (string, at);
                if !is_key_word(string) {
                    return Some((start + 1, string));
                }
                continue;
            }
            let is_kind = KIND_KEYS.contains(&key) && json[key_end..start].trim_ascii() == ":";
            if !(is_kind && is_kind_word(string)) {
                return Some((start + 1, string));
            }
        }
    })
}

/// Whether a key may belong to a format. Tokens usually contain digits, and keys of formats do not.
fn is_key_word(key: &str) -> bool {
    key.chars().all(|c| c.is_ascii_alphabetic() || matches!(c, '_' | '-' | '$'))
}

fn is_kind_word(value: &str) -> bool {
    value.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '_' | '-'))
}
