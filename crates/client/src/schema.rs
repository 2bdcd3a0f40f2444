//! JSON Schema validation of arguments and results.

mod validator;

use std::fmt;

use serde_json::{Map, Value};
use wharf_protocol::{Json, schema_accepts};

use validator::Validator;

/// A compiled JSON Schema. External references are never fetched; a schema that has one does not compile.
#[derive(Debug)]
pub struct Schema {
    document: Value,
    validator: Validator,
}

/// A value's first violation of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaViolation {
    /// The JSON pointer of the invalid part; empty for the whole value.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for SchemaViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "at `{}`: {}", self.path, self.message)
        }
    }
}

impl Schema {
    /// Compiles a schema. Patterns are matched in linear time, so that no schema can stall the client.
    pub fn compile(schema: &Json) -> Result<Self, String> {
        let document = schema.to_value().map_err(|error| error.to_string())?;
        let validator = Validator::compile(&document)?;
        Ok(Self { document, validator })
    }

    /// Checks a value. Returns its first violation.
    pub fn check(&self, value: &Json) -> Result<(), SchemaViolation> {
        self.check_value(&tree(value)?)
    }

    /// Checks arguments, and repairs two common mistakes of models: arrays and objects written as a JSON string, and
    /// `null` for an omitted argument. Returns the repaired arguments to send instead, if that makes them valid.
    pub fn admit(&self, arguments: &Json) -> Result<Option<Json>, SchemaViolation> {
        let mut value = tree(arguments)?;
        let Err(fault) = self.check_value(&value) else { return Ok(None) };
        let repairs: [fn(&Self, &mut Value) -> bool; 2] = [Self::decode_strings, Self::remove_nulls];
        for repair in repairs {
            if repair(self, &mut value) && self.check_value(&value).is_ok() {
                return Ok(Some(Json::from(value)));
            }
        }
        Err(fault)
    }

    fn check_value(&self, value: &Value) -> Result<(), SchemaViolation> {
        self.validator.check(value)
    }

    /// Removes optional arguments that are `null` but must not be.
    fn remove_nulls(&self, value: &mut Value) -> bool {
        let Value::Object(arguments) = value else { return false };
        let before = arguments.len();
        let properties = self.document.get("properties");
        arguments.retain(|name, value| {
            let schema = properties.and_then(|properties| properties.get(name));
            let may_be_null = schema.is_none_or(|schema| schema_accepts(schema, "null"));
            !value.is_null() || may_be_null || !is_optional(&self.document, name)
        });
        arguments.len() < before
    }

    fn decode_strings(&self, value: &mut Value) -> bool {
        let properties = self.document.get("properties").and_then(Value::as_object);
        let (Some(properties), Value::Object(arguments)) = (properties, value) else { return false };
        properties.iter().fold(false, |changed, (name, schema)| decode_string(arguments, name, schema) || changed)
    }
}

/// Whether a property is optional.
fn is_optional(document: &Value, name: &str) -> bool {
    let required = document.get("required").and_then(Value::as_array);
    !required.is_some_and(|required| required.iter().any(|one| one == name))
}

/// Decodes a string argument that holds an array or object, if the schema accepts that and accepts no string.
fn decode_string(arguments: &mut Map<String, Value>, name: &str, schema: &Value) -> bool {
    let accepts = |kind: &str| schema_accepts(schema, kind);
    let Some(Value::String(text)) = arguments.get(name) else { return false };
    let decoded = match serde_json::from_str::<Value>(text) {
        Ok(decoded) if decoded.is_array() && accepts("array") => decoded,
        Ok(decoded) if decoded.is_object() && accepts("object") => decoded,
        _ => return false,
    };
    if accepts("string") {
        return false;
    }
    arguments.insert(name.to_owned(), decoded);
    true
}

fn tree(value: &Json) -> Result<Value, SchemaViolation> {
    value.to_value().map_err(|error| SchemaViolation { path: String::new(), message: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema(value: Value) -> Schema {
        Schema::compile(&Json::from(value)).unwrap()
    }

    fn admitted(schema: &Schema, arguments: Value) -> String {
        match schema.admit(&Json::from(arguments)) {
            Ok(None) => "unchanged".to_owned(),
            Ok(Some(decoded)) => decoded.to_string(),
            Err(fault) => fault.to_string(),
        }
    }

    #[test]
    fn violations_are_reported_with_their_path() {
        let schema = schema(json!({"type": "object", "required": ["who"], "properties":
            {"who": {"type": "object", "properties": {"age": {"type": "integer"}}}}}));
        assert_eq!(admitted(&schema, json!({"who": {"age": "x"}})), r#"at `/who/age`: "x" is not of type "integer""#);
        assert_eq!(admitted(&schema, json!({})), r#""who" is a required property"#);
        assert_eq!(admitted(&schema, json!({"who": {"age": 3}})), "unchanged");
        let huge = admitted(&schema, json!({"who": {"age": "x".repeat(100_000)}}));
        assert!(huge.len() < 400, "{}", huge.len());
    }

    #[test]
    fn strings_are_decoded_only_where_the_schema_requires_an_array_or_object() {
        let schema = schema(json!({"type": "object", "properties": {
            "list": {"type": "array"}, "map": {"type": ["object", "null"]}, "text": {"type": "string"},
            "either": {"type": ["string", "array"]}, "maybe": {"anyOf": [{"type": "array"}, {"type": "null"}]}}}));
        assert_eq!(admitted(&schema, json!({"maybe": "[3]"})), r#"{"maybe":[3]}"#);
        assert_eq!(admitted(&schema, json!({"list": "[1,2]", "text": "[1]"})), r#"{"list":[1,2],"text":"[1]"}"#);
        assert_eq!(admitted(&schema, json!({"map": "{\"a\":1}"})), r#"{"map":{"a":1}}"#);
        assert_eq!(admitted(&schema, json!({"either": "[1]"})), "unchanged");
        assert_eq!(admitted(&schema, json!({"list": "one"})), r#"at `/list`: "one" is not of type "array""#);
        assert_eq!(admitted(&schema, json!({"list": "{}"})), r#"at `/list`: "{}" is not of type "array""#);
    }

    #[test]
    fn null_is_removed_only_where_it_is_optional_and_invalid() {
        let schema = schema(json!({"type": "object", "required": ["must"], "properties": {"must": {"type": "string"},
            "may": {"type": "boolean"}, "null": {"type": ["string", "null"]}, "list": {"type": "array"}}}));
        let repaired = admitted(&schema, json!({"must": "x", "may": null, "null": null, "other": null}));
        assert_eq!(repaired, r#"{"must":"x","null":null,"other":null}"#);
        assert_eq!(admitted(&schema, json!({"must": "x", "null": null})), "unchanged");
        assert_eq!(admitted(&schema, json!({"must": null})), r#"at `/must`: null is not of type "string""#);
        let both = admitted(&schema, json!({"must": "x", "may": null, "list": "[1]"}));
        assert_eq!(both, r#"{"must":"x","list":[1]}"#);
    }

    #[test]
    fn external_references_and_endless_nesting_do_not_compile() {
        for reference in ["http://127.0.0.1:9/schema.json", "file:///etc/passwd"] {
            assert!(Schema::compile(&Json::from(json!({"$ref": reference}))).is_err(), "{reference}");
        }
        let deep = format!("{}{{}}{}", r#"{"not":"#.repeat(10_000), "}".repeat(10_000));
        assert!(Schema::compile(&Json::parse(deep).unwrap()).is_err());
    }

    #[test]
    fn patterns_run_in_linear_time() {
        let schema = schema(json!({"pattern": "^(a+)+$"}));
        assert!(schema.check(&Json::from(json!(format!("{}!", "a".repeat(50_000))))).is_err());
    }
}
