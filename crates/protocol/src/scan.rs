//! Finds the parts of JSON text that is known to be valid, without parsing the rest.
//!
//! A result is validated once, when it arrives. Finding its fields afterwards skips over strings of megabytes.

use std::borrow::Cow;

use memchr::memchr2;

/// Returns the fields of an object: names decoded, values as written. Returns nothing for other values.
pub(crate) fn entries(object: &str) -> impl Iterator<Item = (Cow<'_, str>, &str)> {
    let mut cursor = Cursor::new(object, b'{');
    std::iter::from_fn(move || {
        let name = cursor.value()?;
        let value = cursor.value()?;
        Some((decoded(name), value))
    })
}

/// Returns the items of an array as written. Returns nothing for other values.
pub(crate) fn items(array: &str) -> impl Iterator<Item = &str> {
    let mut cursor = Cursor::new(array, b'[');
    std::iter::from_fn(move || cursor.value())
}

fn decoded(name: &str) -> Cow<'_, str> {
    if name.contains('\\') {
        return serde_json::from_str(name).unwrap_or_default();
    }
    Cow::Borrowed(name.trim_matches('"'))
}

/// A position inside an object or an array.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn new(text: &'a str, opening: u8) -> Self {
        let at = if text.as_bytes().first() == Some(&opening) { 1 } else { text.len() };
        Self { text, at }
    }

    /// Returns the next value or name, and skips the separators before it.
    fn value(&mut self) -> Option<&'a str> {
        let bytes = self.text.as_bytes();
        let between = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':');
        let start = self.at + bytes.get(self.at..)?.iter().position(|byte| !between(byte))?;
        if matches!(bytes[start], b'}' | b']') {
            return None;
        }
        self.at = end_of_value(bytes, start);
        self.text.get(start..self.at)
    }
}

/// Returns the end of the value that starts at `start`.
fn end_of_value(bytes: &[u8], start: usize) -> usize {
    match bytes[start] {
        b'"' => end_of_string(bytes, start),
        b'{' | b'[' => {
            let mut at = start;
            let mut depth = 0_usize;
            while let Some(byte) = bytes.get(at) {
                match byte {
                    b'"' => {
                        at = end_of_string(bytes, at);
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    break;
                }
            }
            at
        }
        _ => {
            let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
            bytes[start..].iter().position(ends).map_or(bytes.len(), |length| start + length)
        }
    }
}

/// Returns the end of the string that starts at `start`.
pub(crate) fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found;
        if bytes[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    /// Any value, compact or pretty-printed.
    fn json_text() -> impl Strategy<Value = String> {
        let text = r#"[\\"{}\[\]:, a-zé\n]{0,12}"#;
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        let value = leaf.prop_recursive(4, 40, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(text, inner, 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        });
        (value, any::<bool>()).prop_map(|(value, pretty)| {
            if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap()
        })
    }

    proptest! {
        #[test]
        fn entries_and_items_agree_with_a_full_parse(text in json_text()) {
            let read = |part: &str| serde_json::from_str::<Value>(part).unwrap();
            match read(&text) {
                Value::Object(expected) => {
                    let found = entries(&text).map(|(name, value)| (name.into_owned(), read(value)));
                    prop_assert_eq!(found.collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
                    prop_assert_eq!(items(&text).count(), 0);
                }
                Value::Array(expected) => {
                    prop_assert_eq!(items(&text).map(read).collect::<Vec<_>>(), expected);
                    prop_assert_eq!(entries(&text).count(), 0);
                }
                _ => prop_assert_eq!(entries(&text).count() + items(&text).count(), 0),
            }
        }
    }
}
