//! Templates: every check, the score, the judge's schema and its output.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use wharf_verify::Template;
use wharf_verify::template::{Check, FieldResult};

const TRUE: Option<bool> = Some(true);
const FALSE: Option<bool> = Some(false);

fn template(value: Value) -> Template {
    let template: Template = serde_json::from_value(value).unwrap();
    template.validate().unwrap();
    template
}

fn field(kind: &Value, check: &Value, truth: &Value) -> Template {
    template(json!({"fields": [{"name": "f", "type": kind, "description": "d", "truth": truth, "check": check}]}))
}

fn evaluate(template: &Template, value: Value, response: &str) -> FieldResult {
    let extracted = Map::from_iter([("f".to_owned(), value)]);
    template.evaluate(&extracted, response).fields.remove(0)
}

/// Checks the results of one field for several extracted values.
#[expect(clippy::needless_pass_by_value, reason = "calls with literals are easier to read")]
fn check(kind: Value, check: Value, truth: Value, expected: &[(Value, Option<bool>)]) {
    let template = field(&kind, &check, &truth);
    for (value, passed) in expected {
        let result = evaluate(&template, value.clone(), "");
        assert_eq!(result.passed, *passed, "{check} {truth} {value}: {:?}", result.reason);
        assert_eq!(result.reason.is_some(), result.passed != TRUE, "{check} {truth} {value}: {:?}", result.reason);
    }
}

/// Checks results and scores of one field.
#[expect(clippy::needless_pass_by_value, reason = "calls with literals are easier to read")]
fn check_scores(check: Value, truth: Value, expected: &[(f64, bool, f64)]) {
    let template = field(&json!("float"), &check, &truth);
    for (value, passed, score) in expected {
        let result = evaluate(&template, json!(value), "");
        assert_eq!(result.passed, Some(*passed), "{check} {value}");
        assert!((result.score.unwrap() - score).abs() < 1e-9, "{check} {value}: {:?}", result.score);
    }
}

#[test]
fn boolean_match_compares_truth_values() {
    check(
        json!("bool"),
        json!("boolean_match"),
        json!(true),
        &[
            (json!(true), TRUE),
            (json!(false), FALSE),
            (json!("yes"), TRUE),
            (json!("False"), FALSE),
            (json!(1), TRUE),
            (json!(0), FALSE),
            (json!("maybe"), None),
            (json!(null), None),
            (json!([]), None),
        ],
    );
    let template = field(&json!("bool"), &json!("boolean_match"), &json!(true));
    assert_eq!(evaluate(&template, json!(null), "").reason.unwrap(), "the judge found no value");
    // A value that was not found does not match a truth of `false`.
    check(json!("bool"), json!("boolean_match"), json!(false), &[(json!(null), None), (json!(false), TRUE)]);
}

#[test]
fn exact_match_normalizes_both_sides() {
    let values = [(json!(" TOKYO "), TRUE), (json!("Kyoto"), FALSE), (json!("Tokyo!"), FALSE), (json!([]), None)];
    check(json!("str"), json!("exact_match"), json!("Tokyo"), &values);
    let strict = json!({"exact_match": {"normalize": []}});
    check(json!("str"), strict, json!("Tokyo"), &[(json!("Tokyo"), TRUE), (json!("tokyo"), FALSE)]);
    let all = json!({"exact_match": {"normalize":
        ["lowercase", "remove_punctuation", "collapse_whitespace", {"synonyms": {"nyc": "new york"}}]}});
    check(json!("str"), all, json!("New  York"), &[(json!("N.Y.C."), TRUE), (json!("york"), FALSE)]);
}

#[test]
fn contains_any_and_all_look_for_substrings() {
    let values = [(json!("a cat"), TRUE), (json!("a cow"), FALSE), (json!("a CAT"), FALSE), (json!({}), None)];
    check(json!("str"), json!({"contains_any": {"substrings": ["cat", "dog"]}}), json!(null), &values);
    let values = [(json!("Dog and cat"), TRUE), (json!("cat"), FALSE)];
    let all = json!({"contains_all": {"substrings": ["CAT", "dog"], "normalize": ["lowercase"]}});
    check(json!("str"), all, json!(null), &values);
}

#[test]
fn regex_match_searches_with_flags() {
    let values = [(json!("x42"), TRUE), (json!("x"), FALSE), (json!(42), TRUE), (json!([42]), None)];
    check(json!("str"), json!({"regex_match": {"pattern": r"\d+$"}}), json!(null), &values);
    let flags = json!({"regex_match": {"pattern": "^tokyo$", "flags": ["ignore_case", "multiline"]}});
    check(json!("str"), flags, json!(null), &[(json!("a\nTOKYO\nb"), TRUE), (json!("TOKYO!"), FALSE)]);
}

#[test]
fn semantic_match_is_unknown_without_embeddings() {
    let template = field(&json!("str"), &json!("semantic_match"), &json!("x"));
    let result = evaluate(&template, json!("x"), "");
    assert_eq!((result.passed, result.score), (None, None));
    assert_eq!(result.reason.unwrap(), "comparing meanings needs an embedding endpoint");
}

#[test]
fn numeric_exact_compares_all_digits_of_integers() {
    let values = [
        (json!(9), TRUE),
        (json!(9.0), TRUE),
        (json!("9"), TRUE),
        (json!(" 9.0 "), TRUE),
        (json!(9.5), FALSE),
        (json!("nine"), None),
        (json!(true), None),
        (json!("inf"), None),
        (json!(null), None),
    ];
    check(json!("int"), json!("numeric_exact"), json!(9), &values);
    let big = json!(9_007_199_254_740_993_u64);
    check(json!("int"), json!("numeric_exact"), big.clone(), &[(big, TRUE), (json!(9_007_199_254_740_992_u64), FALSE)]);
}

#[test]
fn numeric_tolerance_is_relative_unless_absolute() {
    let relative = json!({"numeric_tolerance": {"tolerance": 0.25}});
    let values = [(json!(125), TRUE), (json!(75), TRUE), (json!(126), FALSE), (json!("x"), None)];
    check(json!("float"), relative.clone(), json!(100), &values);
    check(json!("float"), relative.clone(), json!(-100), &[(json!(-125), TRUE), (json!(125), FALSE)]);
    // Nothing is near 0 relatively, except 0 itself.
    check(json!("float"), relative, json!(0), &[(json!(0), TRUE), (json!(0.0001), FALSE)]);
    let absolute = json!({"numeric_tolerance": {"tolerance": 0.25, "mode": "absolute"}});
    check(json!("float"), absolute, json!(100), &[(json!(100.25), TRUE), (json!(101), FALSE)]);
}

#[test]
fn numeric_range_has_open_ends_and_exclusive_bounds() {
    let values = [(json!(1), TRUE), (json!(2), TRUE), (json!(0.9), FALSE), (json!(2.1), FALSE), (json!(""), None)];
    check(json!("float"), json!({"numeric_range": {"min": 1, "max": 2}}), json!(null), &values);
    check(json!("float"), json!({"numeric_range": {"min": 1}}), json!(null), &[(json!(1e9), TRUE), (json!(0), FALSE)]);
    check(json!("float"), json!({"numeric_range": {"max": 1}}), json!(null), &[(json!(-1e9), TRUE), (json!(2), FALSE)]);
    let exclusive = json!({"numeric_range": {"min": 1, "max": 2, "exclusive_min": true, "exclusive_max": true}});
    let values = [(json!(1), FALSE), (json!(1.5), TRUE), (json!(2), FALSE)];
    check(json!("float"), exclusive, json!(null), &values);
}

#[test]
fn numeric_minimum_and_maximum_compare_with_the_truth() {
    let values = [(json!(5), TRUE), (json!(6), TRUE), (json!(4), FALSE), (json!([]), None)];
    check(json!("int"), json!("numeric_minimum"), json!(5), &values);
    check(
        json!("int"),
        json!({"numeric_minimum": {"exclusive": true}}),
        json!(5),
        &[(json!(5), FALSE), (json!(6), TRUE)],
    );
    check(json!("int"), json!("numeric_maximum"), json!(5), &[(json!(5), TRUE), (json!(6), FALSE)]);
    check(
        json!("int"),
        json!({"numeric_maximum": {"exclusive": true}}),
        json!(5),
        &[(json!(5), FALSE), (json!(4), TRUE)],
    );
}

#[test]
fn numeric_graded_gives_partial_credit_by_distance() {
    let single = json!({"numeric_graded": {"cutoff": 10, "mode": "absolute"}});
    check_scores(
        single,
        json!(100),
        &[(100.0, true, 1.0), (105.0, true, 0.5), (110.0, true, 0.0), (111.0, false, 0.0)],
    );
    let double = json!({"numeric_graded": {"cutoff": 0.3, "full_credit": 0.1, "decay": "quadratic"}});
    let expected = [(105.0, true, 1.0), (120.0, false, 0.75), (80.0, false, 0.75), (130.0, false, 0.0)];
    check_scores(double, json!(100), &expected);
    check_scores(json!({"numeric_graded": {"cutoff": 0.3}}), json!(0), &[(0.0, true, 1.0), (0.1, false, 0.0)]);
}

#[test]
fn numeric_range_graded_gives_credit_outside_the_range() {
    let absolute = json!({"numeric_range_graded": {"min": 10, "max": 20, "margin": 4}});
    let expected = [
        (10.0, true, 1.0),
        (20.0, true, 1.0),
        (22.0, false, 0.5),
        (9.0, false, 0.75),
        (24.0, false, 0.0),
        (0.0, false, 0.0),
    ];
    check_scores(absolute, json!(null), &expected);
    let relative = json!({"numeric_range_graded":
        {"min": 10, "max": 20, "margin": 0.4, "mode": "relative", "decay": "quadratic", "exclusive_max": true}});
    check_scores(relative, json!(null), &[(22.0, false, 0.75), (20.0, false, 1.0), (10.0, true, 1.0)]);
}

#[test]
fn numeric_threshold_graded_gives_credit_on_the_wrong_side() {
    let max = json!({"numeric_threshold_graded": {"direction": "max", "margin": 0.2}});
    check_scores(max, json!(100), &[(-5.0, true, 1.0), (100.0, true, 1.0), (110.0, false, 0.5), (120.0, false, 0.0)]);
    let min = json!({"numeric_threshold_graded":
        {"direction": "min", "margin": 20, "mode": "absolute", "decay": "quadratic", "exclusive": true}});
    check_scores(min, json!(100), &[(100.5, true, 1.0), (100.0, false, 1.0), (90.0, false, 0.75), (80.0, false, 0.0)]);
    let zero = json!({"numeric_threshold_graded": {"direction": "max", "margin": 0.2}});
    check_scores(zero, json!(0), &[(0.0, true, 1.0), (0.01, false, 0.0)]);
}

#[test]
fn set_containment_ignores_order_and_duplicates() {
    let truth = json!(["a", "b", "c"]);
    let with = |mode: &str| json!({"set_containment": {"mode": mode}});
    let (same, less, more) = (json!(["c", "a", "b", "a"]), json!(["a"]), json!(["a", "b", "c", "d"]));
    let values =
        [(same.clone(), TRUE), (less.clone(), FALSE), (more.clone(), FALSE), (json!("a"), None), (json!([[]]), None)];
    check(json!("list_str"), json!("set_containment"), truth.clone(), &values);
    let values = [(same.clone(), TRUE), (less.clone(), TRUE), (more.clone(), FALSE)];
    check(json!("list_str"), with("subset"), truth.clone(), &values);
    let values = [(same.clone(), TRUE), (less.clone(), FALSE), (more.clone(), TRUE)];
    check(json!("list_str"), with("superset"), truth.clone(), &values);
    check(json!("list_str"), with("overlap"), truth.clone(), &[(less.clone(), TRUE), (json!(["x"]), FALSE)]);
    let two = json!({"set_containment": {"mode": "overlap", "min_overlap": 2}});
    check(json!("list_str"), two, truth, &[(less, FALSE), (json!(["a", "c", "x"]), TRUE)]);
}

#[test]
fn ordered_match_compares_item_by_item() {
    let values = [
        (json!([" A", "b"]), TRUE),
        (json!(["b", "a"]), FALSE),
        (json!(["a"]), FALSE),
        (json!(["a", "b", "c"]), FALSE),
        (json!({}), None),
    ];
    check(json!("list_str"), json!("ordered_match"), json!(["a", "B"]), &values);
}

#[test]
fn literal_match_is_exact() {
    let kind = json!({"literal": ["low", "high"]});
    check(
        kind,
        json!("literal_match"),
        json!("low"),
        &[(json!("low"), TRUE), (json!("Low"), FALSE), (json!([]), None)],
    );
}

#[test]
fn date_match_compares_days() {
    let values = [
        (json!("2026-11-16"), TRUE),
        (json!("November 16, 2026"), TRUE),
        (json!("2026-11-16T23:00"), TRUE),
        (json!("2026-11-17"), FALSE),
        (json!("soon"), FALSE),
        (json!([]), None),
    ];
    check(json!("date"), json!("date_match"), json!("2026-11-16"), &values);
    let format = json!({"date_match": {"format": "%d/%m/%Y"}});
    check(json!("date"), format, json!("03/04/2026"), &[(json!("03/04/2026"), TRUE), (json!("2026-04-03"), FALSE)]);
}

#[test]
fn date_tolerance_has_units() {
    let days = json!({"date_tolerance": {"tolerance": 2}});
    let values =
        [(json!("2026-11-18"), TRUE), (json!("2026-11-14"), TRUE), (json!("2026-11-19"), FALSE), (json!("x"), FALSE)];
    check(json!("date"), days, json!("2026-11-16"), &values);
    let minutes = json!({"date_tolerance": {"tolerance": 30, "unit": "minutes"}});
    let values = [(json!("2026-11-16T12:30Z"), TRUE), (json!("2026-11-16 12:31"), FALSE), (json!(true), FALSE)];
    check(json!("date"), minutes, json!("2026-11-16T14:00+02:00"), &values);
    let hours = json!({"date_tolerance": {"tolerance": 3, "unit": "hours"}});
    check(
        json!("date"),
        hours,
        json!("2026-11-16T12:00"),
        &[(json!("2026-11-16 15:00"), TRUE), (json!("2026-11-17"), FALSE)],
    );
}

#[test]
fn date_range_includes_its_ends() {
    let range = json!({"date_range": {"min": "2026-11-01", "max": "2026-11-30"}});
    let values = [
        (json!("2026-11-01"), TRUE),
        (json!("30 Nov 2026"), TRUE),
        (json!("2026-10-31"), FALSE),
        (json!("2026-12-01"), FALSE),
        (json!("later"), FALSE),
        (json!({}), None),
    ];
    check(json!("date"), range, json!(null), &values);
    let open = json!({"date_range": {"min": "2026-11-01"}});
    check(json!("date"), open, json!(null), &[(json!("2030-01-01"), TRUE)]);
}

#[test]
fn trace_checks_look_at_the_response() {
    let on = |check: Value, truth: Value, response: &str| {
        let template = template(json!({"fields": [{"name": "f", "check": check, "truth": truth}]}));
        assert_eq!(template.judge_schema(), None);
        assert!(!template.needs_judge());
        // What a judge says about the field does not matter.
        let result = evaluate(&template, json!(false), response);
        assert_eq!(result.extracted, None);
        result.passed
    };
    let regex = json!({"trace_regex": {"pattern": r"\[\d+\]", "count_min": 2}});
    assert_eq!(on(regex.clone(), json!(null), "a [1] b [2]"), TRUE);
    assert_eq!(on(regex.clone(), json!(true), "a [1]"), FALSE);
    assert_eq!(on(regex, json!(false), "a [1]"), TRUE);
    assert_eq!(on(json!({"trace_regex": {"pattern": "x"}}), json!(null), "axb"), TRUE);
    let contains = json!({"trace_contains": {"substring": "Source:"}});
    assert_eq!(on(contains.clone(), json!(null), "Source: x"), TRUE);
    assert_eq!(on(contains.clone(), json!(null), "source: x"), FALSE);
    assert_eq!(on(contains, json!(false), "source: x"), TRUE);
    let length = json!({"trace_length": {"min": 2, "max": 4}});
    assert_eq!(on(length.clone(), json!(null), "äöü"), TRUE);
    assert_eq!(on(length.clone(), json!(null), "a"), FALSE);
    assert_eq!(on(length, json!(null), "abcde"), FALSE);
    let words = json!({"trace_length": {"max": 2, "unit": "words"}});
    assert_eq!(on(words.clone(), json!(null), "one  two"), TRUE);
    assert_eq!(on(words, json!(null), "one two three"), FALSE);
}

fn three_fields(pass: Option<Value>) -> Template {
    let field = |name: &str, weight: f64| json!({"name": name, "type": "int", "description": "d", "truth": 1, "weight": weight, "check": "numeric_exact"});
    let mut value = json!({"fields": [field("a", 1.0), field("b", 2.0), field("c", 1.0)]});
    if let Some(pass) = pass {
        value["pass"] = pass;
    }
    template(value)
}

fn extracted(values: [Value; 3]) -> Map<String, Value> {
    ["a", "b", "c"].into_iter().map(str::to_owned).zip(values).collect()
}

#[test]
fn all_fields_must_pass_unless_a_strategy_says_otherwise() {
    let values = || extracted([json!(1), json!(2), json!(1)]);
    let passed = |pass| three_fields(pass).evaluate(&values(), "").passed;
    assert_eq!(passed(None), FALSE);
    assert_eq!(passed(Some(json!({"all_of": ["a", "c"]}))), TRUE);
    assert_eq!(passed(Some(json!({"any_of": ["b", "c"]}))), TRUE);
    assert_eq!(passed(Some(json!({"at_least_n": {"n": 2, "of": ["a", "b", "c"]}}))), TRUE);
    assert_eq!(passed(Some(json!("b"))), FALSE);
}

#[test]
fn the_score_is_the_weighted_mean_and_depends_on_the_strategy() {
    let score =
        |pass: Option<Value>, values: [Value; 3]| three_fields(pass).evaluate(&extracted(values), "").score.unwrap();
    let near = |one: f64, other: f64| assert!((one - other).abs() < 1e-9, "{one} {other}");
    near(score(None, [json!(1), json!(2), json!(1)]), 0.5);
    near(score(Some(json!({"all_of": ["a"]})), [json!(1), json!(1), json!(2)]), 0.75);
    // A value that was not found has no credit and keeps its weight.
    near(score(None, [json!(1), json!(null), json!(1)]), 0.5);
    near(score(Some(json!({"any_of": ["a", "b"]})), [json!(1), json!(1), json!(1)]), 0.5);
    near(score(Some(json!({"at_least_n": {"n": 2, "of": ["a", "b", "c"]}})), [json!(1), json!(1), json!(1)]), 0.75);
}

#[test]
fn the_judge_schema_is_closed_and_hides_fields_of_the_response() {
    let template = template(json!({"fields": [
        {"name": "b", "type": "bool", "description": "B", "truth": true, "check": "boolean_match"},
        {"name": "s", "type": "str", "description": "S", "extraction_hint": "in lower case", "truth": "x", "check": "exact_match"},
        {"name": "i", "type": "int", "description": "I", "truth": 9, "check": "numeric_exact"},
        {"name": "n", "type": "float", "description": "N", "truth": 9.5, "check": {"numeric_tolerance": {"tolerance": 0.1}}},
        {"name": "l", "type": "list_str", "description": "L", "truth": ["x"], "check": "set_containment"},
        {"name": "o", "type": {"literal": ["low", "high"]}, "description": "O", "truth": "low", "check": "literal_match"},
        {"name": "d", "type": "date", "description": "D", "truth": "2026-11-16", "check": "date_match"},
        {"name": "t", "type": "date", "description": "T", "truth": "2026-11-16T10:00",
         "check": {"date_tolerance": {"tolerance": 5, "unit": "minutes"}}},
        {"name": "hidden", "check": {"trace_contains": {"substring": "secret"}}},
    ]}));
    let nullable =
        |value: Value, description: &str| json!({"anyOf": [value, {"type": "null"}], "description": description});
    let expected = json!({
        "type": "object",
        "required": ["b", "s", "i", "n", "l", "o", "d", "t"],
        "properties": {
            "b": nullable(json!({"type": "boolean"}), "B"),
            "s": nullable(json!({"type": "string"}), "S\nHint: in lower case"),
            "i": nullable(json!({"type": "integer"}), "I"),
            "n": nullable(json!({"type": "number"}), "N"),
            "l": nullable(json!({"type": "array", "items": {"type": "string"}}), "L"),
            "o": nullable(json!({"type": "string", "enum": ["low", "high"]}), "O"),
            "d": nullable(json!({"type": "string"}), "D\nFormat: YYYY-MM-DD"),
            "t": nullable(json!({"type": "string"}), "T\nFormat: YYYY-MM-DDTHH:MM"),
        },
        "additionalProperties": false,
    });
    assert_eq!(template.judge_schema().unwrap(), expected);
}

#[test]
fn a_judgment_has_the_types_of_the_fields() {
    let template = template(json!({"fields": [
        {"name": "b", "type": "bool", "description": "B", "truth": true, "check": "boolean_match"},
        {"name": "i", "type": "int", "description": "I", "truth": 9, "check": "numeric_exact"},
        {"name": "n", "type": "float", "description": "N", "truth": 9.5, "check": "numeric_exact"},
        {"name": "l", "type": "list_str", "description": "L", "truth": ["x"], "check": "set_containment"},
        {"name": "o", "type": {"literal": ["low", "high"]}, "description": "O", "truth": "low", "check": "literal_match"},
        {"name": "d", "type": "date", "description": "D", "truth": "2026-11-16", "check": "date_match"},
        {"name": "s", "type": "str", "description": "S", "truth": "SECRET", "check": "exact_match"},
    ]}));
    let parsed = template.parse_judgment(&json!({"b": "yes", "i": "9", "n": "9.5", "l": [], "o": "HIGH",
        "d": "16 Nov 2026", "s": "", "reasoning": "ignored"}));
    let expected = json!({"b": true, "i": 9, "n": 9.5, "l": [], "o": "high", "d": "16 Nov 2026", "s": ""});
    assert_eq!(Value::Object(parsed.unwrap()), expected);
    let nothing = json!({"b": null, "i": null, "n": null, "l": null, "o": null, "d": null, "s": null});
    assert_eq!(Value::Object(template.parse_judgment(&nothing).unwrap()), nothing);
    assert_eq!(
        template
            .parse_judgment(&json!({"i": 9.0, "b": true, "n": 1, "l": [], "o": "low", "d": "2026-01-01",
        "s": "x"}))
            .unwrap()["i"],
        json!(9)
    );
    let error = template.parse_judgment(&json!({"b": 2, "i": 9.5, "n": true, "l": [1], "o": "medium", "d": "soon"}));
    insta::assert_snapshot!(error.unwrap_err(), @r#"
    `b`: expected a boolean, found the number 2
    `i`: expected an integer, found the number 9.5
    `n`: expected a number, found the boolean true
    `l`: expected a list of strings, found a list
    `o`: expected one of "low", "high", found the string "medium"
    `d`: expected a date in the form YYYY-MM-DD, found the string "soon"
    `s`: missing; use null if the answer does not contain it
    "#);
    let error = template.parse_judgment(&json!([1])).unwrap_err().to_string();
    assert_eq!(error, "expected an object, found a list");
}

#[test]
fn templates_survive_serialization() {
    for check in [
        json!("exact_match"),
        json!({"exact_match": {}}),
        json!({"regex_match": {"pattern": "x", "flags": ["verbose"]}}),
    ] {
        let template = field(&json!("str"), &check, &json!("x"));
        let text = serde_json::to_string(&template).unwrap();
        assert_eq!(serde_json::from_str::<Template>(&text).unwrap(), template, "{text}");
    }
    let bare = field(&json!("bool"), &json!({"boolean_match": {}}), &json!(true));
    assert_eq!(serde_json::to_value(&bare.fields[0].check).unwrap(), json!("boolean_match"));
    let unknown =
        json!({"name": "f", "type": "str", "description": "d", "truth": "x", "check": {"exact_match": {"x": 1}}});
    assert!(serde_json::from_value::<Template>(json!({"fields": [unknown]})).is_err());
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        prop_oneof!["9", "-0", "1e999", "2026-11-16", "nan", "true"].prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-f]", inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

fn all_checks() -> Vec<Value> {
    vec![
        json!("boolean_match"),
        json!("exact_match"),
        json!({"contains_any": {"substrings": ["a"], "normalize": ["remove_punctuation"]}}),
        json!({"contains_all": {"substrings": ["a"]}}),
        json!({"regex_match": {"pattern": "a|\\d"}}),
        json!("semantic_match"),
        json!("numeric_exact"),
        json!({"numeric_tolerance": {"tolerance": 0.1}}),
        json!({"numeric_range": {"min": 0}}),
        json!("numeric_minimum"),
        json!("numeric_maximum"),
        json!({"numeric_graded": {"cutoff": 0.1}}),
        json!({"numeric_range_graded": {"min": 0, "max": 1, "margin": 1}}),
        json!({"numeric_threshold_graded": {"direction": "max", "margin": 1}}),
        json!("set_containment"),
        json!("ordered_match"),
        json!("literal_match"),
        json!("date_match"),
        json!({"date_tolerance": {"tolerance": 1}}),
        json!({"date_range": {"min": "2026-01-01"}}),
        json!({"trace_regex": {"pattern": "a"}}),
        json!({"trace_contains": {"substring": "a"}}),
        json!({"trace_length": {"max": 3}}),
    ]
}

#[test]
fn there_are_twenty_comparisons_and_three_checks_of_the_response() {
    let checks: Vec<Check> = all_checks().into_iter().map(|check| serde_json::from_value(check).unwrap()).collect();
    let names: std::collections::BTreeSet<_> = checks.iter().map(Check::name).collect();
    assert_eq!(names.len(), 23);
    assert_eq!(checks.iter().filter(|check| check.is_on_response()).count(), 3);
}

proptest! {
    #[test]
    fn evaluation_never_panics_and_scores_stay_in_range(
        value in any_json(), truth in any_json(), response in "\\PC{0,12}", check in prop::sample::select(all_checks()),
    ) {
        // Not validated: truths of any type reach the comparison.
        let field = json!({"name": "f", "type": "str", "description": "d", "truth": truth, "check": check});
        let template: Template = serde_json::from_value(json!({"fields": [field]})).unwrap();
        let _ = template.validate();
        let result = template.evaluate(&Map::from_iter([("f".to_owned(), value)]), &response);
        let field = &result.fields[0];
        prop_assert_eq!(field.passed.is_none(), field.score.is_none());
        prop_assert!(field.score.is_none_or(|score| (0.0..=1.0).contains(&score)));
        prop_assert!(result.score.is_some_and(|score| (0.0..=1.0).contains(&score)));
    }

    #[test]
    fn a_parsed_judgment_can_be_checked(value in any_json(), kind in prop::sample::select(vec![
        (json!("bool"), json!("boolean_match"), json!(true)), (json!("int"), json!("numeric_exact"), json!(1)),
        (json!("float"), json!("numeric_exact"), json!(1.5)), (json!("str"), json!("exact_match"), json!("x")),
        (json!("list_str"), json!("set_containment"), json!(["x"])), (json!("date"), json!("date_match"), json!("2026-11-16")),
        (json!({"literal": ["a", "b"]}), json!("literal_match"), json!("a")),
    ])) {
        let (kind, check, truth) = kind;
        let template = field(&kind, &check, &truth);
        if let Ok(parsed) = template.parse_judgment(&json!({"f": value})) {
            let result = template.evaluate(&parsed, "").fields.remove(0);
            prop_assert_eq!(result.passed.is_none(), parsed["f"].is_null(), "{:?}", result.reason);
        }
    }

    #[test]
    fn no_truth_reaches_the_judge(
        number in 1_000_000_i64..9_000_000, text in "[q-z]{12}", list in prop::collection::vec("[q-z]{12}", 1..4),
    ) {
        let template = template(json!({"fields": [
            {"name": "a", "type": "int", "description": "A", "truth": number, "check": "numeric_exact"},
            {"name": "b", "type": "str", "description": "B", "extraction_hint": "h", "truth": text, "check": "exact_match"},
            {"name": "c", "type": "list_str", "description": "C", "truth": list, "check": "ordered_match"},
            {"name": "d", "type": "str", "description": "D", "check": {"contains_all": {"substrings": list}}},
            {"name": "e", "type": "str", "description": "E", "check": {"regex_match": {"pattern": text}}},
            {"name": "f", "type": "float", "description": "F", "check": {"numeric_range": {"min": number}}},
            {"name": "g", "type": "date", "description": "G", "truth": "2031-07-19", "check": "date_match"},
            {"name": "h", "check": {"trace_contains": {"substring": text}}},
        ]}));
        let mut shown = template.judge_schema().unwrap().to_string();
        // The text for a second attempt repeats what the judge wrote, which is its own.
        if let Err(error) = template.parse_judgment(&json!({"a": [], "b": [], "c": 1, "d": {}, "e": [], "f": {}, "g": "x"})) {
            shown.push_str(&error.to_string());
        }
        let mut secrets = vec![number.to_string(), text, "2031-07-19".to_owned()];
        secrets.extend(list);
        for secret in secrets {
            prop_assert!(!shown.contains(&secret), "{secret} in {shown}");
        }
    }
}
