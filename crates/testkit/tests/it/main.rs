//! The fakes themselves: if they do not follow their scripts, every other test is meaningless.

#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

mod eras;
mod evil;
mod legacy;
mod modern;
mod streamable;
mod websocket;
mod wire;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use wharf_testkit::{Script, Step, WireLog, scripted_server};

/// Runs a script as a child process, sends it lines and collects its responses until it exits.
fn responses(script: &Script, lines: &[&str]) -> (Vec<Value>, Option<i32>, WireLog) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script");
    let log = folder.path().join("log");
    std::fs::write(&path, serde_json::to_string(script).unwrap()).unwrap();
    let mut command = Command::new(scripted_server());
    let mut child = command.args([&path, &log]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let ends_itself = script.rules.iter().flat_map(|rule| &rule.steps).any(|step| matches!(step, Step::Exit(_)));
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut answers = Vec::new();
    for line in lines {
        writeln!(stdin, "{line}").unwrap();
        let mut answer = String::new();
        stdout.read_line(&mut answer).unwrap();
        if !answer.is_empty() {
            answers.push(serde_json::from_str(&answer).unwrap());
        }
    }
    // A server exits when its script says so, else with its input.
    let stdin = ends_itself.then_some(stdin);
    let code = child.wait().unwrap().code();
    drop(stdin);
    (answers, code, WireLog::from_file(&log))
}

#[test]
fn a_correct_server_pages_its_lists_and_ends_with_its_input() {
    let script = Script { page_size: Some(1), ..Script::good() };
    let (answers, code, log) = responses(
        &script,
        &[
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"cursor":"1"}}"#,
            r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}"#,
        ],
    );
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(
        (&answers[1]["result"]["tools"][0]["name"], &answers[1]["result"]["nextCursor"]),
        (&json!("echo"), &json!("1"))
    );
    assert_eq!(
        (&answers[2]["result"]["tools"][0]["name"], answers[2]["result"].get("nextCursor")),
        (&json!("add"), None)
    );
    assert_eq!(answers[3]["result"]["content"][0]["text"], "3");
    assert_eq!(code, Some(0));
    assert_eq!(log.methods(), ["initialize", "tools/list", "tools/list", "tools/call"]);
}

#[test]
fn rules_override_correct_responses_and_may_be_used_up() {
    let ping = r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#;
    let script = Script::good().once("ping", [Step::Error(-1, "no".into())]);
    let (answers, _, _) = responses(&script, &[ping, ping]);
    assert_eq!((&answers[0]["error"]["message"], &answers[1]["result"]), (&json!("no"), &json!({})));
}

#[test]
fn a_script_can_end_its_process() {
    let script = Script::good().on("ping", [Step::Line(r#"{"id":{id},"result":"last"}"#.into()), Step::Exit(9)]);
    let (answers, code, _) = responses(&script, &[r#"{"jsonrpc":"2.0","id":6,"method":"ping"}"#]);
    assert_eq!((answers[0].clone(), code), (json!({"id": 6, "result": "last"}), Some(9)));
}
