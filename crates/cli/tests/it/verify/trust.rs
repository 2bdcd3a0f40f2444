//! What a benchmark may start, and whose rules apply.

use serde_json::json;

use super::json_of;
use crate::{Person, USER, demo_entry};

/// Writes a benchmark with one question, a model that calls `write_note`, and the server `demo`.
fn write_files(person: &Person, server: &serde_json::Value) {
    let benchmark = json!({"name": "notes", "servers": {"demo": server}, "defaults": {"required_servers": ["demo"]},
        "questions": [{"id": "note", "question": "Write a note.", "trace": [{"called": "write_note"}]}]});
    person.write("project/benchmark.json", &benchmark.to_string());
    let call = "{name: mcp__demo__write_note, arguments: {text: docked}}";
    person.write("project/model.yaml", &format!("prompts:\n  Write a note.: [{{tools: [{call}]}}, {{text: Done.}}]\n"));
}

const RUN: [&str; 5] = ["verify", "run", "benchmark.json", "-m", "scripted:model.yaml"];

#[test]
fn a_command_of_a_benchmark_needs_approval_or_trust() {
    let person = Person::new();
    let marker = person.path("started");
    write_files(&person, &crate::entry_touching(&marker));
    let denied = person.run(&RUN);
    assert_eq!(denied.code, 2);
    assert!(denied.err.contains("server `demo` runs a command that you have not approved"), "{}", denied.err);
    assert!(!marker.exists(), "it was not started");
    let trusted = person.run(&[&RUN[..], &["--trust", "--json"]].concat());
    assert_eq!((trusted.code, &json_of(&trusted)["models"][0]["passed"]), (0, &json!(1)), "{}", trusted.err);
    assert!(marker.exists());
}

#[test]
fn the_embedded_server_needs_no_approval() {
    let person = Person::new();
    write_files(&person, &json!("wharf:demo"));
    let ran = person.run(&RUN);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn a_call_that_a_rule_of_the_user_denies_makes_the_unit_invalid() {
    let person = Person::new();
    write_files(&person, &json!("wharf:demo"));
    let rule = json!({"rules": [{"when": "mcp__demo__write_note", "then": "deny"}]});
    person.write(USER, &json!({"mcpServers": {}, "policy": rule}).to_string());
    let ran = person.run(&[&RUN[..], &["--json"]].concat());
    let report = json_of(&ran);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert_eq!((&report["models"][0]["invalid"], &report["models"][0]["accuracy"]), (&json!(1), &json!(null)));
}

#[test]
fn configured_servers_never_enter_a_run() {
    let person = Person::new().with(USER, "mine", &demo_entry());
    write_files(&person, &json!("wharf:demo"));
    person
        .write("project/model.yaml", "prompts:\n  Write a note.: [{tools: [{name: mcp__mine__now}]}, {text: Done.}]\n");
    let ran = person.run(&[&RUN[..], &["--output", "r.jsonl"]].concat());
    assert_eq!(ran.code, 0, "the assertion fails, which is a verdict: {}", ran.err);
    let result = person.read("project/r.jsonl");
    assert!(result.contains(r#""verdict":"failed""#), "{result}");
    assert!(result.contains("mcp__mine__now") && !result.contains("T1"), "{result}");
}

#[test]
fn a_required_server_that_is_unreachable_ends_the_command_before_the_run() {
    let person = Person::new();
    write_files(&person, &json!({"command": "false"}));
    let ran = person.run(&[&RUN[..], &["--trust"]].concat());
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.err.contains("error: demo:"), "{}", ran.err);
    assert!(!person.path("home/.local/state/wharf/verify.db").exists(), "nothing was planned");
}

#[test]
fn variables_of_a_benchmark_need_approval_or_trust() {
    let person = Person::new();
    let endpoint = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", endpoint.local_addr().unwrap());
    write_files(&person, &json!({"url": url, "headers": {"X": "${MY_TOKEN}"}}));
    let mut wharf = person.wharf(&RUN);
    wharf.env("MY_TOKEN", "made-up-token");
    let ran = crate::ran(wharf);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("server `demo` reads your variables, which you have not approved"), "{}", ran.err);
    endpoint.set_nonblocking(true).unwrap();
    assert!(endpoint.accept().is_err(), "nothing was sent");
}

#[test]
fn flags_for_servers_are_refused() {
    let person = Person::new();
    write_files(&person, &json!("wharf:demo"));
    for (flag, value) in [("--mcp", "x=y"), ("--header", "A: b"), ("--env", "A=b")] {
        let ran = person.run(&[&RUN[..], &[flag, value]].concat());
        assert_eq!(ran.code, 2, "{flag}");
        assert!(ran.err.contains(&format!("{flag} has no effect on a verification run")), "{}", ran.err);
    }
}

#[test]
fn a_misspelled_tool_of_an_assertion_is_an_error_before_anything_is_asked() {
    let person = Person::new();
    write_files(&person, &json!("wharf:demo"));
    let benchmark = person.read("project/benchmark.json").replace("\"write_note\"", "\"write_not\"");
    person.write("project/benchmark.json", &benchmark);
    let ran = person.run(&RUN);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("question `note`: no server offers the tool `write_not` of its assertion"), "{}", ran.err);
    assert!(ran.err.contains("hint: did you mean `write_note`?"), "{}", ran.err);
}
