//! Compiles the JSON Schema of an object that a judge fills.

use serde_json::Value;

/// Compiles a schema. It matches patterns in linear time and loads nothing.
pub(crate) fn compile(schema: &Value) -> Result<jsonschema::Validator, String> {
    let options = jsonschema::options().with_pattern_options(jsonschema::PatternOptions::regex());
    options.build(schema).map_err(|error| format!("invalid JSON Schema: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_loads_nothing() {
        assert!(compile(&json!({"type": "object"})).is_ok());
        assert!(compile(&json!({"$ref": "https://example.test/schema.json"})).is_err());
        assert!(compile(&json!({"$ref": "file:///etc/passwd"})).is_err());
        assert!(compile(&json!({"type": "objekt"})).is_err());
    }
}
