//! Changes single fields of a provider's JSON, and leaves all other bytes unchanged.

use wharf_protocol::Json;

/// Replaces a field of an object, or appends it.
pub(in super::super) fn with_field(object: &Json, key: &str, value: &Json) -> Json {
    if let Some(changed) = object.with_values(|name, _| (name == key).then(|| value.clone())) {
        return changed;
    }
    let whole = object.as_str();
    let inner = whole[..whole.len().saturating_sub(1)].trim_end();
    let comma = if inner == "{" { "" } else { "," };
    let key = serde_json::Value::from(key);
    Json::parse(format!("{inner}{comma}{key}:{value}}}")).unwrap_or_else(|_| object.clone())
}

/// Converts text to an object: an object as it is, empty text to `{}`, and other text wrapped in an object, because
/// providers accept nothing but objects.
pub(in super::super) fn object_of(text: &str) -> Json {
    if text.trim().is_empty() {
        return Json::from(serde_json::json!({}));
    }
    match Json::parse(text) {
        Ok(json) if json.is_object() => json,
        _ => Json::from(serde_json::json!({ INVALID_JSON: text })),
    }
}

/// Returns the arguments as the model wrote them: invalid text that was wrapped in an object becomes a JSON string.
pub(in super::super) fn unwrap_invalid(input: Json) -> Json {
    match input.as_str().contains(INVALID_JSON).then(|| input.decode::<Wrapped>()) {
        Some(Ok(Wrapped { text })) => Json::of(&text).unwrap_or(input),
        _ => input,
    }
}

/// Returns arguments as an object that providers accept.
pub(in super::super) fn as_object(arguments: &Json) -> Json {
    match arguments.decode::<String>() {
        Ok(text) => object_of(&text),
        Err(_) => object_of(arguments.as_str()),
    }
}

/// The key that Anthropic's documentation uses for input that is not JSON.
const INVALID_JSON: &str = "INVALID_JSON";

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrapped {
    #[serde(rename = "INVALID_JSON")]
    text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_replaced_or_appended_and_nothing_else_changes() {
        let set =
            |text: &str| with_field(&Json::parse(text).unwrap(), "a", &Json::parse("[1, 2]").unwrap()).to_string();
        assert_eq!(set(r#"{ "b":1.50, "a" : null }"#), r#"{ "b":1.50, "a" : [1, 2] }"#);
        assert_eq!(set(r#"{ "b":{"c":{}}}"#), r#"{ "b":{"c":{}},"a":[1, 2]}"#);
        assert_eq!(set(r#"{ "b":1 }"#), r#"{ "b":1,"a":[1, 2]}"#);
        assert_eq!(set(r#"{ "b":"}" }"#), r#"{ "b":"}","a":[1, 2]}"#);
        assert_eq!(set("{ }"), r#"{"a":[1, 2]}"#);
        assert_eq!(set("{}"), r#"{"a":[1, 2]}"#);
    }

    #[test]
    fn invalid_arguments_are_wrapped_in_an_object_and_restored_as_text() {
        for (text, object, written) in [
            ("", "{}", "{}"),
            (r#"{"a" : 1.0}"#, r#"{"a" : 1.0}"#, r#"{"a" : 1.0}"#),
            (r#"{"a": "#, r#"{"INVALID_JSON":"{\"a\": "}"#, r#""{\"a\": ""#),
            ("[1]", r#"{"INVALID_JSON":"[1]"}"#, r#""[1]""#),
        ] {
            assert_eq!(object_of(text).as_str(), object);
            assert_eq!(unwrap_invalid(object_of(text)).as_str(), written);
            assert_eq!(as_object(&unwrap_invalid(object_of(text))).as_str(), object);
        }
    }
}
