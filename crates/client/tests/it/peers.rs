//! Third-party servers over stdio, installed by `scripts/peers` in pinned versions.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use wharf_client::{
    BoxFuture, CallOptions, ClientCapabilities, Elicitation, ElicitationAnswer, Host, NoHost, Outcome, Progress,
    ProtocolMode, Schema, Session, SessionOptions, SessionStatus, Stdio,
};
use wharf_io::{Environment, Grace};
use wharf_protocol::{ContentKind, ToolResult};
use wharf_testkit::{children_of, kill, peers, soon, until};

use crate::{json, none, result_text};

fn session(name: &str, command_line: &[&str]) -> Session {
    session_with(name, command_line, |stdio| stdio)
}

fn session_with(name: &str, command_line: &[&str], change: impl FnOnce(Stdio) -> Stdio) -> Session {
    Session::new(name.parse().unwrap(), change(stdio(command_line)), NoHost, SessionOptions::default())
}

/// A peer as a child process; `ROOT` stands for the folder of this workspace.
pub(crate) fn stdio(command_line: &[&str]) -> Stdio {
    let root = peers();
    let command_line: Vec<OsString> =
        command_line.iter().map(|word| OsString::from(word.replace("ROOT", root.to_str().unwrap()))).collect();
    let environment = Environment::default().with("PATH", "/usr/local/bin:/usr/bin:/bin").with("HOME", "/nonexistent");
    Stdio::new(&command_line[0], &command_line[1..], environment)
}

pub(crate) const NODE: &str = "ROOT/.peers/node_modules/node/bin/node";
pub(crate) const EVERYTHING: &str = "ROOT/.peers/node_modules/@modelcontextprotocol/server-everything/dist/index.js";

fn everything() -> Session {
    session("everything", &[NODE, EVERYTHING, "stdio"])
}

fn python(version: u8, protocol: ProtocolMode) -> Session {
    let python = format!("ROOT/.peers/py{version}/bin/python");
    let script = format!("ROOT/peers/mcp{version}_server.py");
    let options = SessionOptions { protocol, ..SessionOptions::default() };
    Session::new("python".parse().unwrap(), stdio(&[&python, &script]), NoHost, options)
}

pub(crate) async fn call(session: &Session, tool: &str, arguments: Value) -> String {
    result_text(soon(session.call(tool, &json(arguments))).await)
}

pub(crate) async fn names(session: &Session) -> Vec<String> {
    let listed = soon(session.list_tools()).await.unwrap();
    assert!(listed.quarantined.is_empty() && listed.notes.is_empty());
    for tool in &listed.items {
        for schema in [Some(&tool.input_schema), tool.output_schema.as_ref()].into_iter().flatten() {
            let weight = Schema::weight(&schema.to_value().unwrap()).unwrap();
            assert!(weight < Schema::MAX_WEIGHT / 10, "{}: {weight}", tool.name);
        }
    }
    listed.items.iter().map(|tool| tool.name.to_string()).collect()
}

/// Calls with a progress listener and returns the reports and the answer.
pub(crate) async fn with_progress(session: &Session, tool: &str, arguments: Value) -> (Vec<String>, String) {
    let mut steps = Vec::new();
    let mut listen = |step: Progress| {
        let message = step.message.unwrap_or_default();
        steps.push(format!("{} of {} {message}", step.progress, step.total.unwrap()).trim_end().to_owned());
    };
    let options = CallOptions { progress: Some(&mut listen), ..CallOptions::default() };
    let answer = result_text(soon(session.call_with(tool, &json(arguments), options)).await);
    (steps, answer)
}

/// Calls a tool and kills the server as soon as it reports progress.
async fn killed_while(session: &Session, tool: &str, arguments: Value) -> String {
    let mut victim = Some(children_of(std::process::id())[0]);
    let mut strike = |_: Progress| victim.take().map_or((), kill);
    let options = CallOptions { progress: Some(&mut strike), ..CallOptions::default() };
    result_text(soon(session.call_with(tool, &json(arguments), options)).await)
}

/// Kills the server between two calls and waits until that is detected; the next call starts a new one.
async fn dies_and_returns(session: &Session) {
    kill(children_of(std::process::id())[0]);
    until(async || matches!(&*session.status().borrow(), SessionStatus::Failed(_))).await;
    let SessionStatus::Failed(error) = session.status().borrow().clone() else { panic!("it has not failed") };
    assert!(error.to_string().contains("was killed by signal 9"), "{error}");
}

async fn closes(session: &Session) {
    soon(session.close()).await;
    assert_eq!(children_of(std::process::id()), Vec::<u32>::new());
    assert_eq!((session.health().violations, session.health().noise), (0, 0));
}

#[tokio::test]
async fn the_official_everything_server_lists_calls_progresses_cancels_dies_and_returns() {
    let session = everything();
    assert_eq!(soon(session.connect()).await.unwrap().revision, "2025-11-25");
    let tools = names(&session).await;
    assert!(
        ["echo", "get-sum", "trigger-long-running-operation"].iter().all(|name| tools.iter().any(|tool| tool == name))
    );
    assert_eq!(call(&session, "echo", json!({"message": "hi"})).await, "Echo: hi");
    assert_eq!(call(&session, "get-sum", json!({"a": 2, "b": 3})).await, "The sum of 2 and 3 is 5.");
    // It announces new tools shortly after the start; arguments are not checked against an older list.
    until(async || {
        names(&session).await;
        call(&session, "get-sum", json!({"a": "two", "b": 3})).await.contains("at `/a`")
    })
    .await;

    let weather = soon(session.call("get-structured-content", &json(json!({"location": "New York"})))).await.unwrap();
    assert_eq!(weather.structured.unwrap().to_value().unwrap()["temperature"], 33);
    let picture = soon(session.call("get-tiny-image", &none())).await.unwrap();
    assert!(
        picture
            .content
            .iter()
            .any(|block| matches!(&block.kind, ContentKind::Image { mime_type, .. } if mime_type == "image/png"))
    );
    assert!(picture.quarantined().is_empty());

    let long = json!({"duration": 0.3, "steps": 3});
    let (steps, answer) = with_progress(&session, "trigger-long-running-operation", long).await;
    assert_eq!(steps, ["1 of 3", "2 of 3", "3 of 3"]);
    assert!(answer.starts_with("Long running operation completed"), "{answer}");

    // It ignores cancellation and keeps sending progress, which must be ignored.
    let endless = json(json!({"duration": 2, "steps": 20}));
    let dropped =
        tokio::time::timeout(Duration::from_millis(300), session.call("trigger-long-running-operation", &endless));
    assert!(dropped.await.is_err());
    assert_eq!(call(&session, "echo", json!({"message": "still"})).await, "Echo: still");

    // The tool is idempotent, so that the call is retried on a new server.
    let answer = killed_while(&session, "trigger-long-running-operation", json!({"duration": 1, "steps": 5})).await;
    assert!(answer.starts_with("Long running operation completed"), "{answer}");
    assert_eq!(call(&session, "echo", json!({"message": "back"})).await, "Echo: back");
    assert_eq!(session.health().connections, 2);
    closes(&session).await;
}

/// A user who answers every form with the second choice.
struct SecondChoice;

impl Host for SecondChoice {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities { elicitation: true, ..ClientCapabilities::default() }
    }

    fn elicit(&self, request: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
        let schema = request.schema.unwrap().to_value().unwrap();
        let choice = schema["properties"]["interpretation"]["oneOf"][1]["const"].clone();
        let answer = ElicitationAnswer::Accept(Some(json(json!({"interpretation": choice}))));
        Box::pin(std::future::ready(answer))
    }
}

#[tokio::test]
async fn a_tool_that_works_only_as_a_task_completes_in_the_legacy_era() {
    let transport = stdio(&[NODE, EVERYTHING, "stdio"]);
    let session = Session::new("everything".parse().unwrap(), transport, SecondChoice, SessionOptions::default());
    // It announces the tool shortly after the start.
    until(async || names(&session).await.iter().any(|name| name == "simulate-research-query")).await;
    let mut steps = Vec::new();
    let mut listen = |progress: Progress| steps.extend(progress.message);
    let options = CallOptions { progress: Some(&mut listen), ..CallOptions::default() };
    let topic = json(json!({"topic": "rust"}));
    let answer = result_text(soon(session.call_with("simulate-research-query", &topic, options)).await);
    assert!(answer.starts_with("# Research Report: rust\n"), "{answer}");
    assert!(steps.iter().any(|step| step == "Analyzing content..."), "{steps:?}");
    let ambiguous = json!({"topic": "python", "ambiguous": true});
    let answer = call(&session, "simulate-research-query", ambiguous).await;
    assert!(answer.starts_with("# Research Report: python (snake)\n"), "{answer}");
    closes(&session).await;
}

#[tokio::test]
async fn the_everything_server_that_ignores_the_end_of_its_input_is_killed() {
    let brief = Grace { after_eof: Duration::from_millis(300), after_term: Duration::from_secs(10) };
    let session = session_with("everything", &[NODE, EVERYTHING, "stdio"], |stdio| stdio.with_grace(brief));
    soon(session.call("toggle-simulated-logging", &none())).await.unwrap();
    closes(&session).await;
}

async fn python_server(version: u8, protocol: ProtocolMode, revision: &str) {
    let session = python(version, protocol);
    let info = soon(session.connect()).await.unwrap();
    assert_eq!((info.name.clone(), info.revision.as_str()), (format!("wharf-peer-mcp{version}"), revision));
    assert_eq!(names(&session).await, ["add", "echo", "slow", "crash", "fail", "picture"]);
    let sum = soon(session.call("add", &json(json!({"a": 2, "b": 3})))).await.unwrap();
    assert_eq!((sum.text().as_str(), sum.structured.unwrap().as_str()), ("5", r#"{"result":5}"#));
    assert_eq!(
        call(&session, "fail", json!({"reason": "no luck"})).await,
        "failed: Error executing tool fail: no luck"
    );
    let picture: ToolResult = soon(session.use_tool("1", "picture", &none())).await;
    assert!(serde_json::to_string(&picture).unwrap().contains(r#""image":{"format":"png""#));
    let greeting = soon(session.get_prompt("greet", &json(json!({"name": "Ada"})))).await.unwrap();
    assert!(greeting.as_str().contains("Please greet Ada."));
    let note = soon(session.read_resource("note://hello")).await.unwrap();
    assert!(note.as_str().contains("Hello from the note."));

    let (steps, answer) = with_progress(&session, "slow", json!({"steps": 3, "delay_ms": 20})).await;
    assert_eq!(steps, ["1 of 3 step 1 of 3", "2 of 3 step 2 of 3", "3 of 3 step 3 of 3"]);
    assert_eq!(answer, "finished 3 steps");

    let endless = json(json!({"steps": 1000, "delay_ms": 100}));
    assert!(tokio::time::timeout(Duration::from_millis(300), session.call("slow", &endless)).await.is_err());
    // Every error contains the server's stderr; this one is provoked to read it.
    until(async || stderr(&session).await.iter().any(|line| line.contains("slow was cancelled"))).await;

    let answer = killed_while(&session, "slow", json!({"steps": 100, "delay_ms": 50})).await;
    let expected =
        "the server was killed by signal 9 (SIGKILL, often the system being out of memory) before it answered";
    assert!(answer.contains(expected), "{answer}");
    let error = soon(session.call("crash", &none())).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert!(error.to_string().contains("the server exited with status 7 before it answered"), "{error}");
    assert_eq!(call(&session, "echo", json!({"text": "again"})).await, "again");
    assert_eq!(session.health().connections, 3);
    closes(&session).await;
}

async fn stderr(session: &Session) -> Vec<String> {
    session.get_prompt("greet", &none()).await.unwrap_err().evidence.stderr
}

#[tokio::test]
async fn a_server_on_the_python_sdk_1_lists_calls_progresses_cancels_crashes_and_returns() {
    python_server(1, ProtocolMode::Auto, "2025-11-25").await;
}

#[tokio::test]
async fn a_server_on_the_python_sdk_2_lists_calls_progresses_cancels_crashes_and_returns() {
    python_server(2, ProtocolMode::Auto, "2026-07-28").await;
}

#[tokio::test]
async fn a_server_on_the_python_sdk_2_does_the_same_in_the_legacy_era() {
    python_server(2, ProtocolMode::Legacy, "2025-11-25").await;
}

#[tokio::test]
async fn the_time_server_lists_calls_dies_and_returns() {
    let session = session("time", &["ROOT/.peers/py2/bin/mcp-server-time"]);
    assert_eq!(names(&session).await, ["get_current_time", "convert_time"]);
    let noon = || json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let converted = call(&session, "convert_time", noon()).await;
    assert!(converted.contains("+9.0h"), "{converted}");
    let wrong = call(&session, "get_current_time", json!({"timezone": "Mars/X"})).await;
    assert!(wrong.starts_with("failed: ") && wrong.contains("Invalid timezone"), "{wrong}");
    dies_and_returns(&session).await;
    assert!(call(&session, "convert_time", noon()).await.contains("+9.0h"));
    assert_eq!(session.health().connections, 2);
    closes(&session).await;
}

fn git(folder: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=A", "-c", "user.email=a@example.com"];
    let run = Command::new("git").current_dir(folder).args(identity).args(arguments).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

#[tokio::test]
async fn the_git_server_lists_calls_changes_a_real_repository_dies_and_returns() {
    let folder = tempfile::tempdir().unwrap();
    git(folder.path(), &["init", "-q", "-b", "main"]);
    std::fs::write(folder.path().join("file"), "text").unwrap();
    git(folder.path(), &["add", "."]);
    git(folder.path(), &["commit", "-qm", "first"]);
    let path = folder.path().to_str().unwrap();
    let session = session("git", &["ROOT/.peers/py2/bin/mcp-server-git", "--repository", path]);
    assert!(names(&session).await.iter().any(|name| name == "git_status"));
    let status = call(&session, "git_status", json!({"repo_path": path})).await;
    assert!(status.starts_with("Repository status:\nOn branch main"), "{status}");
    let branch = call(&session, "git_create_branch", json!({"repo_path": path, "branch_name": "feature"})).await;
    assert!(branch.contains("feature"), "{branch}");
    let log = call(&session, "git_log", json!({"repo_path": path, "max_count": 1})).await;
    assert!(log.contains("Message: first"), "{log}");
    let outside = call(&session, "git_status", json!({"repo_path": "/tmp"})).await;
    assert!(outside.starts_with("failed: ") && outside.contains("is outside the allowed repository"), "{outside}");
    dies_and_returns(&session).await;
    let status = call(&session, "git_status", json!({"repo_path": path})).await;
    assert!(status.starts_with("Repository status:\nOn branch main"), "{status}");
    assert_eq!(session.health().connections, 2);
    closes(&session).await;
}

#[tokio::test]
async fn the_git_server_without_a_repository_exits_before_the_handshake_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let session = session("git", &["ROOT/.peers/py2/bin/mcp-server-git", "--repository", path]);
    let error = soon(session.connect()).await.unwrap_err().to_string();
    assert!(error.starts_with("git: the server exited with status 0 before it was ready; stderr: "));
    assert!(error.contains("is not a valid Git repository"), "{error}");
}
