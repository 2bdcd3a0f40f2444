//! Arguments of tools and prompts, as typed on the command line.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use wharf::{Json, schema_accepts};

use crate::error::{UsageError, usage_error};

/// Reads one JSON object, or `key=value` pairs whose types the schema decides.
pub(crate) fn read(words: &[String], schema: Option<&Json>) -> Result<Json, UsageError> {
    match words {
        [] => Ok(Json::from(Value::Object(Map::new()))),
        [word] if word.trim_start().starts_with(['{', '[']) => json(word),
        pairs => pairs_of(pairs, schema),
    }
}

/// Reads one JSON object from a text.
pub(crate) fn json(text: &str) -> Result<Json, UsageError> {
    let hint = Some("expected one JSON object, for example '{\"a\": 1}'");
    let json =
        Json::parse(text).map_err(|error| usage_error(format!("invalid JSON in the arguments: {error}"), hint))?;
    if json.is_object() { Ok(json) } else { Err(usage_error("the arguments are not a JSON object".to_owned(), hint)) }
}

fn pairs_of(words: &[String], schema: Option<&Json>) -> Result<Json, UsageError> {
    let schema = schema.and_then(|schema| schema.to_value().ok()).unwrap_or_default();
    let typed = |(key, text)| (key, value(text, &schema["properties"][key]));
    let arguments: Vec<(&str, Json)> = pairs(words)?.into_iter().map(typed).collect();
    let json = Json::of(&Object(&arguments));
    json.map_err(|error| usage_error(format!("cannot write the arguments as JSON: {error}"), None))
}

/// Reads `key=value` pairs, each key once.
pub(crate) fn pairs(words: &[String]) -> Result<Vec<(&str, &str)>, UsageError> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for word in words {
        let Some((key, text)) = word.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(if word.trim_start().starts_with('{') {
                usage_error("cannot mix JSON and key=value arguments".to_owned(), None)
            } else {
                let hint = "write key=value, or all arguments as one JSON object";
                usage_error(format!("invalid argument `{word}`: expected key=value"), Some(hint))
            });
        };
        if pairs.iter().any(|(other, _)| *other == key) {
            return Err(usage_error(format!("duplicate argument `{key}`"), None));
        }
        pairs.push((key, text));
    }
    Ok(pairs)
}

/// Pairs as an object, with every value as typed: a number may exceed any number type.
struct Object<'a>(&'a [(&'a str, Json)]);

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// Parses a value: text where the schema accepts a string, otherwise JSON if it is valid.
fn value(text: &str, schema: &Value) -> Json {
    let as_text = || Json::from(Value::String(text.to_owned()));
    if schema_accepts(schema, "string") { as_text() } else { Json::parse(text).unwrap_or_else(|_| as_text()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wharf::{Item as _, Tool};

    fn outcome(words: &[&str]) -> String {
        let tool = r#"{"name":"t","inputSchema":{"properties":{"s":{"type":"string"},"n":{"type":"integer"},"l":{"type":"array"},"o":{"anyOf":[{"type":"string"},{"type":"null"}]}}}}"#;
        let tool = Tool::from_json(&Json::parse(tool).unwrap()).unwrap();
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match read(&words, Some(&tool.input_schema)) {
            Ok(json) => json.to_string(),
            Err(error) => error.message,
        }
    }

    #[test]
    fn the_schema_decides_the_type_of_a_value() {
        assert_eq!(outcome(&["s=12", "n=12", "l=[1,\"a\"]"]), r#"{"s":"12","n":12,"l":[1,"a"]}"#);
        assert_eq!(
            outcome(&["other=true", "text=hello world", "s=a=b"]),
            r#"{"other":true,"text":"hello world","s":"a=b"}"#
        );
        assert_eq!(outcome(&[r#"{"n": 1.0}"#]), r#"{"n": 1.0}"#);
        assert_eq!(outcome(&["n=12345678901234567890123"]), r#"{"n":12345678901234567890123}"#);
        assert_eq!(outcome(&["o=12"]), r#"{"o":"12"}"#);
        assert_eq!(outcome(&[]), "{}");
    }

    #[test]
    fn invalid_arguments_are_rejected_with_a_reason() {
        assert_eq!(outcome(&["s"]), "invalid argument `s`: expected key=value");
        assert_eq!(outcome(&["=x"]), "invalid argument `=x`: expected key=value");
        assert_eq!(outcome(&["{}", "s=1"]), "cannot mix JSON and key=value arguments");
        assert_eq!(outcome(&["s=1", "s=2"]), "duplicate argument `s`");
        assert_eq!(outcome(&["[1]"]), "the arguments are not a JSON object");
        assert!(outcome(&["{"]).starts_with("invalid JSON in the arguments"));
    }
}
