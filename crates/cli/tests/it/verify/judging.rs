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
