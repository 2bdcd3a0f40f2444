use super::*;
use wharf_client::Schema;

fn shown(schema: Value) -> String {
    match normalize(&Json::from(schema)) {
        NormalizedSchema::Same => "as it is".to_owned(),
        NormalizedSchema::Changed(schema, notes) => format!("{schema}\n{}", notes.join("\n")),
        NormalizedSchema::Unusable(reason) => format!("unusable: {reason}"),
    }
}

#[test]
fn what_every_api_takes_stays_as_it_is() {
    for schema in [
        json!({"type": "object", "properties": {}}),
        json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}),
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/tree"}},
            "$defs": {"tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}}}}}),
    ] {
        assert_eq!(shown(schema), "as it is");
    }
}

#[test]
fn a_root_that_says_too_little_is_completed() {
    assert!(shown(json!(true)).starts_with(r#"{"type":"object","properties":{}}"#));
    assert!(shown(json!({})).starts_with(r#"{"type":"object","properties":{}}"#));
    insta::assert_snapshot!(shown(json!({"type": "object"})), @r#"
    {"type":"object","properties":{}}
    `properties` was added
    "#);
    insta::assert_snapshot!(shown(json!({"type": ["object", "null"], "properties": {"a": {}}})), @r#"
    {"type":"object","properties":{"a":{}}}
    its type was ["object","null"]
    "#);
}

#[test]
fn alternatives_become_one_object_that_tells_of_them() {
    insta::assert_snapshot!(shown(json!({"description": "Finds things.", "oneOf": [
        {"type": "object", "properties": {"id": {"type": "integer"}, "deep": {"type": "boolean"}}, "required": ["id", "deep"]},
        {"type": "object", "properties": {"id": {"type": "string"}, "deep": {"type": "boolean"}}, "required": ["deep"]},
        {"type": "null"}]})), @r#"
    {"description":"Finds things.\nGive the arguments of one of these: `id`, `deep`; or `deep`.","properties":{"id":{"anyOf":[{"type":"integer"},{"type":"string"}]},"deep":{"type":"boolean"}},"required":["deep"],"type":"object"}
    `oneOf` at its root was merged
    "#);
    insta::assert_snapshot!(shown(json!({"properties": {"kind": {"type": "string"}}, "required": ["kind"], "anyOf": [
        {"$ref": "#/$defs/a"}, {"title": "by b", "required": ["b"], "properties": {"b": {}, "kind": {"const": "b"}}}],
        "$defs": {"a": {"required": ["a"], "properties": {"a": {"type": "string"}}}}})), @r#"
    {"required":["kind"],"$defs":{"a":{"required":["a"],"properties":{"a":{"type":"string"}}}},"description":"Give the arguments of one of these: `a`; or by b (`b`).","properties":{"kind":{"anyOf":[{"type":"string"},{"const":"b"}]},"a":{"type":"string"},"b":{}},"type":"object"}
    `anyOf` at its root was merged
    "#);
    insta::assert_snapshot!(shown(json!({"allOf": [{"required": ["a"], "properties": {"a": {"type": "string"}}},
        {"required": ["b"], "properties": {"b": {}, "a": {"minLength": 1}}}]})), @r#"
    {"required":["a","b"],"type":"object","properties":{"a":{"allOf":[{"type":"string"},{"minLength":1}]},"b":{}}}
    `allOf` at its root was merged
    "#);
}

#[test]
fn a_root_that_refers_to_a_definition_becomes_it() {
    insta::assert_snapshot!(shown(json!({"$ref": "#/$defs/in",
        "$defs": {"in": {"type": "object", "properties": {"a": {"$ref": "#/$defs/in"}}}}})), @r##"
    {"$defs":{"in":{"type":"object","properties":{"a":{"$ref":"#/$defs/in"}}}},"type":"object","properties":{"a":{"$ref":"#/$defs/in"}}}
    its root referred to `#/$defs/in`, which was put in its place
    "##);
}

#[test]
fn what_cannot_be_shown_says_why() {
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
    unusable: it takes nothing at all
    unusable: it is for "string", and arguments are an object
    unusable: it is for ["array","null"], and arguments are an object
    unusable: at `/properties/a`: it refers to `http://127.0.0.1:9/schema.json`, and nothing is fetched
    unusable: at `/properties/a/items`: it refers to `file:///etc/passwd`, and nothing is fetched
    unusable: `$ref` to `#/$defs/none` leads nowhere
    unusable: `$ref` to `#` leads nowhere
    unusable: its root refers to itself
    unusable: none of the alternatives in `anyOf` is an object
    unusable: its alternatives lead to themselves
    unusable: it has more than 100 alternatives
    unusable: at `/properties/a`: there is no type "text"
    unusable: `properties` does not name schemas
    unusable: at `/properties/a`: there is no schema
    unusable: `required` is no list of names
    "#);
    let deep = format!("{}{{}}{}", r#"{"not":"#.repeat(10_000), "}".repeat(10_000));
    assert_eq!(
        normalize(&Json::parse(deep).unwrap()),
        NormalizedSchema::Unusable("it nests deeper than 128 levels".to_owned())
    );
}

#[test]
fn what_is_shown_can_be_compiled_and_takes_what_the_alternatives_take() {
    let schema = json!({"oneOf": [
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false},
        {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"], "additionalProperties": false}]});
    let NormalizedSchema::Changed(shown, _) = normalize(&Json::from(schema)) else { panic!("it is not changed") };
    let shown = Schema::compile(&shown).unwrap();
    for arguments in [json!({"a": "x"}), json!({"b": 1})] {
        assert!(shown.check(&Json::from(arguments)).is_ok());
    }
    assert!(shown.check(&Json::from(json!({"c": 1}))).is_err());
}
