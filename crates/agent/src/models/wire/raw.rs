//! Changing single fields of what a provider wrote, and leaving the rest of it byte for byte.

use wharf_protocol::Json;

/// The same object with one field written otherwise, or one more at its end.
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

/// A text that should be an object: as it is, `{}` where there is nothing, and where it is something else, the text
/// inside an object, because providers take back nothing but objects.
pub(in super::super) fn object_of(text: &str) -> Json {
    if text.trim().is_empty() {
        return Json::from(serde_json::json!({}));
    }
    match Json::parse(text) {
        Ok(json) if json.is_object() => json,
        _ => Json::from(serde_json::json!({ BROKEN: text })),
    }
}

/// What a model wrote as arguments, from the object that was made of it: broken text comes back as a JSON string, for
/// whoever may be able to make sense of it.
pub(in super::super) fn as_written(input: Json) -> Json {
    match input.as_str().contains(BROKEN).then(|| input.decode::<Broken>()) {
        Some(Ok(Broken { text })) => Json::of(&text).unwrap_or(input),
        _ => input,
    }
}

/// The other way: arguments as an object that providers take.
pub(in super::super) fn as_object(arguments: &Json) -> Json {
    match arguments.decode::<String>() {
        Ok(text) => object_of(&text),
        Err(_) => object_of(arguments.as_str()),
    }
}

/// The name that Anthropic's documentation gives to input which is no JSON.
const BROKEN: &str = "INVALID_JSON";

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Broken {
    #[serde(rename = "INVALID_JSON")]
    text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_changed_or_added_and_nothing_else() {
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
    fn broken_arguments_travel_in_an_object_and_come_back_as_text() {
        for (text, object, written) in [
            ("", "{}", "{}"),
            (r#"{"a" : 1.0}"#, r#"{"a" : 1.0}"#, r#"{"a" : 1.0}"#),
            (r#"{"a": "#, r#"{"INVALID_JSON":"{\"a\": "}"#, r#""{\"a\": ""#),
            ("[1]", r#"{"INVALID_JSON":"[1]"}"#, r#""[1]""#),
        ] {
            assert_eq!(object_of(text).as_str(), object);
            assert_eq!(as_written(object_of(text)).as_str(), written);
            assert_eq!(as_object(&as_written(object_of(text))).as_str(), object);
        }
    }
}
