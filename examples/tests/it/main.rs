//! Runs every example and checks its output.

#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

mod calculator;
mod conformance;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use wharf_testkit::{Script, Step, alive, children_of, scripted_server, until};

fn output(program: &str, arguments: &[&str]) -> String {
    let run = Command::new(program).args(arguments).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

#[test]
fn one_server_lists_calls_and_refuses() {
    let printed = output(env!("CARGO_BIN_EXE_one-server"), &[env!("CARGO_BIN_EXE_own-server")]);
    let expected = "add: Adds two numbers\n42\nexample: the arguments of `add` do not match its schema: \
        at `/x`: \"twenty\" is not of type \"number\"\n";
    assert_eq!(printed, expected);
}

#[test]
fn a_custom_transport_is_reopened_after_closing() {
    let printed = output(env!("CARGO_BIN_EXE_custom-transport"), &[]);
    assert_eq!(printed, "10 + 20 = 30\nafter closing: 1 + 2 = 3, connection 2\n");
}

#[test]
fn a_synchronous_program_gets_its_result() {
    let printed = output(env!("CARGO_BIN_EXE_blocking"), &[]);
    assert_eq!(printed, "{\"status\":\"success\",\"toolUseId\":\"tool-123\",\"content\":[{\"text\":\"30\"}]}\n");
}

/// A server does not outlive a killed program, although the library has no guard process: not even a server that ignores
/// the end of its input and SIGTERM.
#[tokio::test]
async fn killing_a_program_ends_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    let ready = folder.path().join("ready");
    let steps = [Step::IgnoreShutdown, Step::Touch(ready.display().to_string()), Step::Hang];
    std::fs::write(&script, serde_json::to_string(&Script::default().on_call("add", steps)).unwrap()).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_one-server"));
    program.arg(scripted_server()).arg(&script).stdout(Stdio::null());
    let mut program = program.spawn().unwrap();
    until(async || ready.exists()).await;
    let server = children_of(program.id())[0];
    program.kill().unwrap();
    program.wait().unwrap();
    until(async || !alive(server)).await;
}

#[test]
fn calls_succeed_before_and_after_the_server_forgets_the_session() {
    let printed = output(env!("CARGO_BIN_EXE_remote-server"), &[]);
    let expected = |protocol, another| format!("{protocol}:\nHello, Ann!\nHello, Ann!\nanother session: {another}\n");
    let legacy = expected("2025-11-25 (legacy)", true);
    let modern = expected("2026-07-28 (modern)", false);
    // A closed session releases its client; a lost session does not.
    assert_eq!(printed, format!("{legacy}{modern}HTTP clients made: 2\n"));
}

/// Returns the responses of a stdio server to these requests.
fn answers(program: &str, requests: &[Value]) -> Vec<Value> {
    let mut server = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = server.stdin.take().unwrap();
    for request in requests {
        writeln!(input, "{request}").unwrap();
    }
    let printed = BufReader::new(server.stdout.take().unwrap()).lines().take(requests.len());
    let answers = printed.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    drop(input);
    assert!(server.wait().unwrap().success());
    answers
}

#[test]
fn the_custom_server_supports_both_eras_over_stdio() {
    let request = |id, method, params| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let call = json!({"name": "add", "arguments": {"x": 1, "y": 2}});
    let mut modern_call = call.clone();
    modern_call["_meta"] = meta.clone();
    let client = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "by hand", "version": "1"}});
    let discover = request(1, "server/discover", json!({"_meta": meta}));
    for conversation in [
        vec![request(1, "initialize", client.clone()), request(2, "tools/call", call.clone())],
        vec![discover.clone(), request(2, "initialize", client), request(3, "tools/call", call)],
        vec![discover, request(2, "tools/call", modern_call.clone())],
        vec![request(1, "tools/call", modern_call)],
    ] {
        let answers = answers(env!("CARGO_BIN_EXE_own-server"), &conversation);
        let last = answers.last().unwrap();
        assert_eq!(last["result"]["content"][0]["text"], "3", "{conversation:?} {answers:?}");
    }
}
