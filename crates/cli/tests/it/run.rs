//! `wharf run`: canned turns over live tools.

mod from_file;
mod models;

use std::time::Duration;

use serde_json::{Value, json};
use wharf_testkit::{Script, Step};

use crate::{Person, Server, USER, good, ran, screen, wharf};

/// A server with one tool that deletes, one that reads, and one that is long.
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

/// A file of turns beside the server.
fn turns(server: &Server, text: &str) -> String {
    let file = server.path().join("turns.yaml");
    std::fs::write(&file, text).unwrap();
    format!("scripted:{}", file.display())
}

fn calling(tools: &[&str]) -> String {
    let calls: Vec<String> = tools.iter().map(|tool| format!("    - name: mcp__s__{tool}\n")).collect();
    format!("- text: working\n  tools:\n{}- text: done\n", calls.concat())
}

/// Without how long calls took.
fn timeless(text: &str) -> String {
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
fn the_script_speaks_its_tools_are_called_and_its_last_word_is_the_answer() {
    let server = server();
    let model = turns(
        &server,
        "- text: Let me add.\n  tools:\n    - {name: mcp__s__add, arguments: {a: 40, b: \"2\"}}\n    - name: mcp__s__ad\n- text: It is 42.\n",
    );
    insta::assert_snapshot!(timeless(&screen(&server.run(&["run", "-m", &model, "How much?"]))));
    let shown = run(&server, &model, &[]);
    assert_eq!(shown["final_response"], "It is 42.");
    assert_eq!(shown["servers"], json!([{"name": "s", "state": "connected", "tools": 5}]));
}

#[test]
fn what_destroys_is_asked_about_and_without_a_person_it_is_not_done() {
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
fn what_only_reads_is_done_together_and_the_rest_in_order() {
    let server = server();
    let millis = |shown: &Value| {
        let calls = shown["tool_traces"].as_array().unwrap();
        calls.iter().map(|call| call["millis"].as_u64().unwrap()).sum::<u64>()
    };
    let model = turns(&server, &calling(&["look", "look", "add", "look"]));
    let began = tokio::time::Instant::now();
    let shown = run(&server, &model, &[]);
    // Three looks of 400 ms, two of them at the same time; the sum is what each took for itself.
    assert!(millis(&shown) >= 1200, "{}", millis(&shown));
    assert!(began.elapsed() >= Duration::from_millis(800));
    let order =
        |place: usize| shown["trace_messages"][place]["tool_result"]["tool_use_id"].as_str().unwrap().to_owned();
    assert_eq!([1, 2, 3, 4].map(order), ["call_1_1", "call_1_2", "call_1_3", "call_1_4"]);
}

#[test]
fn what_is_too_long_for_a_model_is_cut_and_can_be_read_on() {
    let server = server();
    let first = turns(&server, &calling(&["long"]));
    let shown = run(&server, &first, &[]);
    let long = shown["trace_messages"][1]["content"].as_str().unwrap();
    assert!(long.len() < 110_000 && long.contains("read_output"), "{}", &long[long.len() - 300..]);
    // A script does not see what it is told, but ids are given in order.
    let id = shown["tool_traces"][0]["steps"].as_array().unwrap().iter().find_map(|step| step["kept_as"].as_str());
    let read = format!("    - {{name: read_output, arguments: {{id: {}, offset: 199990, length: 10}}}}\n", id.unwrap());
    let second = turns(&server, &format!("- tools:\n    - name: mcp__s__long\n- tools:\n{read}- text: done\n"));
    let shown = run(&server, &second, &[]);
    let more = shown["trace_messages"][3]["content"].as_str().unwrap();
    assert!(more.contains("0123456789"), "{more}");
}

#[test]
fn a_run_that_needs_a_server_does_not_begin_without_it() {
    let server = server();
    let model = turns(&server, &calling(&["look"]));
    let missing = ["--mcp", "other=no-such-command-anywhere"];
    let named = server.run(&[&["run", "-m", &model, "go"], &missing[..]].concat());
    assert!(named.code == 4 && named.err.contains("no-such-command-anywhere"), "{} {}", named.code, named.err);

    let person = Person::new().with(USER, "demo", &good()).with(USER, "broken", &json!({"command": "no-such-command"}));
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
    let nobody = Person::new();
    nobody.write("project/turns.yaml", "- text: hello\n");
    let alone = nobody.run(&["run", "-m", "scripted:turns.yaml", "go"]);
    assert_eq!((alone.code, alone.out.as_str()), (0, "hello\n"), "a model without servers just speaks");
}

#[test]
fn turns_have_a_limit() {
    let server = server();
    let model = turns(&server, &calling(&["add", "add"]));
    let shown = run(&server, &model, &["--max-turns", "1"]);
    assert_eq!((&shown["limit_reached"], &shown["final_response"]), (&json!(true), &Value::Null));
    assert_eq!(server.run(&["run", "-m", &model, "--max-turns", "1", "go"]).code, 1);
}

#[test]
fn what_is_no_model_and_what_is_no_script_are_told() {
    let server = server();
    let told =
        |model: &str| screen(&ran(wharf(&["run", "-m", model, "go"]))).replace(server.path().to_str().unwrap(), "");
    let odd = turns(&server, "- text: hello\n  tool: add\n");
    insta::assert_snapshot!([told("gpt"), told("scripted:nowhere.yaml"), told(&odd)].join("\n"));
}
