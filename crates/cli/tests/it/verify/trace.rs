//! `wharf verify trace`, and logs of Inspect.

use serde_json::{Value, json};

use super::{json_of, quickstart};
use crate::{Person, screen};

/// A person with a benchmark whose server would fail, and a judge.
fn person() -> Person {
    let person = Person::new();
    let benchmark = "name: sums\nservers: { broken: no-such-command }\ndefaults: { required_servers: [broken] }\nquestions:\n  \
        - id: sum\n    question: How much is 2+2?\n    template:\n      fields:\n        \
        - { name: sum, type: int, description: The sum, truth: 4, check: numeric_exact }\n    \
        trace: [{ called: add, with: { a: 2 } }]\n  - id: color\n    question: Which color?\n    \
        trace: [{ not_called: paint }]\n";
    person.write("project/sums.yaml", benchmark);
    person.write(
        "project/judge.yaml",
        "prompts:\n  It is 4.: [{ json: { sum: 4 } }]\n  It is 5.: [{ json: { sum: 5 } }]\n",
    );
    person
}

fn conversation(answer: &str) -> Value {
    json!([
        {"role": "user", "content": "How much is 2+2?"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{\"a\": 2, \"b\": 2}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "4"},
        {"role": "assistant", "content": answer},
    ])
}

const JUDGED: [&str; 4] = ["--benchmark", "sums.yaml", "--judge", "scripted:judge.yaml"];

fn trace(person: &Person, more: &[&str]) -> crate::RunOutput {
    person.run(&[&["verify", "trace"], more, &JUDGED[..]].concat())
}

#[test]
fn a_message_log_is_judged_without_starting_a_server() {
    let person = person();
    person.write("project/log.json", &conversation("It is 4.").to_string());
    let ran = trace(&person, &["log.json", "--question", "sum", "--output", "r.jsonl"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let result: Value = serde_json::from_str(&person.read("project/r.jsonl")).unwrap();
    assert_eq!((&result["verdict"], &result["model"]["label"]), (&json!("passed"), &json!("log")));
    assert_eq!(result["template"]["fields"][0]["extracted"], json!(4));
    assert_eq!(result["assertions"][0]["passed"], json!(true));
}

#[test]
fn many_logs_are_judged_at_once_and_their_results_can_be_judged_again() {
    let person = person();
    let line = |model: &str, answer: &str| json!({"model": model, "messages": conversation(answer)}).to_string();
    let color = json!({"question_id": "color", "model": "a", "messages": [{"role": "assistant", "content": "Red."}]});
    person.write("project/log.jsonl", &[line("a", "It is 4."), line("b", "It is 5."), color.to_string()].join("\n"));
    let ran = trace(&person, &["log.jsonl", "--output", "r.jsonl", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let report = json_of(&ran);
    assert_eq!(report["planned"], json!(3), "only what the log has");
    let models: Vec<_> =
        report["models"].as_array().unwrap().iter().map(|of| (&of["model"], &of["accuracy"])).collect();
    assert_eq!(models, [(&json!("a"), &json!(1.0)), (&json!("b"), &json!(0.0))]);
    let again = trace(&person, &["r.jsonl", "--json"]);
    assert_eq!(json_of(&again)["models"].as_array().unwrap().len(), 2, "{}", again.err);
}

#[test]
fn errors_name_the_log_and_the_fix() {
    let person = person();
    person.write("project/log.json", "[{\"role\": \"assistant\", \"content\": \"It is 4.\"}]");
    insta::assert_snapshot!(screen(&trace(&person, &["log.json"])), @r"
    exit 2
    --- stdout
    --- stderr
    error: log.json: the question is not known: its first message is not the text of a question, and it has no `question_id`
    hint: name it with --question ID
    ");
    let with_model = trace(&person, &["log.json", "-m", "scripted:judge.yaml"]);
    assert_eq!(with_model.code, 2);
    assert!(with_model.err.contains("-m has no effect"), "{}", with_model.err);
}

#[test]
fn a_directory_gets_a_log_of_inspect_for_every_model() {
    let person = Person::new();
    std::fs::create_dir(person.path("project/logs")).unwrap();
    let ran = quickstart(&person, &["--output", "logs"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let mut models = Vec::new();
    for entry in std::fs::read_dir(person.path("project/logs")).unwrap() {
        let path = entry.unwrap().path();
        let log: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!((&log["status"], log["samples"].as_array().unwrap().len()), (&json!("success"), 12));
        assert!(log["samples"][0]["input"].as_str().unwrap().len() > 10, "the text of the question");
        models.push(log["eval"]["metadata"]["model"]["label"].as_str().unwrap().to_owned());
    }
    models.sort();
    assert_eq!(models.len(), 2, "{models:?}");
}
