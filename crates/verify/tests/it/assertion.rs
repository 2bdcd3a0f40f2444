//! Assertions on traces, with real traces of messages.

use serde_json::{Value, json};
use wharf_agent::TraceMessage;
use wharf_verify::assertion::TraceFacts;
use wharf_verify::{Assertion, OfferedTool, ToolSet};

/// A call with its id, name, arguments and the text and error flag of its result.
struct Made(&'static str, &'static str, Value, Option<(&'static str, bool)>);

fn messages(calls: &[Made]) -> Vec<TraceMessage> {
    let mut messages = Vec::new();
    for Made(id, name, input, result) in calls {
        messages.push(json!({"role": "assistant", "content": "I call delete_city now.",
            "tool_calls": [{"id": id, "name": name, "input": input}]}));
        if let Some((text, is_error)) = result {
            let result = json!({"tool_use_id": id, "is_error": is_error});
            messages.push(json!({"role": "tool", "content": text, "tool_result": result}));
        }
    }
    serde_json::from_str(&Value::from(messages).to_string()).unwrap()
}

fn tools() -> ToolSet {
    let tool = |name: &str, server: &str, tool: &str| json!({"name": name, "server": server, "tool": tool, "description": "", "input_schema": {}});
    let mut tools = vec![
        tool("mcp__time__get_time", "time", "get_time"),
        tool("mcp__time__convert", "time", "convert"),
        tool("mcp__geo__find", "geo", "find"),
        tool("mcp__geo__delete_city", "geo", "delete_city"),
        tool("mcp__a_b__x_y", "a.b", "x.y"),
    ];
    tools.push(json!({"name": "finish", "tool": "finish", "description": "", "input_schema": {}}));
    let tools: Vec<OfferedTool> = serde_json::from_str(&Value::from(tools).to_string()).unwrap();
    let mut set = ToolSet::default();
    set.tools.extend(tools);
    set
}

fn usual() -> Vec<Made> {
    vec![
        Made(
            "1",
            "mcp__geo__find",
            json!({"q": "Tokyo", "filter": {"kind": "city", "near": [1, 2]}}),
            Some(("found 35.7", false)),
        ),
        Made("2", "mcp__time__get_time", json!({"timezone": "Asia/Tokyo", "n": 3}), Some(("timeout", true))),
        Made("3", "mcp__time__get_time", json!({"timezone": "Asia/Tokyo", "n": 3}), Some(("18:46 UTC+9", false))),
    ]
}

#[track_caller]
fn check(assertion: Value, calls: &[Made], expected: Result<(), &str>) {
    let text = assertion.to_string();
    let assertion: Assertion = serde_json::from_value(assertion).unwrap();
    let stored = serde_json::to_string(&assertion).unwrap();
    assert_eq!(serde_json::from_str::<Assertion>(&stored).unwrap(), assertion, "{stored}");
    let (messages, tools) = (messages(calls), tools());
    let result = assertion.check(&TraceFacts { messages: &messages, tools: Some(&tools) });
    let found = if result.passed { Ok(()) } else { Err(result.reason.as_deref().unwrap_or("no reason")) };
    assert_eq!(found, expected, "{text}");
    assert_eq!(result.passed, result.reason.is_none());
}

#[track_caller]
fn holds(assertion: Value) {
    check(assertion, &usual(), Ok(()));
}

#[track_caller]
fn fails(assertion: Value, reason: &str) {
    check(assertion, &usual(), Err(reason));
}

#[test]
fn a_tool_is_named_in_every_form_of_its_name() {
    for name in ["get_time", "time/get_time", "mcp__time__get_time", "get_*", "*/get_time", "time/*", "*"] {
        holds(json!({"called": name}));
    }
    for name in ["geo/get_time", "mcp__geo__get_time", "et_time", "time"] {
        let holds = serde_json::from_value::<Assertion>(json!({"called": name})).unwrap();
        let (messages, tools) = (messages(&usual()), tools());
        assert!(!holds.check(&TraceFacts { messages: &messages, tools: Some(&tools) }).passed, "{name}");
    }
    // Identity comes from the tool set: a visible name is not split.
    let dotted = [Made("1", "mcp__a_b__x_y", json!({}), None)];
    for name in ["x.y", "a.b/x.y", "mcp__a_b__x_y"] {
        check(json!({"called": name}), &dotted, Ok(()));
    }
    check(json!({"called": "finish"}), &[Made("1", "finish", json!({}), None)], Ok(()));
}

#[test]
fn an_unknown_tool_fails_with_that_reason() {
    let reason = "the tool `get_tiem` was not offered to the model; did you mean `get_time`?";
    fails(json!({"called": "get_tiem"}), reason);
    fails(json!({"not_called": "get_tiem"}), reason);
    fails(json!({"count": {"tool": "get_tiem", "exactly": 0}}), reason);
    fails(json!({"order": ["find", "get_tiem"]}), reason);
    fails(json!({"success_rate": {"tool": "get_tiem", "at_least": 0}}), reason);
    fails(json!({"output_matches": {"tool": "get_tiem", "contains": "x"}}), reason);
    holds(json!({"not_called": "drop_*"}));
    // A name that the model made up is known from its call.
    let invented = [Made("1", "make_coffee", json!({}), Some(("unknown tool", true)))];
    check(json!({"called": "make_coffee"}), &invented, Ok(()));
    check(json!({"not_called": "make_coffee"}), &invented, Err("`make_coffee` was called with {}"));
}

#[test]
fn called_with_compares_a_subset_of_the_arguments() {
    holds(json!({"called": "get_time", "with": {"timezone": "Asia/Tokyo"}}));
    holds(json!({"called": "get_time", "with": {"n": 3.0}}));
    holds(json!({"called": "find", "with": {"filter": {"near": [1, 2]}}}));
    fails(
        json!({"called": "get_time", "with": {"timezone": "Europe/Oslo"}}),
        "2 calls of `get_time` with other arguments, the last with {\"timezone\":\"Asia/Tokyo\",\"n\":3}",
    );
    for with in [
        json!({"filter": {"near": [1]}}),
        json!({"filter": {"near": [2, 1]}}),
        json!({"q": null}),
        json!({"x": 1}),
        json!({"filter": "city"}),
    ] {
        fails(
            json!({"called": "find", "with": with}),
            "1 call of `find` with other arguments, the last with {\"q\":\"Tokyo\",\"filter\":{\"kind\":\"city\",\"near\":[1,2]}}",
        );
    }
    fails(
        json!({"called": "convert"}),
        "no call of `convert`; the model called mcp__geo__find, mcp__time__get_time 2 times",
    );
    check(json!({"called": "find"}), &[], Err("no call of `find`; no tool was called"));
}

#[test]
fn called_with_regex_searches_arguments_by_path() {
    holds(json!({"called": "get_time", "with_regex": {"timezone": "^Asia/", "n": "^3$"}}));
    holds(json!({"called": "find", "with_regex": {"filter.kind": "cit"}, "with": {"q": "Tokyo"}}));
    let reason = "2 calls of `get_time` with other arguments, the last with {\"timezone\":\"Asia/Tokyo\",\"n\":3}";
    fails(json!({"called": "get_time", "with_regex": {"timezone": "^Tokyo"}}), reason);
    fails(json!({"called": "get_time", "with_regex": {"place": ""}}), reason);
}

#[test]
fn reasons_show_names_that_a_model_invents_short_and_on_one_line() {
    let long: &'static str = Box::leak(format!("x\n{}", "y".repeat(100_000)).into_boxed_str());
    let calls = || vec![Made("1", long, json!({}), None), Made("2", long, json!({}), None)];
    for assertion in [
        json!({"not_called": "*"}),
        json!({"called": "find"}),
        json!({"order": ["find", "get_time"]}),
        json!({"max_calls": 1}),
    ] {
        let read: Assertion = serde_json::from_value(assertion.clone()).unwrap();
        let (messages, tools) = (messages(&calls()), tools());
        let reason = read.check(&TraceFacts { messages: &messages, tools: Some(&tools) }).reason.unwrap();
        assert!(reason.len() < 300 && !reason.contains('\n') && reason.contains("x\\nyyy"), "{assertion}: {reason}");
    }
}

#[test]
fn not_called_forbids_calls_with_matching_arguments() {
    holds(json!({"not_called": "delete_city"}));
    holds(json!({"not_called": "find", "with": {"q": "Kyoto"}}));
    fails(
        json!({"not_called": "*", "with_regex": {"q": "Tok"}}),
        "`mcp__geo__find` was called with {\"q\":\"Tokyo\",\"filter\":{\"kind\":\"city\",\"near\":[1,2]}}",
    );
}

#[test]
fn calls_are_counted() {
    let all = "3 calls; the model called mcp__geo__find, mcp__time__get_time 2 times";
    holds(json!({"max_calls": 3}));
    fails(json!({"max_calls": 2}), all);
    holds(json!({"min_calls": 3}));
    fails(json!({"min_calls": 4}), all);
    holds(json!({"count": {"tool": "get_time", "exactly": 2}}));
    fails(json!({"count": {"tool": "get_time", "exactly": 1}}), &all.replacen('3', "2", 1));
    holds(json!({"count": {"tool": "get_time", "at_least": 1, "at_most": 2}}));
    fails(json!({"count": {"tool": "find", "at_least": 2}}), &all.replacen("3 calls", "1 call", 1));
    fails(json!({"count": {"at_most": 2}}), all);
    check(json!({"max_calls": 0}), &[], Ok(()));
}

#[test]
fn order_is_a_subsequence_unless_strict() {
    holds(json!({"order": ["find", "get_time"]}));
    holds(json!({"order": ["find", "get_time", "get_time"]}));
    holds(json!({"order": ["find", "get_time"], "strict": true}));
    let called = "called mcp__geo__find, mcp__time__get_time, mcp__time__get_time";
    fails(json!({"order": ["get_time", "find"]}), called);
    fails(json!({"order": ["find", "get_time", "get_time", "get_time"]}), called);
    let between = [
        Made("1", "mcp__geo__find", json!({}), None),
        Made("2", "mcp__time__convert", json!({}), None),
        Made("3", "mcp__time__get_time", json!({}), None),
    ];
    check(json!({"order": ["find", "get_time"]}), &between, Ok(()));
    let reason = "called mcp__geo__find, mcp__time__convert, mcp__time__get_time";
    check(json!({"order": ["find", "get_time"], "strict": true}), &between, Err(reason));
    check(json!({"order": ["find", "get_time"]}), &[], Err("no calls"));
}

#[test]
fn success_rate_counts_calls_without_a_result_as_failed() {
    holds(json!({"success_rate": {"tool": "find", "at_least": 1.0}}));
    holds(json!({"success_rate": {"tool": "get_time", "at_least": 0.5}}));
    fails(json!({"success_rate": {"tool": "get_time", "at_least": 0.6}}), "1 of 2 calls succeeded");
    fails(json!({"success_rate": {"at_least": 1}}), "2 of 3 calls succeeded");
    let lost = [Made("1", "mcp__geo__find", json!({}), None)];
    check(json!({"success_rate": {"at_least": 1}}), &lost, Err("0 of 1 call succeeded"));
    check(json!({"success_rate": {"at_least": 1}}), &[], Ok(()));
    // Two calls with the same id: each has its own result.
    let same_id = [
        Made("1", "mcp__geo__find", json!({}), Some(("one", false))),
        Made("1", "mcp__geo__find", json!({}), Some(("two", false))),
    ];
    check(json!({"success_rate": {"at_least": 1}}), &same_id, Ok(()));
    check(json!({"output_matches": {"contains": "one"}}), &same_id, Ok(()));
}

#[test]
fn output_matches_looks_at_results_and_not_at_other_text() {
    holds(json!({"output_matches": {"tool": "get_time", "regex": r"\d\d:\d\d"}}));
    holds(json!({"output_matches": {"contains": "UTC+9"}}));
    fails(
        json!({"output_matches": {"tool": "find", "contains": "UTC+9"}}),
        "the last output of `find` is \"found 35.7\"",
    );
    fails(json!({"output_matches": {"contains": "delete_city"}}), "the last output of `*` is \"18:46 UTC+9\"");
    let reason = "no output of `convert`; the model called mcp__geo__find, mcp__time__get_time 2 times";
    fails(json!({"output_matches": {"tool": "convert", "contains": "x"}}), reason);
}

#[test]
fn path_efficiency_compares_with_the_optimum() {
    holds(json!({"path_efficiency": {"optimal": 2, "at_least": 0.6}}));
    fails(json!({"path_efficiency": {"optimal": 2, "at_least": 0.7}}), "3 calls, an efficiency of 0.67");
    holds(json!({"path_efficiency": {"optimal": 5, "at_least": 1}}));
    check(json!({"path_efficiency": {"optimal": 0, "at_least": 1}}), &[], Ok(()));
    check(json!({"path_efficiency": {"optimal": 1, "at_least": 0}}), &[], Err("no calls"));
}

#[test]
fn the_measured_path_efficiency_is_in_the_result() {
    let measured = |assertion: Value, calls: &[Made]| {
        let assertion: Assertion = serde_json::from_value(assertion).unwrap();
        assertion.check(&TraceFacts { messages: &messages(calls), tools: Some(&tools()) }).path_efficiency
    };
    let two_of_three = measured(json!({"path_efficiency": {"optimal": 2, "at_least": 0.9}}), &usual());
    assert!((two_of_three.unwrap() - 2.0 / 3.0).abs() < 1e-9);
    assert_eq!(measured(json!({"path_efficiency": {"optimal": 5, "at_least": 0.1}}), &usual()), Some(1.0));
    assert_eq!(measured(json!({"path_efficiency": {"optimal": 1, "at_least": 0}}), &[]), None, "no necessary call");
    assert_eq!(measured(json!({"max_calls": 3}), &usual()), None);
}

#[test]
fn arguments_that_are_not_an_object_match_no_expectation() {
    let odd = [Made("1", "mcp__geo__find", json!("oops"), None)];
    check(json!({"called": "find"}), &odd, Ok(()));
    let reason = "1 call of `find` with other arguments, the last with \"oops\"";
    check(json!({"called": "find", "with": {"q": "x"}}), &odd, Err(reason));
}

#[test]
fn assertions_have_a_short_form() {
    let shown = |assertion: Value| serde_json::from_value::<Assertion>(assertion).unwrap().to_string();
    assert_eq!(
        shown(json!({"called": "a", "with": {"x": 1}, "with_regex": {"y": "^z"}})),
        "called a with x = 1, y matching \"^z\""
    );
    assert_eq!(shown(json!({"not_called": "a"})), "not called a");
    assert_eq!(shown(json!({"max_calls": 1})), "at most 1 call");
    assert_eq!(shown(json!({"count": {"tool": "a", "exactly": 2}})), "exactly 2 calls of a");
    assert_eq!(
        shown(json!({"order": ["a", "b"], "strict": true})),
        "called in order a, b, with no other call in between"
    );
    assert_eq!(shown(json!({"success_rate": {"at_least": 1}})), "success rate of * at least 1");
}

#[test]
fn assertions_with_contradicting_keys_are_invalid() {
    for (assertion, reason) in [
        (json!({}), "expected one kind of assertion, found 0"),
        (json!({"max_calls": 1, "min_calls": 1}), "expected one kind of assertion, found 2"),
        (json!({"max_calls": 1, "with": {"a": 1}}), "`with` belongs to `called` or `not_called`"),
        (json!({"max_calls": 1, "strict": true}), "`strict` belongs to `order`"),
        (json!({"order": ["a"]}), "an order needs at least two tools"),
        (json!({"count": {}}), "expected `exactly`, `at_least` or `at_most`"),
        (json!({"count": {"exactly": 1, "at_most": 2}}), "`exactly` and a range are mutually exclusive"),
        (json!({"count": {"at_least": 3, "at_most": 2}}), "`at_most` must not be less than `at_least`"),
        (json!({"success_rate": {"at_least": 1.5}}), "`at_least` must be from 0 to 1"),
        (json!({"output_matches": {"tool": "a"}}), "expected either `regex` or `contains`"),
        (json!({"called": "a", "wiht": {}}), "unknown field `wiht`"),
    ] {
        let error = serde_json::from_value::<Assertion>(assertion.clone()).unwrap_err().to_string();
        assert!(error.contains(reason), "{assertion}: {error}");
    }
}
