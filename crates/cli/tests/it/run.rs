//! `wharf run` with scripted models and live tools.

mod cleanup;
mod instructions;
mod late;
mod long;
mod many_tools;
pub(crate) mod models;
mod models_file;
mod prompt;
mod provider_errors;
mod questions;
mod secrets;

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
        // On a busy machine a call takes seconds.
        Some((before, time)) if time.ends_with(" ms)") || time.ends_with(" s)") => format!("{before} (N ms)"),
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
fn calls_of_unknown_tools_and_with_invalid_arguments_are_not_counted_as_made() {
    let server = server();
    let model = turns(
        &server,
        "- tools:\n    - {name: mcp__s__add, arguments: {a: 40, b: 2}}\n    - {name: mcp__s__add, arguments: {a: x}}\n    - name: mcp__s__ad\n- text: done\n",
    );
    let metrics = &run(&server, &model, &[])["metrics"];
    assert_eq!((&metrics["tool_calls"], &metrics["blocked_tool_calls"]), (&json!(1), &json!(2)), "{metrics}");
    assert_eq!(metrics["tool_call_counts"], json!({"mcp__s__add": 1}), "{metrics}");
    assert_eq!(metrics["suspect_failed_tool_calls"], 0, "{metrics}");
}

#[test]
fn a_tool_left_out_for_its_size_is_named_once() {
    let large = json!({"name": "large", "inputSchema": {"type": "object", "description": "x".repeat(70_000)}});
    let server = Server::new(&Script::good().tool(large));
    let model = turns(&server, "- text: done\n");
    let ran = server.run(&["run", "-m", &model, "Go"]);
    assert_eq!(ran.err.matches("`large`: left out: its definition has").count(), 1, "{}", ran.err);
    assert!(!server.run(&["run", "-q", "-m", &model, "Go"]).err.contains("large"));
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
    let metrics = &shown["metrics"];
    assert_eq!((&metrics["tool_calls"], &metrics["blocked_tool_calls"]), (&json!(0), &json!(1)), "{metrics}");
    assert_eq!((&metrics["tools_used"], &metrics["suspect_failed_tool_calls"]), (&json!([]), &json!(0)), "{metrics}");
    let allowed = run(&server, &model, &["--allow", "mcp__s__delete"]);
    assert_eq!(allowed["trace_messages"][1]["content"], "gone");
    let metrics = &allowed["metrics"];
    assert_eq!((&metrics["tool_calls"], &metrics["blocked_tool_calls"]), (&json!(1), &json!(0)), "{metrics}");
    assert_eq!(allowed["tool_traces"][0]["steps"][0]["by"], "--allow mcp__s__delete");
    assert!(server.path().join("deleted").exists());
}

#[test]
fn read_only_calls_run_concurrently_and_others_in_order() {
    // The first call ends only when the second one has started: executed one after the other, it would time out.
    let tool =
        |name: &str, hints: Value| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": hints});
    let script = Script::good()
        .tool(tool("first", json!({"readOnlyHint": true})))
        .tool(tool("second", json!({"readOnlyHint": true})))
        .tool(tool("write", json!({})))
        .on_call("first", [Step::AwaitFile("$/second".into()), Step::Text("1".into())])
        .on_call("second", [Step::Touch("$/second".into()), Step::Text("2".into())])
        .on_call("write", [Step::Wait(50), Step::Text("3".into())]);
    let server = Server::new(&script);
    let model = turns(&server, &calling(&["first", "second", "write", "write", "first"]));
    let ran = server.run(&["run", "-m", &model, "--timeout", "10", "--output", "stream-json", "go"]);
    let events: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_calls = events.iter().filter_map(|event| {
        let what = event["type"].as_str()?.strip_prefix("tool_")?;
        Some(format!("{} {what}", event["id"].as_str()?.trim_start_matches("call_1_")))
    });
    let mut order: Vec<String> = of_calls.collect();
    // Which of the two ends first is up to the server.
    order[2..4].sort_unstable();
    let expected = [
        "1 started",
        "2 started",
        "1 finished",
        "2 finished",
        "3 started",
        "3 finished",
        "4 started",
        "4 finished",
        "5 started",
        "5 finished",
    ];
    assert_eq!(order, expected, "{}", ran.err);
    let result = events.last().unwrap();
    let content = |place: usize| result["trace_messages"][place]["content"].as_str().unwrap().to_owned();
    assert_eq!([1, 2, 3, 4, 5].map(content), ["1", "2", "3", "3", "1"]);
}

#[test]
fn a_large_output_is_a_warning_on_the_screen_and_in_the_trace() {
    let server = server();
    let model = turns(&server, &calling(&["long", "add"]));
    let ran = server.run(&["run", "-m", &model, "go"]);
    let expected = "warning: mcp__s__long: the output has about 50000 tokens, of which the model reads the beginning";
    assert_eq!(ran.err.lines().filter(|line| line.starts_with("warning:")).collect::<Vec<_>>(), [expected]);
    let shown = run(&server, &model, &[]);
    let steps = shown["tool_traces"][0]["steps"].as_array().unwrap();
    assert!(steps.contains(&json!({"step": "large_output", "tokens": 50_000})), "{steps:?}");
    assert!(!server.run(&["run", "-q", "-m", &model, "go"]).err.contains("warning"));
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

/// Runs a model of a file with these limits, which calls `echo` three times and then answers.
fn run_limited(limits: &Value, more: &[&str]) -> crate::RunOutput {
    let server = server();
    let calls = "    - {name: mcp__s__echo, arguments: {text: hi}}\n".repeat(3);
    std::fs::write(server.path().join("turns.yaml"), format!("- tools:\n{calls}- text: done\n")).unwrap();
    let model = json!({"model_name": "turns.yaml", "interface": "scripted", "mcp_urls_dict": {"s": server.command_line()},
        "agent_middleware": {"limits": limits}});
    let file = server.path().join("models.json");
    std::fs::write(&file, model.to_string()).unwrap();
    ran(wharf(&[&["run", "--models", file.to_str().unwrap(), "--trust", "go"], more].concat()))
}

#[test]
fn a_run_that_reached_a_limit_says_so_whatever_happens_then() {
    let limits = [
        json!({"tool_call_limit": 1}),
        json!({"tool_call_limit": 1, "exit_behavior": "continue"}),
        json!({"per_tool_limit": {"mcp__s__echo": 1}}),
    ];
    let screens = limits.each_ref().map(|limits| without_durations(&screen(&run_limited(limits, &[]))));
    insta::assert_snapshot!(screens.join("\n\n"), @r#"
    exit 1
    --- stdout
    done
    --- stderr
    ! mcp__s__echo {"text":"hi"} (not called: the limit of 1 tool call)
    ! mcp__s__echo {"text":"hi"} (not called: the limit of 1 tool call)
    ✓ mcp__s__echo {"text":"hi"} (N ms)
    error: the limit of 1 tool call reached
    hint: raise it with --max-turns, --max-tool-calls, --max-tokens, --max-cost or --max-time
    2 turns · 1 tool call · 2 blocked · limit reached

    exit 1
    --- stdout
    done
    --- stderr
    ! mcp__s__echo {"text":"hi"} (not called: the limit of 1 tool call)
    ! mcp__s__echo {"text":"hi"} (not called: the limit of 1 tool call)
    ✓ mcp__s__echo {"text":"hi"} (N ms)
    error: the limit of 1 tool call reached
    hint: raise it with --max-turns, --max-tool-calls, --max-tokens, --max-cost or --max-time
    2 turns · 1 tool call · 2 blocked · limit reached

    exit 1
    --- stdout
    done
    --- stderr
    ! mcp__s__echo {"text":"hi"} (not called: the limit of 1 call of mcp__s__echo)
    ! mcp__s__echo {"text":"hi"} (not called: the limit of 1 call of mcp__s__echo)
    ✓ mcp__s__echo {"text":"hi"} (N ms)
    error: the limit of 1 call of mcp__s__echo reached
    hint: raise it with `per_tool_limit` in the model's settings
    2 turns · 1 tool call · 2 blocked · limit reached
    "#);
    for limits in &limits {
        let ran = run_limited(limits, &["--json"]);
        let report: Value = serde_json::from_str(&ran.out).unwrap();
        let metrics = &report["metrics"];
        assert_eq!((ran.code, &report["limit_reached"]), (1, &json!(true)), "{limits}");
        assert_eq!((&metrics["tool_calls"], &metrics["blocked_tool_calls"]), (&json!(1), &json!(2)), "{limits}");
        assert_eq!(metrics["tool_call_counts"], json!({"mcp__s__echo": 1}));
        assert_eq!(metrics["suspect_failed_tool_calls"], 0);
    }
    assert_eq!(run_limited(&json!({"tool_call_limit": 3}), &[]).code, 0);
}

#[test]
fn invalid_models_and_scripts_are_usage_errors() {
    let server = server();
    let show =
        |model: &str| screen(&ran(wharf(&["run", "-m", model, "go"]))).replace(server.path().to_str().unwrap(), "");
    let odd = turns(&server, "- text: hello\n  tool: add\n");
    insta::assert_snapshot!([show("gpt"), show("scripted:nowhere.yaml"), show(&odd)].join("\n"));
}
