//! `--trace FILE`: every message on the wire.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use wharf_testkit::{HttpScripted, Script, Step, soon};

use crate::fixtures::Sandbox;
use crate::{Server, ran, wharf};

/// Returns direction and method of each line; `answer` for an answer.
fn messages(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["time"].as_str().unwrap().ends_with('Z'), "{line}");
        assert_eq!(line["server"], "s");
        let what = line["message"]["method"].as_str().map_or_else(|| "answer".to_owned(), str::to_owned);
        format!("{} {what}", line["direction"].as_str().unwrap())
    };
    text.lines().map(line).collect()
}

const LEGACY_CALL: [&str; 7] = [
    "sent initialize",
    "received answer",
    "sent notifications/initialized",
    "sent tools/list",
    "received answer",
    "sent tools/call",
    "received answer",
];

#[test]
fn every_message_of_a_process_is_traced_and_runs_are_appended() {
    let server = Server::new(&Script::good());
    let file = server.path().join("trace.jsonl");
    let arguments = ["call", "s", "add", "a=1", "b=2", "--protocol", "legacy", "--trace", file.to_str().unwrap()];
    let run = server.run(&arguments);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "3\n", ""));
    let once = std::fs::read_to_string(&file).unwrap();
    assert_eq!(messages(&once), LEGACY_CALL);
    let last: Value = serde_json::from_str(once.lines().last().unwrap()).unwrap();
    assert_eq!(last["message"]["result"]["content"][0]["text"], "3");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    server.run(&arguments);
    let twice = std::fs::read_to_string(&file).unwrap();
    assert!(twice.starts_with(&once));
    assert_eq!(messages(&twice).len(), 2 * LEGACY_CALL.len());
}

#[tokio::test]
async fn messages_over_http_are_traced_without_the_secrets_of_headers() {
    let echo = Script::good().any_tool("leak").on_call("leak", [Step::Text("your token is t0ken-of-the-user".into())]);
    let listening = HttpScripted::new(echo).listen().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.jsonl");
    let mcp = format!("s={}", listening.url());
    let command = wharf(&[
        "call",
        "s",
        "leak",
        "--protocol",
        "legacy",
        "--mcp",
        &mcp,
        "-H",
        "Authorization: Bearer t0ken-of-the-user",
        "--trace",
        file.to_str().unwrap(),
    ]);
    let run = soon(tokio::task::spawn_blocking(move || ran(command))).await.unwrap();
    assert_eq!(run.code, 0, "{}", run.err);
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(messages(&text), LEGACY_CALL);
    assert!(text.contains("your token is [secret]") && !text.contains("t0ken-of-the-user"), "{text}");
}

#[test]
fn questions_of_the_server_and_their_answers_are_traced() {
    let ask = Step::Ask("elicitation/create".into(), json!({"message": "Who?", "requestedSchema": {"type": "object"}}));
    let server = Server::new(&Script::good().any_tool("ask").on_call("ask", [ask, Step::EchoAnswer]));
    let file = server.path().join("trace.jsonl");
    server.run(&["call", "s", "ask", "--protocol", "legacy", "--trace", file.to_str().unwrap()]);
    let text = std::fs::read_to_string(&file).unwrap();
    let seen = messages(&text);
    let question = seen.iter().position(|line| line == "received elicitation/create").unwrap();
    assert_eq!(seen[question + 1], "sent answer");
}

#[test]
fn output_that_is_not_a_message_is_traced_as_text() {
    let script = Script { at_start: vec![Step::Line("Listening on \u{1b}[1mstdio".into())], ..Script::good() };
    let server = Server::new(&script);
    let file = server.path().join("trace.jsonl");
    server.run(&["tools", "s", "--trace", file.to_str().unwrap()]);
    let lines: Vec<Value> =
        std::fs::read_to_string(&file).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["text"] == "Listening on \u{1b}[1mstdio" && line["direction"] == "received"));
}

#[test]
fn a_file_that_is_not_a_trace_is_not_touched() {
    let sandbox = Sandbox::new().server("s", &Script::good());
    let file = sandbox.path("notes.txt");
    std::fs::write(&file, "my notes").unwrap();
    let run = sandbox.run(&["tools", "s", "--trace", file.to_str().unwrap()]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("notes.txt: it exists and is not a trace"), "{}", run.err);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "my notes");
    let missing = sandbox.run(&["tools", "s", "--trace", "/no/such/folder/trace.jsonl"]);
    assert_eq!(missing.code, 2);
    assert!(missing.err.starts_with("error: cannot write --trace /no/such/folder/trace.jsonl: "), "{}", missing.err);
    assert_eq!(sandbox.run(&["tools", "s", "--trace", "/dev/null"]).code, 0);
}
