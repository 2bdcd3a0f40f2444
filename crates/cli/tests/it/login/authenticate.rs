//! The `authenticate` tool: a model asks the user at the terminal to sign in.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use serde_json::Value;

use crate::login::{CREDENTIALS, Reader, assert_no_secrets};
use crate::{on_terminal, run_output};

const TURNS: &str = "- text: Let me ask.\n  tools: [{name: authenticate, arguments: {server: docs}}]\n\
    - text: Now.\n  tools: [{name: mcp__docs__answer}]\n- text: That is all.\n";

/// Returns a user with an optional server, and a scripted model that calls it.
fn reader() -> (Reader, String) {
    let reader = Reader::with(&serde_json::json!({}));
    reader.person.write("turns.yaml", TURNS);
    let model = format!("scripted:{}", reader.person.path("turns.yaml").display());
    (reader, model)
}

#[test]
fn a_model_requests_a_sign_in_and_then_calls_the_tools() {
    let (reader, model) = reader();
    let line = format!("{} run -v -m {model} go", env!("CARGO_BIN_EXE_wharf"));
    let answered = |answer: &str| {
        let mut script = on_terminal(&line);
        script.env("HOME", reader.person.path("home")).current_dir(reader.person.path("project"));
        script.env("BROWSER", reader.browser());
        let mut child = script.stdin(Stdio::piped()).spawn().unwrap();
        let mut seen = Vec::new();
        if !answer.is_empty() {
            // What is typed before the question does not answer it.
            let terminal = child.stdout.as_mut().unwrap();
            let mut byte = [0];
            while !seen.ends_with(b"[N]o: ") {
                terminal.read_exact(&mut byte).unwrap();
                seen.push(byte[0]);
            }
        }
        child.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
        let mut output = child.wait_with_output().unwrap();
        output.stdout.splice(..0, seen);
        assert_no_secrets(run_output(&output)).out
    };
    let seen = answered("n\n");
    assert!(seen.contains("call authenticate? (the tool requires the user's approval)"), "{seen}");
    assert!(seen.contains("  server: \"docs\""), "{seen}");
    assert!(!reader.person.path(CREDENTIALS).exists() && !seen.contains("opening a browser"), "{seen}");

    let seen = answered("y\n");
    for text in [
        "opening a browser to sign in to docs",
        "Signed in to `docs`. Its tools (2) can be called",
        "42",
        "That is all.",
    ] {
        assert!(seen.contains(text), "{text}: {seen}");
    }
    assert_eq!(reader.server.count("GET /authorize", ""), 1);
    // The tool is not offered for a server that is already connected.
    assert!(!answered("").contains("call authenticate?"));
}

#[test]
fn the_authenticate_tool_is_unavailable_without_a_terminal() {
    let (reader, model) = reader();
    let ran = reader.run(&["run", "-m", &model, "--json", "go"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let result = &report["trace_messages"][1];
    let failed = result["tool_result"]["is_error"] == true;
    assert!(failed && result["content"].as_str().unwrap().contains("Unknown tool `authenticate`"), "{result:#}");
    assert_eq!(reader.server.count("GET /authorize", ""), 0);
}
