//! Values that the user types for the fields of a server's form.

use serde_json::Value;
use wharf::schema_accepts;

/// The types of JSON, and how a question describes them.
const KINDS: [(&str, &str); 7] = [
    ("string", "text"),
    ("boolean", "true or false"),
    ("integer", "a whole number"),
    ("number", "a number"),
    ("array", "a JSON array"),
    ("object", "a JSON object"),
    ("null", "null"),
];

/// Returns what was typed as a value of the field; `None` if the field does not accept its type. A field without a type
/// accepts everything.
pub(super) fn parse(field: &Value, typed: &str) -> Option<Value> {
    let text = || Value::String(typed.to_owned());
    if schema_accepts(field, "string") {
        return Some(text());
    }
    let parsed = typed.parse::<Value>();
    if !has_type(field) {
        return Some(parsed.unwrap_or_else(|_| text()));
    }
    parsed.ok().filter(|value| accepts(field, value))
}

/// Describes the types that a field accepts.
pub(super) fn expected(field: &Value) -> String {
    let kinds = KINDS.iter().filter(|(kind, _)| schema_accepts(field, kind)).map(|(_, text)| *text);
    let kinds: Vec<&str> = kinds.collect();
    if kinds.is_empty() { "of a type that cannot be typed".to_owned() } else { kinds.join(" or ") }
}

fn accepts(field: &Value, value: &Value) -> bool {
    match value {
        Value::Null => schema_accepts(field, "null"),
        Value::Bool(_) => schema_accepts(field, "boolean"),
        Value::Number(number) => {
            // 2.0 is an integer in JSON Schema.
            let is_whole = number.as_f64().is_some_and(|number| number.fract() == 0.0);
            schema_accepts(field, "number") || (is_whole && schema_accepts(field, "integer"))
        }
        // A field for text is not parsed.
        Value::String(_) => false,
        Value::Array(_) => schema_accepts(field, "array"),
        Value::Object(_) => schema_accepts(field, "object"),
    }
}

fn has_type(field: &Value) -> bool {
    let alternatives = |key: &str| field[key].as_array().into_iter().flatten();
    !field["type"].is_null() || alternatives("anyOf").chain(alternatives("oneOf")).any(has_type)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_that_the_field_does_not_accept_is_refused() {
        for (kind, typed) in [
            ("boolean", "hunter2"),
            ("boolean", "1"),
            ("boolean", "\"hunter2\""),
            ("integer", "12ab"),
            ("integer", "1.5"),
            ("integer", "true"),
            ("number", "many"),
            ("array", "hunter2"),
            ("object", "[1]"),
            ("null", "hunter2"),
            ("unknown", "hunter2"),
        ] {
            assert_eq!(parse(&json!({"type": kind}), typed), None, "{kind} {typed}");
            assert_eq!(parse(&json!({"anyOf": [{"type": kind}]}), typed), None, "{kind} {typed}");
        }
        assert_eq!(expected(&json!({"type": ["boolean", "integer"]})), "true or false or a whole number");
        assert_eq!(expected(&json!({"type": "unknown"})), "of a type that cannot be typed");
    }

    #[test]
    fn a_value_has_the_type_of_its_field() {
        for (field, typed, value) in [
            (json!({"type": "string"}), "12", json!("12")),
            (json!({"type": ["string", "null"]}), "null", json!("null")),
            (json!({"type": "boolean"}), "true", json!(true)),
            (json!({"type": "integer"}), "2.0", json!(2.0)),
            (json!({"type": "number"}), "2", json!(2)),
            (json!({"type": "array"}), "[1]", json!([1])),
            (json!({"oneOf": [{"type": "null"}, {"type": "object"}]}), "{}", json!({})),
            (json!({}), "12", json!(12)),
            (json!({"oneOf": [{"const": "a"}]}), "a", json!("a")),
        ] {
            assert_eq!(parse(&field, typed), Some(value), "{field} {typed}");
        }
    }
}
