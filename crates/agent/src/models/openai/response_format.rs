//! Structured output: the JSON Schema of a response.

use serde::Serialize;
use serde_json::Value;
use wharf_protocol::Json;

#[derive(Serialize)]
pub(super) struct ResponseFormat {
    r#type: &'static str,
    json_schema: NamedSchema,
}

#[derive(Serialize)]
struct NamedSchema {
    name: &'static str,
    strict: bool,
    schema: Json,
}

impl ResponseFormat {
    /// Returns the format of an answer.
    pub(super) fn answer(schema: &Json) -> Self {
        Self::named("answer", schema.clone())
    }

    pub(super) fn named(name: &'static str, schema: Json) -> Self {
        let strict = schema.to_value().is_ok_and(|schema| is_strict(&schema));
        Self { r#type: "json_schema", json_schema: NamedSchema { name, strict, schema } }
    }
}

/// Returns whether strict mode accepts a schema: every object is closed, and every property required. In strict mode,
/// providers reject any other schema.
fn is_strict(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            let closed = match fields.get("properties") {
                Some(Value::Object(properties)) => {
                    let required = fields.get("required").and_then(Value::as_array);
                    fields.get("additionalProperties") == Some(&Value::Bool(false))
                        && required.is_some_and(|required| {
                            properties.keys().all(|key| required.iter().any(|name| name.as_str() == Some(key)))
                        })
                }
                Some(_) => false,
                None => fields.get("type").and_then(Value::as_str) != Some("object"),
            };
            closed
                && fields.iter().filter(|(key, _)| *key != "required").all(|(key, value)| match value {
                    Value::Object(named) if matches!(key.as_str(), "properties" | "$defs" | "definitions") => {
                        named.values().all(is_strict)
                    }
                    value => is_strict(value),
                })
        }
        Value::Array(items) => items.iter().all(is_strict),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_closed_schemas_are_strict() {
        let closed = json!({"type":"object","properties":{"properties":{"type":"string"}},
            "required":["properties"],"additionalProperties":false});
        assert!(is_strict(&closed));
        assert!(is_strict(&json!({"anyOf":[closed, {"type":"string"}]})));
        assert!(!is_strict(&json!({"anyOf":[closed, {"type":"object"}]})));
        let mut open = closed.clone();
        open["additionalProperties"] = json!(true);
        assert!(!is_strict(&open));
        let mut optional = closed;
        optional["required"] = json!([]);
        assert!(!is_strict(&optional));
    }
}
