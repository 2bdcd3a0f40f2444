//! Arguments of tools and prompts, as typed on the command line.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use wharf::{Json, nearest, schema_accepts};

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

/// An argument that a schema does not know.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnknownArgument {
    pub(crate) name: String,
    /// The argument that may be meant.
    pub(crate) near: Option<String>,
}

/// Returns the arguments that a schema does not know. A schema that says what else it accepts knows them all.
pub(crate) fn unknown(arguments: &Json, schema: &Json) -> Vec<UnknownArgument> {
    const COMBINING: [&str; 5] = ["patternProperties", "anyOf", "oneOf", "allOf", "$ref"];
    let schema = schema.to_value().unwrap_or_default();
    let accepts_others = matches!(&schema["additionalProperties"], Value::Bool(true) | Value::Object(_));
    let is_combined = COMBINING.iter().any(|key| schema.get(*key).is_some());
    let (Some(known), false, false) = (schema["properties"].as_object(), accepts_others, is_combined) else {
        return Vec::new();
    };
    let Ok(Value::Object(arguments)) = arguments.to_value() else { return Vec::new() };
    let unknown = |name: &String| {
        // An argument that is given as well is not the one that was meant.
        let candidates = known.keys().filter(|known| !arguments.contains_key(known.as_str())).map(String::as_str);
        UnknownArgument { name: name.clone(), near: nearest(name, candidates).map(str::to_owned) }
    };
    arguments.keys().filter(|name| !known.contains_key(name.as_str())).map(unknown).collect()
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

    #[test]
    fn arguments_that_the_schema_does_not_know_are_found_with_the_nearest_one() {
        let unknown = |arguments: Value, schema: Value| {
            let found = unknown(&arguments.into(), &schema.into());
            found.into_iter().map(|found| (found.name, found.near)).collect::<Vec<_>>()
        };
        let schema = serde_json::json!({"properties": {"message": {}, "count": {}}});
        let near = |name: &str, near: &str| (name.to_owned(), Some(near.to_owned()));
        assert_eq!(unknown(serde_json::json!({"mesage": 1, "count": 2}), schema.clone()), [near("mesage", "message")]);
        assert_eq!(unknown(serde_json::json!({"zzz": 1}), schema.clone()), [("zzz".to_owned(), None)]);
        assert_eq!(unknown(serde_json::json!({"message": 1, "mesage": 2}), schema), [("mesage".to_owned(), None)]);
        let open = serde_json::json!({"properties": {"a": {}}, "additionalProperties": true});
        for open in [Value::Object(Map::new()), open] {
            assert_eq!(unknown(serde_json::json!({"b": 1}), open), []);
        }
    }
}
