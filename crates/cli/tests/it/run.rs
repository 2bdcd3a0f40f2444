//! `wharf run` with scripted models and live tools.

mod cleanup;
mod instructions;
mod models;
mod models_file;
mod secrets;

use std::time::Duration;

use serde_json::{Value, json};
use wharf_testkit::{Script, Step};

use crate::{Person, Server, USER, demo_entry, ran, screen, wharf};

/// A server with a destructive tool, a read-only tool, and a tool with long output.
fn server() -> Server {
    let tool =
        |name: &str, hints: Value| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": hints});
    let script = Script::good()
        .tool(tool("delete", json!({"destructiveHint": true})))
        .tool(tool("look", json!({"readOnlyHint": true})))
        .any_tool("long")
        .on_call("delete", [Step::Touch("$/deleted".into()), Step::Text("gone".into())])
        .on_call("look", [Step::Wait(400), Step::Text("seen".into())])
        .on_call("long", [Step::Text("0123456789".repeat(20_000))]);
    Server::new(&script)
}

/// Writes a file of turns in the server's directory. Returns the model that reads it.
fn turns(server: &Server, text: &str) -> String {
    let file = server.path().join("turns.yaml");
    std::fs::write(&file, text).unwrap();
    format!("scripted:{}", file.display())
}

fn calling(tools: &[&str]) -> String {
    let calls: Vec<String> = tools.iter().map(|tool| format!("    - name: mcp__s__{tool}\n")).collect();
    format!("- text: working\n  tools:\n{}- text: done\n", calls.concat())
}

/// Replaces the durations of calls.
fn without_durations(text: &str) -> String {
    let line = |line: &str| match line.rsplit_once(" (") {
        Some((before, time)) if time.ends_with("ms)") => format!("{before} (N ms)"),
        _ => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn run(server: &Server, model: &str, more: &[&str]) -> Value {
    let ran = server.run(&[&["run", "-m", model, "--json", "go"], more].concat());
    serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{} {}", ran.out, ran.err))
}

#[test]
fn a_scripted_model_calls_tools_and_answers() {
    let server = server();
    let model = turns(
        &server,
        "- text: Let me add.\n  tools:\n    - {name: mcp__s__add, arguments: {a: 40, b: \"2\"}}\n    - name: mcp__s__ad\n- text: It is 42.\n",
    );
    insta::assert_snapshot!(without_durations(&screen(&server.run(&["run", "-m", &model, "How much?"]))));
    let shown = run(&server, &model, &[]);
    assert_eq!(shown["final_response"], "It is 42.");
    assert_eq!(shown["servers"], json!([{"name": "s", "state": "connected", "tools": 5}]));
}

#[test]
fn destructive_calls_are_denied_without_a_terminal() {
    let server = server();
    let model = turns(&server, &calling(&["delete"]));
    let shown = run(&server, &model, &[]);
    let result = &shown["trace_messages"][1];
    assert_eq!(result["tool_result"]["is_error"], true);
    insta::assert_snapshot!(result["content"].as_str().unwrap());
    assert!(!server.path().join("deleted").exists());
    assert_eq!(shown["final_response"], "done", "the model goes on");
    let allowed = run(&server, &model, &["--allow", "mcp__s__delete"]);
    assert_eq!(allowed["trace_messages"][1]["content"], "gone");
    assert_eq!(allowed["tool_traces"][0]["steps"][0]["by"], "--allow mcp__s__delete");
    assert!(server.path().join("deleted").exists());
}

#[test]
fn read_only_calls_run_concurrently_and_others_in_order() {
    let server = server();
    let millis = |shown: &Value| {
        let calls = shown["tool_traces"].as_array().unwrap();
        calls.iter().map(|call| call["millis"].as_u64().unwrap()).sum::<u64>()
    };
    let model = turns(&server, &calling(&["look", "look", "add", "look"]));
    let began = tokio::time::Instant::now();
    let shown = run(&server, &model, &[]);
    // Three calls of 400 ms, two of them concurrent; `millis` sums up the duration of each call.
    assert!(millis(&shown) >= 1200, "{}", millis(&shown));
    assert!(began.elapsed() >= Duration::from_millis(800));
    let order =
        |place: usize| shown["trace_messages"][place]["tool_result"]["tool_use_id"].as_str().unwrap().to_owned();
    assert_eq!([1, 2, 3, 4].map(order), ["call_1_1", "call_1_2", "call_1_3", "call_1_4"]);
}

#[test]
fn long_output_is_truncated_and_can_be_read_in_parts() {
    let server = server();
    let first = turns(&server, &calling(&["long"]));
    let shown = run(&server, &first, &[]);
    let long = shown["trace_messages"][1]["content"].as_str().unwrap();
    assert!(long.len() < 110_000 && long.contains("read_output"), "{}", &long[long.len() - 300..]);
    // A script cannot read results, but ids are assigned in order.
    let id = shown["tool_traces"][0]["steps"].as_array().unwrap().iter().find_map(|step| step["kept_as"].as_str());
    let read = format!("    - {{name: read_output, arguments: {{id: {}, offset: 199990, length: 10}}}}\n", id.unwrap());
    let second = turns(&server, &format!("- tools:\n    - name: mcp__s__long\n- tools:\n{read}- text: done\n"));
    let shown = run(&server, &second, &[]);
    let more = shown["trace_messages"][3]["content"].as_str().unwrap();
    assert!(more.contains("0123456789"), "{more}");
}

#[test]
fn a_run_does_not_start_without_its_required_servers() {
    let server = server();
    let model = turns(&server, &calling(&["look"]));
    let missing = ["--mcp", "other=no-such-command-anywhere"];
    let named = server.run(&[&["run", "-m", &model, "go"], &missing[..]].concat());
    assert!(named.code == 4 && named.err.contains("no-such-command-anywhere"), "{} {}", named.code, named.err);

    let person =
        Person::new().with(USER, "demo", &demo_entry()).with(USER, "broken", &json!({"command": "no-such-command"}));
    person.write("project/turns.yaml", "- text: hello\n");
    let loose = person.run(&["run", "-m", "scripted:turns.yaml", "go"]);
    assert_eq!((loose.code, loose.out.as_str()), (0, "hello\n"));
    assert!(loose.err.contains("broken is not connected; continuing without its tools"), "{}", loose.err);
    let strict = person.run(&["run", "-m", "scripted:turns.yaml", "--strict", "go"]);
    assert_eq!((strict.code, strict.out.as_str()), (4, ""));
    let torn = Person::new().with(USER, "torn", &json!({"commnad": "x", "required": true}));
    torn.write("project/turns.yaml", "- text: hello\n");
    let needed = torn.run(&["run", "-m", "scripted:turns.yaml", "go"]);
    assert!(needed.code == 2 && needed.out.is_empty() && needed.err.contains("torn"), "{}", needed.err);
    let without_servers = Person::new();
    without_servers.write("project/turns.yaml", "- text: hello\n");
    let alone = without_servers.run(&["run", "-m", "scripted:turns.yaml", "go"]);
    assert_eq!((alone.code, alone.out.as_str()), (0, "hello\n"), "a model without servers just speaks");
}

#[test]
fn max_turns_limits_a_run() {
    let server = server();
    let model = turns(&server, &calling(&["add", "add"]));
    let shown = run(&server, &model, &["--max-turns", "1"]);
    assert_eq!((&shown["limit_reached"], &shown["final_response"]), (&json!(true), &Value::Null));
    assert_eq!(server.run(&["run", "-m", &model, "--max-turns", "1", "go"]).code, 1);
}

#[test]
fn invalid_models_and_scripts_are_usage_errors() {
    let server = server();
    let show =
        |model: &str| screen(&ran(wharf(&["run", "-m", model, "go"]))).replace(server.path().to_str().unwrap(), "");
    let odd = turns(&server, "- text: hello\n  tool: add\n");
    insta::assert_snapshot!([show("gpt"), show("scripted:nowhere.yaml"), show(&odd)].join("\n"));
}
