//! Digests of JSON values that do not depend on the order of keys.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Returns the SHA-256 of the canonical JSON of a value (sorted keys, no whitespace), as 64 hexadecimal digits.
pub fn digest(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    let mut text = String::new();
    write_canonical(&value, &mut text);
    sha256(text.as_bytes())
}

/// Returns the SHA-256 of bytes as 64 hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let digits = Sha256::digest(bytes).into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])).collect()
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort_unstable();
            text.push('{');
            for (position, key) in keys.into_iter().enumerate() {
                if position > 0 {
                    text.push(',');
                }
                let _ = write!(text, "{}:", Value::from(key.as_str()));
                write_canonical(&fields[key], text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    text.push(',');
                }
                write_canonical(item, text);
            }
            text.push(']');
        }
        scalar => {
            let _ = write!(text, "{scalar}");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::digest;

    #[test]
    fn the_order_of_keys_does_not_matter_and_everything_else_does() {
        let one = digest(&json!({"a": 1, "b": [1, {"c": null, "d": "x"}]}));
        assert_eq!(one, digest(&json!({"b": [1, {"d": "x", "c": null}], "a": 1})));
        for other in [
            json!({"a": 1, "b": [{"c": null, "d": "x"}, 1]}),
            json!({"a": 1.0, "b": [1, {"c": null, "d": "x"}]}),
            json!({"a": "1", "b": [1, {"c": null, "d": "x"}]}),
            json!({"a": 1, "b": [1, {"d": "x"}]}),
        ] {
            assert_ne!(one, digest(&other), "{other}");
        }
        assert_eq!(one.len(), 64);
    }
}
