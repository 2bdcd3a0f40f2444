//! Simple questions about a JSON Schema that need no validator.

use serde_json::Value;

/// Returns whether a schema lists `kind` among its types, directly or in `anyOf` or `oneOf`.
pub fn schema_accepts(schema: &Value, kind: &str) -> bool {
    let named = match &schema["type"] {
        Value::String(one) => one == kind,
        Value::Array(several) => several.iter().any(|one| one == kind),
        _ => false,
    };
    let alternatives = |key: &str| schema[key].as_array().into_iter().flatten();
    named || alternatives("anyOf").chain(alternatives("oneOf")).any(|alternative| schema_accepts(alternative, kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn types_are_found_directly_in_lists_and_in_alternatives() {
        let optional = json!({"anyOf": [{"type": "array"}, {"type": "null"}]});
        assert!(schema_accepts(&optional, "array") && !schema_accepts(&optional, "string"));
        assert!(schema_accepts(&json!({"type": ["string", "null"]}), "string"));
        assert!(!schema_accepts(&json!({}), "string") && !schema_accepts(&json!(true), "string"));
    }
}
