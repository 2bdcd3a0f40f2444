use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Returns the headers of a schema's annotations as text.
fn annotations(schema: Value) -> Result<Vec<String>, String> {
    let headers = ParamHeaders::read(&schema.into())?;
    Ok(headers.0.iter().map(|(name, path)| format!("{name} = {}", path.join("."))).collect())
}

fn object(properties: &Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn region(kind: &Value, annotation: &Value) -> Value {
    object(&json!({"region": {"type": kind, "x-mcp-header": annotation}}))
}

#[test]
fn the_number_and_the_paths_of_annotations_are_limited() {
    let many = |count: usize| {
        let one =
            |number: usize| (format!("a{number}"), json!({"type": "string", "x-mcp-header": format!("a{number}")}));
        Value::Object((0..count).map(one).collect())
    };
    assert_eq!(annotations(object(&many(64))).unwrap().len(), 64);
    assert_eq!(annotations(object(&many(65))).unwrap_err(), "has more than 64 `x-mcp-header`");
    let long = object(&json!({"a".repeat(5_000): {"type": "object", "properties": many(2)}}));
    assert_eq!(annotations(long).unwrap_err(), "has `x-mcp-header` at a path of more than 4096 bytes");
    let large = json!({"description": "a".repeat(5 << 20), "x-mcp-header": "a"});
    assert!(annotations(large).unwrap_err().contains("bytes"));
}

#[test]
fn annotations_are_read_along_nested_properties() {
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
    assert_eq!(annotations(schema).unwrap(), expected);
    assert_eq!(annotations(json!({"type": "object"})).unwrap(), Vec::<String>::new());
    assert_eq!(annotations(json!(true)).unwrap(), Vec::<String>::new());
}

#[test]
fn an_annotation_is_a_header_name_on_a_string_integer_or_boolean() {
    for kind in ["string", "integer", "boolean"] {
        assert_eq!(annotations(region(&json!(kind), &json!("R"))).unwrap(), ["mcp-param-r = region"]);
    }
    let kinds = [json!("number"), json!("object"), json!("array"), json!("null"), json!(["string"]), json!(null)];
    for kind in kinds {
        assert!(
            annotations(region(&kind, &json!("R"))).unwrap_err().contains("not a string, integer or boolean"),
            "{kind}"
        );
    }
    assert!(annotations(object(&json!({"region": {"x-mcp-header": "R"}}))).is_err());
    for annotation in [json!(7), json!(null), json!(["R"]), json!({"name": "R"}), json!(true)] {
        assert!(
            annotations(region(&json!("string"), &annotation)).unwrap_err().contains("not a string"),
            "{annotation}"
        );
    }
    for annotation in ["", " ", "a b", "a:b", "ä", "a\r\nb", "a,b", "(a)", "a/b", "\"a\"", "a\u{0}"] {
        let reason = annotations(region(&json!("string"), &json!(annotation))).unwrap_err();
        assert!(reason.contains("not a valid header name"), "{annotation}: {reason}");
    }
}

#[test]
fn an_annotation_outside_plain_properties_is_an_error() {
    let annotated = json!({"type": "string", "x-mcp-header": "R"});
    let inside = object(&json!({"region": annotated}));
    let schemas = [
        json!({"type": "object", "x-mcp-header": "R"}),
        object(&json!({"list": {"type": "array", "items": annotated}})),
        object(&json!({"list": {"type": "array", "prefixItems": [annotated]}})),
        json!({"allOf": [inside]}),
        json!({"anyOf": [inside]}),
        json!({"oneOf": [inside]}),
        json!({"not": inside}),
        json!({"if": inside}),
        json!({"then": inside}),
        json!({"else": inside}),
        json!({"additionalProperties": annotated}),
        json!({"patternProperties": {"^r": annotated}}),
        json!({"dependentSchemas": {"x": inside}}),
        json!({"$defs": {"region": annotated}}),
        json!({"definitions": {"region": annotated}}),
        json!({"unknown": {"deep": inside}}),
    ];
    for schema in schemas {
        assert!(annotations(schema.clone()).unwrap_err().contains("not a plain property"), "{schema}");
    }
}

#[test]
fn values_and_names_that_look_like_annotations_are_ignored() {
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
        assert_eq!(annotations(schema.clone()), Ok(Vec::new()), "{schema}");
    }
    let twice = object(&json!({
        "a": {"type": "string", "x-mcp-header": "Region"},
        "b": {"type": "string", "x-mcp-header": "rEGION"},
    }));
    assert!(annotations(twice).unwrap_err().contains("twice"));
}

#[test]
fn plain_arguments_become_headers_and_other_values_do_not() {
    let schema = object(&json!({
        "text": {"type": "string", "x-mcp-header": "Text"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "sure": {"type": "boolean", "x-mcp-header": "Sure"},
        "deep": object(&json!({"er": {"type": "string", "x-mcp-header": "Deeper"}})),
    }));
    let annotated = ParamHeaders::read(&schema.into()).unwrap();
    let headers_of = |arguments: &str| {
        let headers = annotated.headers(&Json::parse(arguments).unwrap());
        let mut lines: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        lines.join(", ")
    };
    let all = r#"{"text":"a b","count":-7,"sure":false,"deep":{"er":"x"}}"#;
    let expected = "mcp-param-count: -7, mcp-param-deeper: x, mcp-param-sure: false, mcp-param-text: a b";
    assert_eq!(headers_of(all), expected);
    assert_eq!(headers_of(r#"{"text":null,"count":null,"deep":{}}"#), "");
    assert_eq!(headers_of(r#"{"text":{"a":1},"count":[1],"deep":"er"}"#), "");
    assert_eq!(headers_of(r#"{"text":""}"#), "mcp-param-text: ");
    assert_eq!(headers_of(r#"{"text":"\u00e4"}"#), "mcp-param-text: =?base64?w6Q=?=");
    // Formatted as a server that parsed the body would format them.
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
        assert_eq!(headers_of(&format!(r#"{{"count":{number}}}"#)), format!("mcp-param-count: {expected}"));
    }
}

#[test]
fn text_that_would_not_arrive_unchanged_is_encoded_in_base64() {
    for plain in
        ["", "a", "us-west-1", "a b", "=?base64?", "?=", "=?BASE64?YQ==?=", "=?base64?YQ==", "x=?base64?YQ==?=", "~"]
    {
        assert_eq!(encode(plain), plain);
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
        // The prefix and the suffix overlap.
        ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
    ] {
        assert_eq!(encode(text), expected);
    }
}

/// Decodes a header as a server does.
fn decoded(value: &HeaderValue) -> String {
    let text = value.to_str().unwrap();
    let inside = text.strip_prefix(BASE64_PREFIX).and_then(|rest| rest.strip_suffix(BASE64_SUFFIX));
    inside.map_or_else(|| text.to_owned(), |inside| String::from_utf8(BASE64_STANDARD.decode(inside).unwrap()).unwrap())
}

/// Generates text that resembles encoded values, is almost plain, or is arbitrary.
fn tricky_text() -> impl Strategy<Value = String> {
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
    fn every_text_survives_encoding(text in tricky_text()) {
        let value = encode(&text);
        prop_assert!(value.as_bytes().iter().all(|byte| matches!(byte, b' '..=b'~')));
        prop_assert_eq!(value.to_str().unwrap().trim(), value.to_str().unwrap());
        prop_assert_eq!(decoded(&value), text);
    }

    #[test]
    fn headers_never_contain_line_breaks(name in tricky_text(), text in tricky_text()) {
        let schema = region(&json!("string"), &json!(name));
        if let Ok(annotated) = ParamHeaders::read(&schema.into()) {
            let headers = annotated.headers(&json!({"region": text}).into());
            prop_assert_eq!(headers.len(), 1);
            for (header, value) in &headers {
                prop_assert!(header.as_str().starts_with("mcp-param-") && header.as_str().len() > "mcp-param-".len());
                prop_assert_eq!(decoded(value), text.clone());
            }
        }
    }
}
