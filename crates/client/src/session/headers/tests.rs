use proptest::prelude::*;
use serde_json::json;

use super::*;

/// What a schema's marks come to: the headers, or why not.
fn marks(schema: Value) -> Result<Vec<String>, String> {
    let marked = Marked::read(&schema.into())?;
    Ok(marked.0.iter().map(|(name, path)| format!("{name} = {}", path.join("."))).collect())
}

fn object(properties: &Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn region(kind: &Value, mark: &Value) -> Value {
    object(&json!({"region": {"type": kind, "x-mcp-header": mark}}))
}

#[test]
fn marks_are_followed_along_properties() {
    let schema = object(&json!({
        "plain": {"type": "string"},
        "region": {"type": "string", "x-mcp-header": "Region"},
        "deep": {"type": "object", "properties": {"er": {"type": "object", "properties": {
            "count": {"type": "integer", "x-mcp-header": "X-Count"},
            "sure": {"type": "boolean", "x-mcp-header": "sure!#$%&'*+-.^_`|~9"},
        }}}},
    }));
    let expected = [
        "mcp-param-region = region",
        "mcp-param-x-count = deep.er.count",
        "mcp-param-sure!#$%&'*+-.^_`|~9 = deep.er.sure",
    ];
    assert_eq!(marks(schema).unwrap(), expected);
    assert_eq!(marks(json!({"type": "object"})).unwrap(), Vec::<String>::new());
    assert_eq!(marks(json!(true)).unwrap(), Vec::<String>::new());
}

#[test]
fn a_mark_is_the_name_of_a_header_for_a_plain_value() {
    for kind in ["string", "integer", "boolean"] {
        assert_eq!(marks(region(&json!(kind), &json!("R"))).unwrap(), ["mcp-param-r = region"]);
    }
    let kinds = [json!("number"), json!("object"), json!("array"), json!("null"), json!(["string"]), json!(null)];
    for kind in kinds {
        assert!(marks(region(&kind, &json!("R"))).unwrap_err().contains("no string, integer or boolean"), "{kind}");
    }
    assert!(marks(object(&json!({"region": {"x-mcp-header": "R"}}))).is_err());
    for mark in [json!(7), json!(null), json!(["R"]), json!({"name": "R"}), json!(true)] {
        assert!(marks(region(&json!("string"), &mark)).unwrap_err().contains("no text"), "{mark}");
    }
    for mark in ["", " ", "a b", "a:b", "ä", "a\r\nb", "a,b", "(a)", "a/b", "\"a\"", "a\u{0}"] {
        let reason = marks(region(&json!("string"), &json!(mark))).unwrap_err();
        assert!(reason.contains("no name of a header"), "{mark}: {reason}");
    }
}

#[test]
fn a_mark_that_no_path_of_properties_leads_to_spoils_its_tool() {
    let marked = json!({"type": "string", "x-mcp-header": "R"});
    let inside = object(&json!({"region": marked}));
    let schemas = [
        json!({"type": "object", "x-mcp-header": "R"}),
        object(&json!({"list": {"type": "array", "items": marked}})),
        object(&json!({"list": {"type": "array", "prefixItems": [marked]}})),
        json!({"allOf": [inside]}),
        json!({"anyOf": [inside]}),
        json!({"oneOf": [inside]}),
        json!({"not": inside}),
        json!({"if": inside}),
        json!({"then": inside}),
        json!({"else": inside}),
        json!({"additionalProperties": marked}),
        json!({"patternProperties": {"^r": marked}}),
        json!({"dependentSchemas": {"x": inside}}),
        json!({"$defs": {"region": marked}}),
        json!({"definitions": {"region": marked}}),
        json!({"unknown": {"deep": inside}}),
    ];
    for schema in schemas {
        assert!(marks(schema.clone()).unwrap_err().contains("by properties alone"), "{schema}");
    }
}

#[test]
fn what_only_looks_like_a_mark_spoils_nothing() {
    let data = json!({"x-mcp-header": "R"});
    let schemas = [
        object(&json!({"x": {"type": "object", "default": data, "const": data, "enum": [data], "examples": [data]}})),
        object(&json!({"x": {"type": "string", "description": "says x-mcp-header"}})),
        // A property of that name.
        object(&json!({"x-mcp-header": {"type": "string"}})),
        json!({"type": "object", "dependentRequired": {"x-mcp-header": ["a"]}, "required": ["x-mcp-header"]}),
        json!({"$ref": "#/$defs/x", "$defs": {"x": {"type": "string"}}, "$comment": "x-mcp-header"}),
    ];
    for schema in schemas {
        assert_eq!(marks(schema.clone()), Ok(Vec::new()), "{schema}");
    }
    let twice = object(&json!({
        "a": {"type": "string", "x-mcp-header": "Region"},
        "b": {"type": "string", "x-mcp-header": "rEGION"},
    }));
    assert!(marks(twice).unwrap_err().contains("a second time"));
}

#[test]
fn arguments_are_said_as_they_are_and_what_is_no_plain_value_is_not() {
    let schema = object(&json!({
        "text": {"type": "string", "x-mcp-header": "Text"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "sure": {"type": "boolean", "x-mcp-header": "Sure"},
        "deep": object(&json!({"er": {"type": "string", "x-mcp-header": "Deeper"}})),
    }));
    let marked = Marked::read(&schema.into()).unwrap();
    let said = |arguments: &str| {
        let headers = marked.headers(&Json::parse(arguments).unwrap());
        let mut said: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        said.sort();
        said.join(", ")
    };
    let all = r#"{"text":"a b","count":-7,"sure":false,"deep":{"er":"x"}}"#;
    let expected = "mcp-param-count: -7, mcp-param-deeper: x, mcp-param-sure: false, mcp-param-text: a b";
    assert_eq!(said(all), expected);
    assert_eq!(said(r#"{"text":null,"count":null,"deep":{}}"#), "");
    assert_eq!(said(r#"{"text":{"a":1},"count":[1],"deep":"er"}"#), "");
    assert_eq!(said(r#"{"text":""}"#), "mcp-param-text: ");
    assert_eq!(said(r#"{"text":"\u00e4"}"#), "mcp-param-text: =?base64?w6Q=?=");
    // As those who read the body into numbers would write them.
    for (number, expected) in [
        ("42", "42"),
        ("42.0", "42.0"),
        ("1e3", "1000.0"),
        ("1E+2", "100.0"),
        ("9007199254740993", "9007199254740993"),
        ("18446744073709551615", "18446744073709551615"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("-0", "-0.0"),
    ] {
        assert_eq!(said(&format!(r#"{{"count":{number}}}"#)), format!("mcp-param-count: {expected}"));
    }
}

#[test]
fn what_would_not_come_through_goes_in_base64() {
    for plain in
        ["", "a", "us-west-1", "a b", "=?base64?", "?=", "=?BASE64?YQ==?=", "=?base64?YQ==", "x=?base64?YQ==?=", "~"]
    {
        assert_eq!(encoded(plain), plain);
    }
    for (text, expected) in [
        (" a", "=?base64?IGE=?="),
        ("a ", "=?base64?YSA=?="),
        (" ", "=?base64?IA==?="),
        ("a\tb", "=?base64?YQli?="),
        ("a\nb", "=?base64?YQpi?="),
        ("ä", "=?base64?w6Q=?="),
        ("\u{7f}", "=?base64?fw==?="),
        ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
        ("=?base64??=", "=?base64?PT9iYXNlNjQ/Pz0=?="),
        // Both ends of it are the same two letters.
        ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
    ] {
        assert_eq!(encoded(text), expected);
    }
}

/// What a server makes of a header.
fn decoded(value: &HeaderValue) -> String {
    let text = value.to_str().unwrap();
    let inside = text.strip_prefix(SENTINEL.0).and_then(|rest| rest.strip_suffix(SENTINEL.1));
    inside.map_or_else(|| text.to_owned(), |inside| String::from_utf8(BASE64_STANDARD.decode(inside).unwrap()).unwrap())
}

/// Text that looks like what is written in base64, is almost plain, or is anything at all.
fn troubling() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("=?base64?".to_owned()),
        Just("?=".to_owned()),
        Just("YQ==".to_owned()),
        "[ \t\r\n\u{a0}\u{7f}\u{0}]",
        "[ -~]{0,8}",
        any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn every_text_comes_through(text in troubling()) {
        let value = encoded(&text);
        prop_assert!(value.as_bytes().iter().all(|byte| matches!(byte, b' '..=b'~')));
        prop_assert_eq!(value.to_str().unwrap().trim(), value.to_str().unwrap());
        prop_assert_eq!(decoded(&value), text);
    }

    #[test]
    fn a_header_has_no_end_of_line_in_it_however_the_mark_and_the_value_look(mark in troubling(), text in troubling()) {
        let schema = region(&json!("string"), &json!(mark));
        if let Ok(marked) = Marked::read(&schema.into()) {
            let headers = marked.headers(&json!({"region": text}).into());
            prop_assert_eq!(headers.len(), 1);
            for (name, value) in &headers {
                prop_assert!(name.as_str().starts_with("mcp-param-") && name.as_str().len() > "mcp-param-".len());
                prop_assert_eq!(decoded(value), text.clone());
            }
        }
    }
}
