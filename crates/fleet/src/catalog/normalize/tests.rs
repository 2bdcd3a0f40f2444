use super::*;
use wharf_client::Schema;

fn shown(schema: Value) -> String {
    match normalize(&Json::from(schema)) {
        NormalizedSchema::Same => "unchanged".to_owned(),
        NormalizedSchema::Changed(schema, notes) => format!("{schema}\n{}", notes.join("\n")),
        NormalizedSchema::Unusable(reason) => format!("unusable: {reason}"),
    }
}

#[test]
fn a_schema_that_every_api_accepts_stays_unchanged() {
    for schema in [
        json!({"type": "object", "properties": {}}),
        json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}),
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/tree"}},
            "$defs": {"tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}}}}}),
    ] {
        assert_eq!(shown(schema), "unchanged");
    }
}

#[test]
fn an_incomplete_root_is_completed() {
    assert!(shown(json!(true)).starts_with(r#"{"type":"object","properties":{}}"#));
    assert!(shown(json!({})).starts_with(r#"{"type":"object","properties":{}}"#));
    insta::assert_snapshot!(shown(json!({"type": "object"})), @r#"
    {"type":"object","properties":{}}
    added `properties`
    "#);
    insta::assert_snapshot!(shown(json!({"type": ["object", "null"], "properties": {"a": {}}})), @r#"
    {"type":"object","properties":{"a":{}}}
    changed the type from ["object","null"]
    "#);
}

#[test]
fn alternatives_become_one_object_that_describes_them() {
    insta::assert_snapshot!(shown(json!({"description": "Finds things.", "oneOf": [
        {"type": "object", "properties": {"id": {"type": "integer"}, "deep": {"type": "boolean"}}, "required": ["id", "deep"]},
        {"type": "object", "properties": {"id": {"type": "string"}, "deep": {"type": "boolean"}}, "required": ["deep"]},
        {"type": "null"}]})), @r#"
    {"description":"Finds things.\nGive the arguments of one of these: `id`, `deep`; or `deep`.","properties":{"id":{"anyOf":[{"type":"integer"},{"type":"string"}]},"deep":{"type":"boolean"}},"required":["deep"],"type":"object"}
    merged `oneOf` at the root
    "#);
    insta::assert_snapshot!(shown(json!({"properties": {"kind": {"type": "string"}}, "required": ["kind"], "anyOf": [
        {"$ref": "#/$defs/a"}, {"title": "by b", "required": ["b"], "properties": {"b": {}, "kind": {"const": "b"}}}],
        "$defs": {"a": {"required": ["a"], "properties": {"a": {"type": "string"}}}}})), @r#"
    {"required":["kind"],"$defs":{"a":{"required":["a"],"properties":{"a":{"type":"string"}}}},"description":"Give the arguments of one of these: `a`; or by b (`b`).","properties":{"kind":{"anyOf":[{"type":"string"},{"const":"b"}]},"a":{"type":"string"},"b":{}},"type":"object"}
    merged `anyOf` at the root
    "#);
    insta::assert_snapshot!(shown(json!({"allOf": [{"required": ["a"], "properties": {"a": {"type": "string"}}},
        {"required": ["b"], "properties": {"b": {}, "a": {"minLength": 1}}}]})), @r#"
    {"properties":{"a":{"allOf":[{"type":"string"},{"minLength":1}]},"b":{}},"required":["a","b"],"type":"object"}
    merged `allOf` at the root
    "#);
}

#[test]
fn several_schemas_of_a_property_are_combined_once() {
    insta::assert_snapshot!(shown(json!({"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a", "a"]},
        {"properties": {"a": {"minLength": 1}}}, {"properties": {"a": {"maxLength": 3}}, "required": ["b", "a"]},
        {"properties": {"a": {"minLength": 1}}}]})), @r#"
    {"properties":{"a":{"allOf":[{"type":"string"},{"minLength":1},{"maxLength":3}]}},"required":["a","b"],"type":"object"}
    merged `allOf` at the root
    "#);
    insta::assert_snapshot!(shown(json!({"properties": {"a": {"const": 0}, "z": {}}, "anyOf": [
        {"properties": {"a": {"const": 1}, "b": {}}, "required": ["b", "a"]},
        {"properties": {"a": {"const": 2}, "z": {"const": 3}}, "required": ["a", "a"]}]})), @r#"
    {"description":"Give the arguments of one of these: `b`, `a`; or `a`, `a`.","properties":{"a":{"anyOf":[{"const":1},{"const":2}]},"z":{"anyOf":[{},{"const":3}]},"b":{}},"required":["a"],"type":"object"}
    merged `anyOf` at the root
    "#);
}

#[test]
fn alternatives_that_copy_a_large_definition_are_not_merged() {
    let schema = |parts: usize| {
        let parts = vec![json!({"$ref": "#/$defs/a"}); parts];
        json!({"allOf": parts, "$defs": {"a": {"properties": {"a": {"description": "a".repeat(20_000)}}}}})
    };
    assert!(shown(schema(3)).contains("merged `allOf` at the root"));
    assert_eq!(shown(schema(90)), "unusable: merging its alternatives would take too much work");
}

#[test]
fn a_schema_of_many_megabytes_is_not_parsed() {
    // It is nested too deeply, which parsing would report.
    let deep = format!("{}{{}}{}", r#"{"not":"#.repeat(10_000), "}".repeat(10_000));
    let long = format!("{{\"a\":\"{}\",\"b\":{deep}}}", "a".repeat(5 << 20));
    assert_eq!(
        normalize(&Json::parse(long).unwrap()),
        NormalizedSchema::Unusable("it has more than 4194304 bytes".to_owned())
    );
}

#[test]
fn a_root_reference_is_replaced_by_its_target() {
    insta::assert_snapshot!(shown(json!({"$ref": "#/$defs/in",
        "$defs": {"in": {"type": "object", "properties": {"a": {"$ref": "#/$defs/in"}}}}})), @r##"
    {"$defs":{"in":{"type":"object","properties":{"a":{"$ref":"#/$defs/in"}}}},"type":"object","properties":{"a":{"$ref":"#/$defs/in"}}}
    resolved `$ref` to `#/$defs/in` at the root
    "##);
}

#[test]
fn an_unusable_schema_has_a_reason() {
    let all = [
        json!(false),
        json!({"type": "string"}),
        json!({"type": ["array", "null"]}),
        json!({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}}),
        json!({"type": "object", "properties": {"a": {"items": {"$ref": "file:///etc/passwd"}}}}),
        json!({"$ref": "#/$defs/none"}),
        json!({"$ref": "#"}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        json!({"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}),
        json!({"anyOf": vec![json!({"$ref": "#/$defs/a"}); 9], "$defs": {"a": {"anyOf": vec![json!({"$ref": "#/$defs/b"}); 9]},
            "b": {"anyOf": vec![json!({"type": "object"}); 9]}}}),
        json!({"type": "object", "properties": {"a": {"type": "text"}}}),
        json!({"type": "object", "properties": []}),
        json!({"type": "object", "properties": {"a": "string"}}),
        json!({"type": "object", "required": "a"}),
    ];
    insta::assert_snapshot!(all.map(shown).join("\n"), @r#"
    unusable: it accepts nothing
    unusable: its type is "string", but arguments are an object
    unusable: its type is ["array","null"], but arguments are an object
    unusable: at `/properties/a`: external `$ref` to `http://127.0.0.1:9/schema.json` is not supported
    unusable: at `/properties/a/items`: external `$ref` to `file:///etc/passwd` is not supported
    unusable: `$ref` to `#/$defs/none` has no target
    unusable: `$ref` to `#` has no target
    unusable: the root refers to itself
    unusable: none of the alternatives in `anyOf` is an object
    unusable: its alternatives refer to themselves
    unusable: it has more than 100 alternatives
    unusable: at `/properties/a`: invalid type "text"
    unusable: `properties` is not an object of schemas
    unusable: at `/properties/a`: not a schema
    unusable: `required` is not a list of names
    "#);
    let deep = format!("{}{{}}{}", r#"{"not":"#.repeat(10_000), "}".repeat(10_000));
    assert_eq!(
        normalize(&Json::parse(deep).unwrap()),
        NormalizedSchema::Unusable("nested deeper than 128 levels".to_owned())
    );
}

#[tokio::test]
async fn a_merged_schema_compiles_and_accepts_what_the_alternatives_accept() {
    let schema = json!({"oneOf": [
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false},
        {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"], "additionalProperties": false}]});
    let NormalizedSchema::Changed(shown, _) = normalize(&Json::from(schema)) else { panic!("it is not changed") };
    let shown = std::sync::Arc::new(Schema::compile(&shown).unwrap());
    for arguments in [json!({"a": "x"}), json!({"b": 1})] {
        assert!(shown.check(&Json::from(arguments)).await.is_ok());
    }
    assert!(shown.check(&Json::from(json!({"c": 1}))).await.is_err());
}
