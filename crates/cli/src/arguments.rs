//! The arguments of a tool, as people type them.

use serde_json::{Map, Value};
use wharf::{Json, Tool, schema_accepts};

use crate::servers::Misuse;

/// Reads one JSON object, or `key=value` pairs with the tool's schema to say what each value is.
pub(crate) fn read(words: &[String], tool: Option<&Tool>) -> Result<Json, Misuse> {
    match words {
        [] => Ok(Json::from(Value::Object(Map::new()))),
        [word] if word.trim_start().starts_with(['{', '[']) => json(word),
        pairs => pairs_of(pairs, tool),
    }
}

/// Reads one JSON object from a text.
pub(crate) fn json(text: &str) -> Result<Json, Misuse> {
    let hint = Some("the arguments are one JSON object, for example '{\"a\": 1}'".to_owned());
    let json = Json::parse(text)
        .map_err(|error| Misuse { what: format!("the arguments are not JSON: {error}"), hint: hint.clone() })?;
    if json.is_object() { Ok(json) } else { Err(Misuse { what: "the arguments are JSON but no object".into(), hint }) }
}

fn pairs_of(pairs: &[String], tool: Option<&Tool>) -> Result<Json, Misuse> {
    let schema = tool.and_then(|tool| tool.input_schema.to_value().ok()).unwrap_or_default();
    let mut arguments = Map::new();
    for pair in pairs {
        let Some((key, text)) = pair.split_once('=') else {
            let hint = "write key=value, or give all arguments as one JSON object".to_owned();
            return Err(Misuse { what: format!("the argument `{pair}` has no `=`"), hint: Some(hint) });
        };
        if arguments.insert(key.to_owned(), value(text, &schema["properties"][key])).is_some() {
            return Err(Misuse { what: format!("the argument `{key}` is given twice"), hint: None });
        }
    }
    Ok(Json::from(Value::Object(arguments)))
}

/// A value is text where the schema wants text, and JSON, if it is any, everywhere else.
fn value(text: &str, schema: &Value) -> Value {
    let text_wanted = schema_accepts(schema, "string");
    let as_text = || Value::String(text.to_owned());
    if text_wanted { as_text() } else { serde_json::from_str(text).unwrap_or_else(|_| as_text()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wharf::Item as _;

    fn told(words: &[&str]) -> String {
        let tool = r#"{"name":"t","inputSchema":{"properties":{"s":{"type":"string"},"n":{"type":"integer"},"l":{"type":"array"},"o":{"anyOf":[{"type":"string"},{"type":"null"}]}}}}"#;
        let tool = Tool::from_json(&Json::parse(tool).unwrap()).unwrap();
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match read(&words, Some(&tool)) {
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
        assert_eq!(told(&["o=12"]), r#"{"o":"12"}"#);
        assert_eq!(told(&[]), "{}");
    }

    #[test]
    fn what_is_no_argument_says_why() {
        assert_eq!(told(&["s"]), "the argument `s` has no `=`");
        assert_eq!(told(&["s=1", "s=2"]), "the argument `s` is given twice");
        assert_eq!(told(&["[1]"]), "the arguments are JSON but no object");
        assert!(told(&["{"]).starts_with("the arguments are not JSON"));
    }
}
