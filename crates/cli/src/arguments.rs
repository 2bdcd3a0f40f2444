//! The arguments of a tool, as people type them.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use wharf::{Json, schema_accepts};

use crate::servers::Misuse;

/// Reads one JSON object, or `key=value` pairs with the tool's schema to say what each value is.
pub(crate) fn read(words: &[String], schema: Option<&Json>) -> Result<Json, Misuse> {
    match words {
        [] => Ok(Json::from(Value::Object(Map::new()))),
        [word] if word.trim_start().starts_with(['{', '[']) => json(word),
        pairs => pairs_of(pairs, schema),
    }
}

/// Reads one JSON object from a text.
pub(crate) fn json(text: &str) -> Result<Json, Misuse> {
    let hint = Some("the arguments are one JSON object, for example '{\"a\": 1}'".to_owned());
    let json = Json::parse(text)
        .map_err(|error| Misuse { what: format!("the arguments are not JSON: {error}"), hint: hint.clone() })?;
    if json.is_object() { Ok(json) } else { Err(Misuse { what: "the arguments are JSON but no object".into(), hint }) }
}

fn pairs_of(words: &[String], schema: Option<&Json>) -> Result<Json, Misuse> {
    let schema = schema.and_then(|schema| schema.to_value().ok()).unwrap_or_default();
    let typed = |(key, text)| (key, value(text, &schema["properties"][key]));
    let arguments: Vec<(&str, Json)> = pairs(words)?.into_iter().map(typed).collect();
    let written = Json::of(&Object(&arguments));
    written.map_err(|error| Misuse { what: format!("the arguments cannot be written: {error}"), hint: None })
}

/// Reads `key=value` pairs, each key once.
pub(crate) fn pairs(words: &[String]) -> Result<Vec<(&str, &str)>, Misuse> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for word in words {
        let Some((key, text)) = word.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            let (what, hint) = if word.trim_start().starts_with('{') {
                ("JSON and key=value cannot be mixed".to_owned(), "give all arguments in one way")
            } else {
                (
                    format!("the argument `{word}` is not key=value"),
                    "write key=value, or all arguments as one JSON object",
                )
            };
            return Err(Misuse { what, hint: Some(hint.to_owned()) });
        };
        if pairs.iter().any(|(other, _)| *other == key) {
            return Err(Misuse { what: format!("the argument `{key}` is given twice"), hint: None });
        }
        pairs.push((key, text));
    }
    Ok(pairs)
}

/// Pairs as an object, every value exactly as it was typed: a number may be larger than any number type.
struct Object<'a>(&'a [(&'a str, Json)]);

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// A value is text where the schema wants text, and JSON, if it is any, everywhere else.
fn value(text: &str, schema: &Value) -> Json {
    let as_text = || Json::from(Value::String(text.to_owned()));
    if schema_accepts(schema, "string") { as_text() } else { Json::parse(text).unwrap_or_else(|_| as_text()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wharf::{Item as _, Tool};

    fn told(words: &[&str]) -> String {
        let tool = r#"{"name":"t","inputSchema":{"properties":{"s":{"type":"string"},"n":{"type":"integer"},"l":{"type":"array"},"o":{"anyOf":[{"type":"string"},{"type":"null"}]}}}}"#;
        let tool = Tool::from_json(&Json::parse(tool).unwrap()).unwrap();
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match read(&words, Some(&tool.input_schema)) {
            Ok(json) => json.to_string(),
            Err(misuse) => misuse.what,
        }
    }

    #[test]
    fn values_are_what_the_schema_wants_them_to_be() {
        assert_eq!(told(&["s=12", "n=12", "l=[1,\"a\"]"]), r#"{"s":"12","n":12,"l":[1,"a"]}"#);
        assert_eq!(
            told(&["other=true", "text=hello world", "s=a=b"]),
            r#"{"other":true,"text":"hello world","s":"a=b"}"#
        );
        assert_eq!(told(&[r#"{"n": 1.0}"#]), r#"{"n": 1.0}"#);
        assert_eq!(told(&["n=12345678901234567890123"]), r#"{"n":12345678901234567890123}"#);
        assert_eq!(told(&["o=12"]), r#"{"o":"12"}"#);
        assert_eq!(told(&[]), "{}");
    }

    #[test]
    fn what_is_no_argument_says_why() {
        assert_eq!(told(&["s"]), "the argument `s` is not key=value");
        assert_eq!(told(&["=x"]), "the argument `=x` is not key=value");
        assert_eq!(told(&["{}", "s=1"]), "JSON and key=value cannot be mixed");
        assert_eq!(told(&["s=1", "s=2"]), "the argument `s` is given twice");
        assert_eq!(told(&["[1]"]), "the arguments are JSON but no object");
        assert!(told(&["{"]).starts_with("the arguments are not JSON"));
    }
}
