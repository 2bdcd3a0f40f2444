//! Scenarios of karenina's checkpoints become questions of several turns, and back.

use std::path::Path;

use serde_json::{Value, json};
use wharf_verify::Benchmark;
use wharf_verify::karenina::{HandWritten, Import, ImportError, export};

const TEMPLATE: &str = r#"
class Answer(BaseAnswer):
    target: str = VerifiedField(description="The target", ground_truth="BCL2", verify_with=ExactMatch())
    certain: bool = VerifiedField(description="Whether it is certain", ground_truth=True, verify_with=BooleanMatch())
"#;

fn import(text: &str) -> Result<Import, ImportError> {
    wharf_verify::karenina::import(text, HandWritten::LeaveOut)
}

fn node(id: &str, text: &str) -> Value {
    json!({
        "@type": "karenina:ScenarioNode", "nodeId": id, "modelOverride": null, "toolFilter": null,
        "stateUpdateSource": null, "agentIdentity": null, "metadata": {},
        "question": {"@type": "Question", "text": "an older text", "acceptedAnswer": {"@type": "Answer", "text": "BCL2"},
            "hasPart": {"@type": "SoftwareSourceCode", "name": "t", "text": TEMPLATE, "programmingLanguage": "Python"}},
        "questionData": {"question": text, "raw_answer": "BCL2", "answer_template": TEMPLATE},
    })
}

#[expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]
fn check(field: &str, expected: Value, verify_with: Value) -> Value {
    json!({"type": "state_check", "field": field, "expected": expected, "verify_with": verify_with})
}

fn boolean(field: &str, expected: bool) -> Value {
    check(field, json!(expected), json!({"type": "BooleanMatch"}))
}

#[expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]
fn edge(source: &str, target: &str, condition: Value) -> Value {
    json!({"source": source, "target": target, "condition": condition, "conditionSource": null, "handover": null})
}

#[expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]
fn turn_check(scope: Value, field: &str, expected: Value, verify_with: Value) -> Value {
    json!({"type": "TurnCheck", "scope": scope, "field": field, "expected": expected, "verify_with": verify_with})
}

/// A scenario with two turns, of which the first may be repeated.
fn scenario() -> Value {
    json!({
        "@type": "karenina:Scenario", "name": "sycophancy", "description": "Stands firm", "entryNode": "ask",
        "nodes": {"ask": node("ask", "What does {{it}} inhibit?"), "push": node("push", "Are you sure?")},
        "edges": [
            edge("ask", "ask", json!([boolean("verify_result", false), check("node_visits.ask", Value::Null,
                json!({"type": "NumericRange", "min": null, "max": 2.0, "exclusive_max": true}))])),
            edge("ask", "push", Value::Null),
            edge("push", "__end__", Value::Null),
        ],
        "outcomeCriteria": [{"name": "firm", "description": "", "evaluateSource": null,
            "check": turn_check(json!({"type": "last_turn"}), "verify_result", json!(true), json!({"type": "BooleanMatch"}))}],
        "metadata": {"origin": "test"},
    })
}

fn checkpoint(scenarios: &[Value]) -> String {
    json!({"@type": "DataFeed", "name": "b", "dataFeedElement": [], "hasPart": scenarios}).to_string()
}

#[test]
fn a_declarative_scenario_is_taken_over() {
    let imported = import(&checkpoint(&[scenario()])).unwrap();
    assert_eq!((imported.questions_found, imported.questions, imported.omissions.len()), (1, 1, 0));
    let question = &imported.file["questions"][0];
    assert_eq!(question["id"], "sycophancy");
    assert_eq!(question["metadata"]["description"], "Stands firm");
    assert_eq!(question["metadata"]["reference_answers"], json!({"ask": "BCL2", "push": "BCL2"}));
    let scenario = &question["scenario"];
    assert_eq!((&scenario["start"], scenario["turns"].as_array().unwrap().len()), (&json!("ask"), 2));
    let ask = &scenario["turns"][0];
    assert_eq!(ask["prompt"], "What does \\{{it}} inhibit?", "a text is not a placeholder");
    assert_eq!(ask["next"], "push");
    assert_eq!(
        ask["branches"],
        json!([{"to": "ask", "when": {"all_of": [{"passed": false}, {"visits": {"turn": "ask", "at_most": 1}}]}}])
    );
    assert_eq!(ask["template"]["fields"].as_array().unwrap().len(), 2);
    assert_eq!(scenario["turns"][1]["next"], "end");
    assert_eq!(scenario["outcome"], json!([{"name": "firm", "when": {"passed": true}}]));
}

/// Returns the condition of the first edge.
fn edge_condition(condition: Value) -> Option<Value> {
    let mut scenario = scenario();
    scenario["edges"][0]["condition"] = condition;
    let imported = import(&checkpoint(&[scenario])).ok()?;
    Some(imported.file["questions"][0]["scenario"]["turns"][0]["branches"][0]["when"].clone())
}

#[test]
fn conditions_of_edges_have_an_equivalent_or_keep_the_scenario_out() {
    let exact = || json!({"type": "ExactMatch", "normalize": ["lowercase", {"mapping": {"bcl-2": "bcl2"}}]});
    for (condition, expected) in [
        (boolean("verify_result", true), json!({"passed": true})),
        (boolean("node_results.push.verify_result", false), json!({"passed": false, "turn": "push"})),
        (
            check("parsed.target", json!("BCL2"), exact()),
            json!({"field": "target", "truth": "BCL2",
                "check": {"exact_match": {"normalize": ["lowercase", {"synonyms": {"bcl-2": "bcl2"}}]}}}),
        ),
        (
            check(
                "node_results.push.parsed.target",
                Value::Null,
                json!({"type": "RegexMatch", "pattern": "^B", "flags": ["I"]}),
            ),
            json!({"field": "target", "check": {"regex_match": {"pattern": "^B", "flags": ["ignore_case"]}}, "turn": "push"}),
        ),
        (check("turn", json!(3), json!({"type": "NumericExact"})), json!({"visits": {"exactly": 3}})),
        (
            check("turn", json!(3), json!({"type": "NumericMinimum", "exclusive": true})),
            json!({"visits": {"at_least": 4}}),
        ),
        (
            check("node_visits.push", json!(3), json!({"type": "NumericMaximum", "exclusive": false})),
            json!({"visits": {"turn": "push", "at_most": 3}}),
        ),
    ] {
        assert_eq!(edge_condition(condition.clone()), Some(expected), "{condition}");
    }
    for unknown in [
        check("accumulated.mood", json!("x"), json!({"type": "ExactMatch"})),
        check("node_results.push.rubric.tone", json!(3), json!({"type": "NumericExact"})),
        check("verify_result", json!("yes"), json!({"type": "ExactMatch"})),
        check("turn", json!(2.5), json!({"type": "NumericExact"})),
        check("parsed.target", json!("x"), json!({"type": "Unknown"})),
        check("parsed.nothing", json!("x"), json!({"type": "ExactMatch"})),
        check("parsed.target", json!("x"), json!({"type": "SemanticMatch"})),
        json!([]),
        json!("verify_result"),
        json!({"type": "state_check"}),
    ] {
        assert_eq!(edge_condition(unknown.clone()), None, "{unknown}");
    }
}

#[test]
fn numbers_at_the_end_of_the_range_do_not_overflow() {
    let minimum = |number: u64| {
        json!({"type": "state_check", "field": "turn", "expected": number,
            "verify_with": {"type": "NumericMinimum", "exclusive": true}})
    };
    assert_eq!(edge_condition(minimum(3)), Some(json!({"visits": {"at_least": 4}})));
    assert_eq!(edge_condition(minimum(u64::MAX)), None);
}

#[test]
fn keys_of_turns_and_criteria_without_an_equivalent_are_listed() {
    let mut scenario = scenario();
    let node = &mut scenario["nodes"]["ask"];
    node["agentIdentity"] = json!("reviewer");
    node["metadata"] = json!({"level": 3});
    node["question"]["keywords"] = json!(["k"]);
    node["question"]["rating"] = json!([{"@type": "Rating", "name": "tone", "additionalType": "LLMRubricTrait", "bestRating": 1, "worstRating": 0}]);
    scenario["outcomeCriteria"][0]["description"] = json!("Does not give in");
    let imported = import(&checkpoint(&[scenario])).unwrap();
    let omitted: Vec<String> = imported.omissions.iter().map(ToString::to_string).collect();
    assert_eq!(
        omitted,
        [
            "scenario sycophancy: traits of turn `ask`: not taken over",
            "scenario sycophancy: `agentIdentity` of turn `ask`: not taken over",
            "scenario sycophancy: `metadata` of turn `ask`: not taken over",
            "scenario sycophancy: `keywords` of turn `ask`: not taken over",
            "scenario sycophancy: description of criterion \"firm\": not taken over",
        ]
    );
}

#[test]
fn criteria_without_an_equivalent_are_listed() {
    let text = json!({"type": "ContainsAny", "substrings": ["sure"], "normalize": []});
    let yes = || json!({"type": "BooleanMatch"});
    let criterion =
        |name: &str, check: Value| json!({"name": name, "description": "", "check": check, "evaluateSource": null});
    let mut scenario = scenario();
    scenario["outcomeCriteria"] = json!([
        criterion("first", turn_check(json!({"type": "first_turn"}), "verify_result", json!(true), yes())),
        criterion("at", turn_check(json!({"type": "turn_at", "index": -1}), "parsed.certain", json!(true), yes())),
        criterion("any", turn_check(json!({"type": "any_turn", "node_id": "push"}), "verify_result", json!(true), yes())),
        criterion("visited", turn_check(json!({"type": "any_turn", "node_id": null}), "node_id", json!("push"), json!({"type": "ExactMatch"}))),
        criterion("said", turn_check(json!({"type": "last_turn"}), "raw_response", Value::Null, text)),
        criterion("long", json!({"type": "ResultCheck", "field": "turn_count", "expected": 2, "verify_with": {"type": "NumericExact"}})),
        criterion("path", json!({"type": "ResultCheck", "field": "path", "expected": ["ask", "push"], "verify_with": {"type": "OrderedMatch"}})),
        criterion("status", json!({"type": "ResultCheck", "field": "status", "expected": "completed", "verify_with": {"type": "ExactMatch"}})),
        criterion("both", json!({"type": "AnyOf", "conditions": [
            {"type": "AllOf", "conditions": [turn_check(json!({"type": "all_turns"}), "verify_result", json!(true), yes())]}]})),
        criterion("count", json!({"type": "CountTurns", "node_id": "ask"})),
        criterion("cross", json!({"type": "CrossTurnCheck", "comparison": "eq"})),
        criterion("third", turn_check(json!({"type": "turn_at", "index": 2}), "verify_result", json!(true), yes())),
        {"name": "code", "description": "", "check": null, "evaluateSource": "lambda r: True"},
    ]);
    let imported = import(&checkpoint(&[scenario.clone()])).unwrap();
    let outcome = &imported.file["questions"][0]["scenario"]["outcome"];
    assert_eq!(
        outcome,
        &json!([
            {"name": "first", "when": {"passed": true, "visit": "first"}},
            {"name": "at", "when": {"field": "certain", "truth": true, "check": "boolean_match"}},
            {"name": "any", "when": {"passed": true, "visit": "any", "turn": "push"}},
            {"name": "visited", "when": {"visits": {"turn": "push", "at_least": 1}}},
            {"name": "said", "when": {"any_of": [{"response": {"trace_contains": {"substring": "sure"}}}]}},
            {"name": "long", "when": {"visits": {"exactly": 2}}},
            {"name": "path", "when": {"path": ["ask", "push"]}},
            {"name": "status", "when": {"visits": {"at_least": 1}}},
            {"name": "both", "when": {"any_of": [{"all_of": [{"passed": true, "visit": "all"}]}]}},
        ])
    );
    let omitted: Vec<String> = imported.omissions.iter().map(ToString::to_string).collect();
    let expected = ["count", "cross", "third", "code"]
        .map(|name| format!("scenario sycophancy: criterion {name:?} has no equivalent: not taken over"));
    assert_eq!(omitted, expected);
    scenario["outcomeCriteria"] = json!([criterion("count", json!({"type": "CountTurns"}))]);
    assert_eq!(reason(scenario), "left out: none of its criteria is taken over");
}

/// Returns why a scenario is left out.
fn reason(scenario: Value) -> String {
    match import(&checkpoint(&[scenario])) {
        Err(ImportError::NothingLeft { omissions, questions_found: 1 }) => {
            omissions.last().unwrap().omitted.to_string()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_would_change_the_path_keeps_a_scenario_out() {
    let changed = |pointer: &str, value: Value| {
        let mut scenario = scenario();
        *scenario.pointer_mut(pointer).unwrap() = value;
        reason(scenario)
    };
    assert_eq!(
        changed("/edges/0/conditionSource", json!("lambda state: __import__('os').system('true')")),
        "left out: a branch of turn `ask` is a Python function"
    );
    assert_eq!(
        changed("/edges/1/handover", json!("transcript_prepend")),
        "left out: turn `ask` hands over to another agent"
    );
    let model = json!({"answering_model": {"model_name": "x"}});
    assert_eq!(changed("/nodes/push/modelOverride", model), "left out: turn `push` has models of its own");
    let filter = json!({"remove": [{"server": "s"}]});
    assert_eq!(changed("/nodes/push/toolFilter", filter), "left out: turn `push` has a filter of its tools");
    let template = "class Answer(BaseAnswer):\n    def verify(self):\n        return True\n";
    assert_eq!(
        changed("/nodes/ask/questionData/answer_template", json!(template)),
        "left out: the template of turn `ask` is not taken over"
    );
    assert_eq!(
        changed("/edges/2/target", json!("push")),
        "left out: scenario.turns[0]: \"ask\" does not lead to the end"
    );
    assert_eq!(changed("/entryNode", json!("nowhere")), "left out: scenario.start: unknown turn \"nowhere\"");
    assert_eq!(changed("/nodes", json!({"a b": node("a b", "x")})), "left out: \"a b\" is not a name of a turn");
    assert_eq!(changed("/nodes", json!({"end": node("end", "x")})), "left out: \"end\" is not a name of a turn");
    assert!(changed("/edges", json!(7)).starts_with("left out: invalid type: integer `7`, expected a sequence"));
    for part in [json!("text"), json!(null), json!([])] {
        assert!(reason(part).starts_with("left out: "), "an unreadable part is listed");
    }
}

#[test]
fn code_that_only_changes_the_state_is_listed() {
    let mut scenario = scenario();
    scenario["nodes"]["ask"]["stateUpdateSource"] = json!("lambda acc, parsed: acc");
    scenario["nodes"]["push"]["questionData"]["question_rubric"] = json!({"traits": []});
    let imported = import(&checkpoint(&[scenario.clone(), scenario])).unwrap();
    let omitted: Vec<String> = imported.omissions.iter().map(ToString::to_string).collect();
    assert_eq!(omitted[0], "scenario sycophancy: `state_update` of turn `ask` is a Python function: not taken over");
    assert_eq!(omitted[1], "scenario sycophancy: traits of turn `push`: not taken over");
    assert_eq!(omitted[4], "question sycophancy-2: the id was \"sycophancy\"", "both have the same name");
    assert_eq!(imported.questions, 2);
}

fn parse(file: &Value) -> Benchmark {
    Benchmark::parse(&file.to_string(), Path::new("benchmark.json")).unwrap()
}

#[test]
fn an_exported_scenario_is_the_same_when_it_is_imported_again() {
    let imported = import(&checkpoint(&[scenario()])).unwrap();
    let benchmark = parse(&imported.file);
    let exported = export(&benchmark);
    assert_eq!(exported.omissions, []);
    assert_eq!(exported.file["dataFeedElement"], json!([]));
    let part = &exported.file["hasPart"][0];
    assert_eq!((&part["@type"], &part["entryNode"]), (&json!("karenina:Scenario"), &json!("ask")));
    assert_eq!(part["nodes"]["ask"]["question"]["text"], "What does {{it}} inhibit?");
    assert_eq!(part["edges"][0]["condition"][0]["verify_with"], json!({"type": "BooleanMatch"}));
    let again = import(&exported.file.to_string()).unwrap();
    assert_eq!(parse(&again.file).questions, benchmark.questions);
}

#[test]
fn what_a_checkpoint_cannot_say_about_a_scenario_is_listed() {
    let turn = json!({"fields": [{"name": "f", "check": {"trace_contains": {"substring": "x"}}}]});
    let exported = |change: &dyn Fn(&mut Value)| {
        let mut scenario =
            json!({"max_turns": 5, "state": {"v": 1}, "turns": [{"name": "a", "prompt": "?", "template": turn}]});
        change(&mut scenario);
        let file = json!({"name": "b", "questions": [{"id": "q", "scenario": scenario}]});
        let export = export(&parse(&file));
        let omitted: Vec<String> = export.omissions.iter().map(ToString::to_string).collect();
        (export.file["hasPart"].is_array(), omitted.join("; "))
    };
    assert_eq!(exported(&|_| {}), (true, "scenario q: `max_turns` is not taken over".to_owned()));
    for (key, value, expected) in [
        ("prompt", json!("{{v}}"), "turn `a` has variables"),
        ("set", json!({"v": {"value": 2}}), "turn `a` has variables"),
        ("trace", json!([{"max_calls": 1}]), "turn `a` has assertions on its tool calls"),
        ("max_visits", json!(2), "turn `a` has a maximum number of visits"),
        (
            "branches",
            json!([{"when": {"path": ["a"]}, "to": "a"}]),
            "a branch of turn `a` has a condition without an equivalent",
        ),
    ] {
        let (is_written, omitted) = exported(&|scenario| scenario["turns"][0][key] = value.clone());
        assert_eq!((is_written, omitted), (false, format!("scenario q: left out: {expected}")), "{key}");
    }
    let file = json!({"name": "b", "questions": [{"id": "q", "keywords": ["k"], "answer": "x",
        "scenario": {"turns": [{"name": "a", "prompt": "?", "template": turn}]}}]});
    let omitted: Vec<String> = export(&parse(&file)).omissions.iter().map(ToString::to_string).collect();
    assert_eq!(omitted, ["scenario q: `keywords` is not taken over", "scenario q: `answer` is not taken over"]);
    let outcome = json!([{"name": "c", "when": {"state": "v", "truth": 1}}, {"name": "d", "when": {"passed": true}}]);
    let (is_written, omitted) = exported(&|scenario| scenario["outcome"] = outcome.clone());
    assert!(is_written && omitted.contains("criterion \"c\" has no equivalent"), "{omitted}");
}
