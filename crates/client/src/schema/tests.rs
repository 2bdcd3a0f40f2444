//! Schemas and values that are made to take endless work, and schemas of real servers, which are not.

use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;

/// How long a check may take in an unoptimized build, at most.
const LIMIT: Duration = Duration::from_secs(20);
/// So many levels that doubled work never ends.
const LEVELS: usize = 60;

struct Attack {
    name: String,
    schema: Value,
    value: Value,
}

fn attack(name: impl Into<String>, schema: Value, value: Value) -> Attack {
    Attack { name: name.into(), schema, value }
}

/// Puts a value into the part that a keyword applies to.
type Wrap = fn(Value) -> Value;

/// The keywords that apply one subschema twice to the same value or to one part of it, with that part.
fn doublings(next: &Value) -> Vec<(&'static str, Value, Wrap)> {
    let same: fn(Value) -> Value = |value| value;
    let property: fn(Value) -> Value = |value| json!({"x": value});
    let element: fn(Value) -> Value = |value| json!([value]);
    let two = json!([next, next]);
    vec![
        ("anyOf", json!({"anyOf": two}), same),
        ("oneOf", json!({"oneOf": two}), same),
        ("allOf", json!({"allOf": two}), same),
        ("not", json!({"not": {"anyOf": two}}), same),
        ("if", json!({"if": next, "then": next, "else": next}), same),
        ("dependentSchemas", json!({"dependentSchemas": {"x": next, "y": next}}), same),
        ("ref beside allOf", json!({"$ref": next["$ref"], "allOf": [next]}), same),
        ("properties", json!({"anyOf": [{"properties": {"x": next}}, {"properties": {"x": next}}]}), property),
        (
            "additionalProperties",
            json!({"additionalProperties": next, "propertyNames": true, "patternProperties": {"^x": next}}),
            property,
        ),
        ("patternProperties", json!({"patternProperties": {"x": next, "^x": next}}), property),
        ("items", json!({"items": next, "contains": next}), element),
        ("prefixItems", json!({"prefixItems": [next], "contains": next}), element),
        (
            "unevaluatedProperties",
            json!({"anyOf": [{"properties": {"y": next}}], "unevaluatedProperties": next, "patternProperties": {"x": next}}),
            property,
        ),
        ("unevaluatedItems", json!({"contains": next, "unevaluatedItems": next}), element),
    ]
}

fn definitions(levels: usize, level: impl Fn(&Value) -> Value, last: Value) -> Value {
    let mut all = serde_json::Map::new();
    for number in 0..levels {
        all.insert(format!("a{number}"), level(&json!({"$ref": format!("#/$defs/a{}", number + 1)})));
    }
    all.insert(format!("a{levels}"), last);
    json!({"$ref": "#/$defs/a0", "$defs": all})
}

fn nested(wrap: fn(Value) -> Value, levels: usize) -> Value {
    (0..levels).fold(json!("end"), |value, _| wrap(value))
}

fn attacks() -> Vec<Attack> {
    let mut all = Vec::new();
    for (number, (name, _, wrap)) in doublings(&json!({"$ref": "#"})).into_iter().enumerate() {
        let level = |next: &Value| doublings(next).swap_remove(number).1;
        let value = nested(wrap, LEVELS);
        // Each level refers twice to the next one.
        let schema = definitions(LEVELS, level, json!({"type": "integer"}));
        all.push(attack(format!("levels of {name}"), schema, value.clone()));
        // One level refers twice to itself.
        all.push(attack(format!("recursive {name}"), level(&json!({"$ref": "#"})), value.clone()));
        // The same through an anchor.
        let mut anchored = level(&json!({"$ref": "#top"}));
        anchored["$anchor"] = json!("top");
        all.push(attack(format!("anchored {name}"), anchored, value));
    }
    let every = |to: usize| -> Vec<Value> { (0..to).map(|n| json!({"$ref": format!("#/$defs/a{n}")})).collect() };
    let complete: serde_json::Map<String, Value> =
        (0..12).map(|n| (format!("a{n}"), json!({"properties": {"x": {"anyOf": every(12)}}}))).collect();
    all.push(attack(
        "everything refers to everything",
        json!({"$ref": "#/$defs/a0", "$defs": complete}),
        nested(|v| json!({"x": v}), 50),
    ));
    let chain = definitions(10_000, |next| json!({"allOf": [next]}), json!({"type": "integer"}));
    all.push(attack("a long chain", chain, json!("x")));
    let chain = definitions(8_000, |next| json!({"properties": {"x": next}}), json!({"type": "integer"}));
    all.push(attack("a long chain of properties", chain, nested(|v| json!({"x": v}), 100)));
    let chain = definitions(150, |next| json!({"allOf": [next]}), json!({"properties": {"x": {"$ref": "#"}}}));
    all.push(attack("a chain at every level of a deep value", chain, nested(|v| json!({"x": v}), 100)));
    all.push(attack("itself", json!({"$ref": "#"}), json!({})));
    all.push(attack("itself beside others", json!({"allOf": [{"anyOf": [{"$ref": "#"}, true]}]}), json!({})));
    all.push(attack(
        "each other",
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        json!({}),
    ));
    all.push(attack("dynamic references", json!({"$dynamicAnchor": "n", "anyOf": [{"properties": {"x": {"$dynamicRef": "#n"}}}, {"properties": {"x": {"$dynamicRef": "#n"}}}]}), nested(|v| json!({"x": v}), 100)));
    all.push(attack(
        "an embedded document",
        json!({"$id": "http://a/", "anyOf": [{"$id": "b", "anyOf": [{"$ref": "#"}]}]}),
        json!({}),
    ));
    all.push(attack("repeated groups", json!({"pattern": "^(((a{99}){99}){99}){99}$"}), json!("a".repeat(10_000))));
    let letters: serde_json::Map<String, Value> =
        (0..1_200).map(|n| (format!("p{n}"), json!({"pattern": r"\pL{60}N"}))).collect();
    all.push(attack("patterns of letters", json!({"properties": letters}), json!({})));
    let branches: Vec<Value> = (0..2_000).map(|n| json!({"properties": {"x": {"const": n}}})).collect();
    let copied = json!({"x": vec!["z".repeat(100_000); 15]});
    all.push(attack("alternatives that copy a large value", json!({"oneOf": branches}), copied));
    let patterns: Vec<Value> = (0..3_000).map(|n| json!({"pattern": format!(r"^\w{{200}}{n}$")})).collect();
    all.push(attack("thousands of patterns", json!({"allOf": patterns}), json!("a".repeat(10_000))));
    all.push(attack(
        "a pattern on a long text",
        json!({"items": {"pattern": r"(\w{50}x){20}$"}}),
        json!(vec!["a".repeat(50_000); 20]),
    ));
    all.push(attack(
        "a pattern for names",
        json!({"patternProperties": {r"(\w{50}x){20}$": true}, "propertyNames": {"pattern": r"(\w{60}y){20}$"}}),
        json!({"a".repeat(500_000): 1}),
    ));
    let numbers: Vec<usize> = (0..20_000).collect();
    all.push(attack(
        "a large enumeration for each element",
        json!({"items": {"anyOf": [{"enum": numbers}, {"enum": numbers}]}}),
        json!(vec!["x"; 20_000]),
    ));
    all.push(attack(
        "a wide schema for a wide value",
        json!({"items": {"anyOf": vec![json!({"type": "null"}); 10_000]}}),
        json!(vec![1; 10_000]),
    ));
    // Trees of empty arrays, which have the same hash.
    let mut trees = vec![json!([])];
    for number in 0..5_000 {
        let tree = trees[number / 2].clone();
        trees.push(if number % 2 == 0 { json!([tree]) } else { json!([[], tree]) });
    }
    all.push(attack("trees in a definition", json!({"$defs": {"a": {"required": trees}}}), json!({})));
    all.push(attack("unique trees", json!({"uniqueItems": true}), json!(trees)));
    let fields: serde_json::Map<String, Value> = (0..10_000).map(|number| (format!("k{number}"), json!(1))).collect();
    all.push(attack(
        "many subschemas for many fields",
        json!({"allOf": vec![json!({"properties": {"z": true}}); 4_000]}),
        json!(fields),
    ));
    let lengths =
        json!({"allOf": vec![json!({"$ref": "#/$defs/l"}); 2_500], "$defs": {"l": {"minLength": 1, "maxLength": 9}}});
    all.push(attack("the length of a long text, often", lengths, json!("é".repeat(1_000_000))));
    all.extend(byte_attacks());
    all.push(attack(
        "deep alternatives",
        (0..60).fold(json!({"type": "integer"}), |inner, _| json!({"anyOf": [inner]})),
        json!("x"),
    ));
    all.push(attack(
        "deep unevaluated properties",
        (0..40).fold(json!({"type": "object"}), |inner, _| json!({"allOf": [inner], "unevaluatedProperties": false})),
        json!({"a": 1}),
    ));
    all
}

/// A schema that applies one subschema `times` times to the property `x`.
fn applied(times: usize, subschema: &Value) -> Value {
    let all = vec![json!({"$ref": "#/$defs/c"}); times];
    json!({"properties": {"x": {"allOf": all}}, "$defs": {"c": subschema}})
}

/// Few keywords and few values, but long names and texts.
fn byte_attacks() -> Vec<Attack> {
    const BYTES: usize = 1 << 18;
    let long = "a".repeat(BYTES);
    let object = json!({"x": {long.clone(): 1, "b": 2, "c": 3}});
    let text = json!({"x": long.clone()});
    let other = |at: usize| {
        let mut name = long.clone();
        name.replace_range(BYTES / 2..=BYTES / 2, &at.to_string());
        name
    };
    let similar: serde_json::Map<String, Value> = (0..10).map(|at| (other(at), json!(true))).collect();
    let names: Vec<String> = (0..1_000).map(|at| format!("k{at}")).collect();
    let fields: serde_json::Map<String, Value> = names.iter().map(|name| (name.clone(), json!(1))).collect();
    vec![
        attack("a long required name", applied(1_000, &json!({"required": [long]})), object.clone()),
        attack(
            "a long name of a property",
            applied(1_000, &json!({"properties": {long.clone(): true}})),
            object.clone(),
        ),
        attack(
            "a long dependency",
            applied(1_000, &json!({"dependentRequired": {long.clone(): [long]}})),
            object.clone(),
        ),
        attack("a long constant", applied(1_000, &json!({"const": long})), text.clone()),
        attack("a long enumeration", applied(1_000, &json!({"enum": [other(1), other(2), long]})), text.clone()),
        attack(
            "a long constant object",
            applied(1_000, &json!({"const": {long.clone(): 1, "b": 2, "c": 4}})),
            object.clone(),
        ),
        attack("a long literal pattern", applied(1_000, &json!({"pattern": format!("^{long}$")})), text.clone()),
        attack(
            "a long name of a pattern",
            applied(1_000, &json!({"patternProperties": {format!("^{long}$"): true}})),
            object.clone(),
        ),
        attack("similar properties", applied(1_000, &json!({"properties": similar})), json!({"x": {other(5): 1}})),
        attack(
            "an enumeration of objects",
            applied(10_000, &json!({"enum": [{"a": 1, "b": 2}]})),
            json!({"x": {long.clone(): 1, "b": 2}}),
        ),
        attack(
            "an enumeration of short texts",
            applied(10_000, &json!({"enum": ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"]})),
            text.clone(),
        ),
        attack(
            "a name of no property",
            applied(10_000, &json!({"properties": {"a": true}, "additionalProperties": true})),
            object.clone(),
        ),
        attack("unique texts", applied(10_000, &json!({"uniqueItems": true})), json!({"x": [long, "b"]})),
        attack("many required names", applied(10_000, &json!({"required": names})), json!({"x": fields.clone()})),
        attack(
            "many dependent names",
            applied(10_000, &json!({"dependentRequired": {"k0": names}})),
            json!({"x": fields}),
        ),
    ]
}

/// Compiles a schema and checks a value on a thread with a small stack, as tasks have one.
fn outcome(attack: &Attack) -> Option<String> {
    let schema = Json::from(attack.schema.clone());
    let value = Json::from(attack.value.clone());
    let (send, receive) = mpsc::channel();
    let check = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let outcome = match runtime.block_on(Schema::compile_in_background(&schema, None)) {
            Err(error) => format!("{error:?}"),
            Ok(schema) => format!("{:?}", runtime.block_on(Arc::new(schema).admit(&value)).map_err(|fault| fault.path)),
        };
        send.send(outcome).unwrap();
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(check).unwrap();
    receive.recv_timeout(LIMIT).ok()
}

#[test]
fn no_schema_takes_endless_work() {
    let attacks = attacks();
    assert!(attacks.len() >= 50, "{}", attacks.len());
    for attack in &attacks {
        let outcome = outcome(attack);
        assert!(outcome.is_some(), "{}", attack.name);
    }
}

#[test]
fn what_multiplies_is_over_budget_and_what_cannot_be_followed_is_unusable() {
    let bomb = definitions(26, |next| json!({"anyOf": [next, next]}), json!({"type": "integer"}));
    assert!(bomb.to_string().len() < 2_000);
    assert!(matches!(Schema::weight(&bomb), Err(SchemaError::OverBudget(_))));
    for schema in [json!({"$ref": "#"}), json!({"$ref": "#/nowhere"}), json!({"items": {"$id": "x", "$ref": "#"}})] {
        assert!(matches!(Schema::weight(&schema), Err(SchemaError::Unusable(_))), "{schema}");
    }
}

#[tokio::test]
async fn recursive_schemas_check_ordinary_values() {
    let expression = json!({"$ref": "#/$defs/e", "$defs": {"e": {"anyOf": [
        {"type": "object", "required": ["and"], "properties": {"and": {"type": "array", "items": {"$ref": "#/$defs/e"}}}},
        {"type": "object", "required": ["not"], "properties": {"not": {"$ref": "#/$defs/e"}}},
        {"type": "string"}]}}});
    let schema = Arc::new(Schema::compile(&Json::from(expression)).unwrap());
    let mut value = json!("a");
    for _ in 0..20 {
        value = json!({"and": [{"not": value}, "b"]});
    }
    assert_eq!(schema.admit(&Json::from(value.clone())).await, Ok(Admission::Valid));
    let mut wrong = json!(1);
    for _ in 0..20 {
        wrong = json!({"and": [{"not": wrong}, "b"]});
    }
    assert!(schema.admit(&Json::from(wrong)).await.is_err());
}

#[tokio::test]
async fn a_long_check_blocks_no_other_task() {
    let mut alternatives = vec![json!({"type": "null"}); 50];
    alternatives.push(json!({"type": "integer"}));
    let schema = json!({"items": {"anyOf": alternatives}});
    let schema = Arc::new(Schema::compile(&Json::from(schema)).unwrap());
    let value = Json::from(json!(vec![1; 10_000]));
    let mut check = Box::pin(schema.admit(&value));
    // The check waits for its thread instead of blocking the task that polls it.
    assert!(futures_util::poll!(&mut check).is_pending());
    assert_eq!(check.await, Ok(Admission::Valid));
}

/// Patterns that are much larger than their text.
const WIDE: [&str; 8] = [
    ".{3000}0",
    "(?i)[a-z]{900}",
    r"[\u0100-\U0010ffff]{800}",
    "(a|.){700}",
    "[^a]{900}",
    r"\S{900}",
    "[[](.{100}){30}]",
    "(.{100})+{30}",
];

#[test]
fn patterns_are_weighed_by_what_they_compile_to() {
    for wide in WIDE {
        // Equal patterns are compiled once.
        let pattern = |number: usize| format!("{wide}{number}");
        let values: serde_json::Map<String, Value> =
            (0..600).map(|n| (format!("p{n}"), json!({"type": "string", "pattern": pattern(n)}))).collect();
        let names: serde_json::Map<String, Value> = (0..600).map(|n| (pattern(n), json!(true))).collect();
        for schema in [json!({"properties": values}), json!({"patternProperties": names})] {
            assert!(schema.to_string().len() < 64 << 10);
            let weight = Schema::weight(&schema);
            assert_eq!(weight, Err(SchemaError::OverBudget("its patterns are too large".to_owned())), "{wide}");
        }
    }
    for escapes in [r"\cA".repeat(1_550), r"\d".repeat(1_650), r"[\s]".repeat(1_200), "[01]".repeat(10_000)] {
        let weight = Schema::weight(&json!({"pattern": escapes}));
        assert!(matches!(weight, Err(SchemaError::OverBudget(_))), "{}", &escapes[..4]);
    }
}

#[tokio::test]
async fn ordinary_patterns_are_compiled_and_checked_where_they_are_used() {
    let patterns = ["^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{12}$", r"^\d{4}-\d{2}-\d{2}$", r"^\w{1,64}$", "^.{1,50}$"];
    let properties: serde_json::Map<String, Value> =
        patterns.iter().enumerate().map(|(n, pattern)| (format!("p{n}"), json!({"pattern": pattern}))).collect();
    let schema = Json::from(json!({"type": "object", "properties": properties}));
    let mut compile = Box::pin(Schema::compile_in_background(&schema, None));
    let std::task::Poll::Ready(schema) = futures_util::poll!(&mut compile) else { panic!("it waits for a thread") };
    let schema = Arc::new(schema.unwrap());
    let value = Json::from(json!({"p0": "01234567-89ab-0123456789ab", "p1": "2026-07-28", "p2": "name", "p3": "é"}));
    let mut check = Box::pin(schema.admit(&value));
    assert_eq!(futures_util::poll!(&mut check), std::task::Poll::Ready(Ok(Admission::Valid)));
}

#[tokio::test]
async fn a_check_that_reads_many_bytes_is_never_made_where_the_value_arrives() {
    for attack in byte_attacks() {
        let Ok(schema) = Schema::compile(&Json::from(attack.schema)) else { continue };
        let schema = Arc::new(schema);
        let value = Json::from(attack.value);
        let mut check = Box::pin(schema.admit(&value));
        assert!(futures_util::poll!(&mut check).is_pending(), "{}", attack.name);
        check.await.ok();
    }
}

#[test]
fn a_long_name_weighs_as_much_as_reading_it() {
    for subschema in [
        json!({"required": ["a".repeat(10_000)]}),
        json!({"properties": {"a".repeat(10_000): true}}),
        json!({"const": "a".repeat(10_000)}),
        json!({"enum": ["a".repeat(10_000)]}),
        json!({"const": {"a".repeat(10_000): 1}}),
        json!({"required": vec!["a"; 200]}),
        json!({"dependentRequired": {"a": vec!["a"; 200]}}),
    ] {
        let once = Schema::weight(&applied(1, &subschema)).unwrap();
        assert!(once > 150, "{once}");
        assert!(matches!(Schema::weight(&applied(1_000, &subschema)), Err(SchemaError::OverBudget(_))));
    }
}

#[test]
fn a_name_of_many_anchors_is_over_budget_before_all_are_followed() {
    let anchors: serde_json::Map<String, Value> =
        (0..5_000).map(|n| (format!("a{n}"), json!({"$anchor": "n"}))).collect();
    let schema = json!({"$defs": anchors, "items": {"allOf": vec![json!({"$ref": "#n"}); 5_000]}});
    assert!(matches!(Schema::weight(&schema), Err(SchemaError::OverBudget(reason)) if reason.contains("subschemas")));
}

#[tokio::test]
async fn a_long_regular_expression_as_a_value_is_not_parsed() {
    let schema = json!({"$schema": "http://json-schema.org/draft-07/schema#", "format": "regex"});
    let schema = Arc::new(Schema::compile(&Json::from(schema)).unwrap());
    // The parser compares the name of each group with all others.
    let group = |number: usize| format!("(?<a{number}>b)");
    let groups = |count: usize| Json::from(json!((0..count).map(group).collect::<Vec<_>>().concat()));
    assert_eq!(schema.admit(&groups(100)).await, Ok(Admission::Valid));
    let reason = "checking it against the schema would take too much work".to_owned();
    assert_eq!(schema.admit(&groups(60_000)).await, Ok(Admission::Unchecked(reason)));
}

#[tokio::test]
async fn large_integers_and_divisions_are_counted_by_their_worst_case() {
    let reason = "checking it against the schema would take too much work".to_owned();
    let unique = Arc::new(Schema::compile(&Json::from(json!({"uniqueItems": true}))).unwrap());
    let integers = |first: u64| Json::from(json!((first..first + 20_000).collect::<Vec<u64>>()));
    assert_eq!(unique.admit(&integers(1)).await, Ok(Admission::Valid));
    // They are hashed as fractions, of which one stands for thousands of them.
    assert_eq!(unique.admit(&integers(1 << 63)).await, Ok(Admission::Unchecked(reason.clone())));
    let multiple = json!({"items": {"multipleOf": 1e-7}});
    let multiple = Arc::new(Schema::compile(&Json::from(multiple)).unwrap());
    assert_eq!(multiple.admit(&Json::from(json!([1.5, 1e300]))).await, Ok(Admission::Valid));
    assert_eq!(multiple.admit(&Json::from(json!(vec![f64::MAX; 100_000]))).await, Ok(Admission::Unchecked(reason)));
}
