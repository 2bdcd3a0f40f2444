//! Modes, rubrics and judges, from the command line.

use serde_json::{Value, json};

use crate::Person;

const BENCHMARK: &str = "
name: greetings
questions:
  - id: hello
    question: Say hello.
    template:
      fields:
        - { name: greeting, type: str, description: The greeting, truth: hello, check: exact_match }
    rubric: [short, polite]
rubric:
  short: { kind: regex, pattern: 'hel+o' }
  polite: { kind: llm_boolean, description: The answer is polite }
";

/// A user with a benchmark, a model that says hello, and a judge with these turns.
fn person(judge: &Value) -> Person {
    let person = Person::new();
    person.write("project/benchmark.yaml", BENCHMARK);
    person.write("project/model.yaml", "- text: hello\n");
    person.write("project/judge.yaml", &judge.to_string());
    person
}

/// Runs the benchmark and returns its only result.
fn result(person: &Person, more: &[&str]) -> Value {
    let start = ["verify", "run", "benchmark.yaml", "-m", "scripted:model.yaml", "--judge", "scripted:judge.yaml"];
    let ran = person.run(&[&start[..], &["--output", "r.jsonl"], more].concat());
    assert_eq!(ran.code, 0, "{} {}", ran.out, ran.err);
    serde_json::from_str(person.read("project/r.jsonl").trim()).unwrap()
}

#[test]
fn every_mode_evaluates_its_own_parts() {
    let (fields, traits) = (json!({"greeting": "hello"}), json!({"trait_1": {"reasoning": "r", "value": true}}));
    let (fields, traits) = (json!({ "json": fields }), json!({ "json": traits }));
    let values = json!([{"boolean": true}, {"boolean": true}]);
    let cases = [
        ("template-only", json!([&fields]), true, Value::Null),
        ("template-and-rubric", json!([&fields, &traits]), true, values.clone()),
        ("rubric-only", json!([&traits]), false, values),
    ];
    for (mode, judge, has_template, values) in cases {
        let result = result(&person(&judge), &["--mode", mode]);
        assert_eq!(result["verdict"], "passed", "{mode}: {result}");
        assert_eq!(result["template"].is_object(), has_template, "{mode}: {result}");
        let traits = result["rubric"]["traits"].as_array();
        let found = traits.map(|traits| traits.iter().map(|of| of["value"].clone()).collect::<Vec<_>>());
        assert_eq!(json!(found), values, "{mode}: {result}");
    }
}

#[test]
fn judges_are_scored_against_labels() {
    let wrong = json!({"json": {"greeting": "bye"}});
    // The second judge passes everything.
    let person = person(&json!([{"json": {"greeting": "hello"}}, &wrong, {"text": "?"}, {"text": "?"}, {"text": "?"}]));
    person.write("project/kind.yaml", &json!(vec![json!({"json": {"greeting": "hello"}}); 3]).to_string());
    person.write(
        "project/labels.yaml",
        "- { question: hello, answer: hello, label: passed, fields: { greeting: Hello } }\n\
         - { question: hello, answer: bye, label: failed }\n\
         - { question: hello, answer: good day, label: passed }\n",
    );
    let start = ["verify", "judge-check", "benchmark.yaml", "labels.yaml", "--judge", "scripted:judge.yaml"];
    let start = [&start[..], &["--judge", "scripted:kind.yaml", "--concurrency", "1"]].concat();
    let ran = person.run(&[&start[..], &["--json"]].concat());
    assert_eq!(ran.code, 1, "an answer has no verdict: {}", ran.err);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (&report["labels"], &report["ok"], &report["benchmark"]),
        (&json!(3), &json!(false), &json!("greetings"))
    );
    let strict = &report["judges"][0];
    let expected = json!({"rightly_passed": 1, "wrongly_passed": 0, "rightly_failed": 1, "wrongly_failed": 0});
    assert_eq!((&strict["confusion"], &strict["unscored"], &strict["accuracy"]), (&expected, &json!(1), &json!(1.0)));
    assert_eq!((&strict["kappa"], &strict["fields"]), (&json!(1.0), &json!({"compared": 1, "same": 1})));
    let kind = &report["judges"][1];
    let expected = json!({"rightly_passed": 2, "wrongly_passed": 1, "rightly_failed": 0, "wrongly_failed": 0});
    assert_eq!((&kind["judge"], &kind["confusion"]), (&json!("scripted:kind.yaml"), &expected));
    let shown = person.run(&start);
    assert!(shown.out.contains("WRONGLY PASSED") && shown.out.contains("66.7 %"), "{}", shown.out);
}

#[test]
fn mistakes_of_a_judge_check_are_reported_before_anything_is_sent() {
    let person = person(&json!([{"text": "never asked"}]));
    person.write("project/labels.yaml", "- { question: helo, answer: hello, label: passed }\n");
    let run = |more: &[&str]| person.run(&[&["verify", "judge-check", "benchmark.yaml", "labels.yaml"], more].concat());
    let ran = run(&["--judge", "scripted:judge.yaml"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("label 1: unknown question \"helo\"") && ran.err.contains("`hello`"), "{}", ran.err);
    person.write("project/labels.yaml", "- { question: hello, answer: hello, label: passed }\n");
    assert!(run(&[]).err.contains("hint: choose one with --judge MODEL"));
    let ran = run(&["--judge", "scripted:judge.yaml", "-m", "scripted:model.yaml"]);
    assert!(ran.code == 2 && ran.err.contains("judge-check has no answering model"), "{}", ran.err);
}
