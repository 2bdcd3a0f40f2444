//! Header commands: run when needed, again when the server refuses their headers, and with a timeout.

use std::path::Path;

use serde_json::json;
use wharf_client::{CallErrorKind, HeaderCommand, NoHost, RemoteOptions, Session};
use wharf_io::Environment;
use wharf_testkit::{HttpScripted, Script, Step, soon};

use crate::remote::{http_with, in_memory, options};
use crate::{json, legacy, result_text};

/// A command that runs this line of shell, in an environment where `RUNS` names a file.
fn command(line: &str, runs: &Path) -> HeaderCommand {
    let environment = Environment::default().with("PATH", "/usr/bin:/bin").with("RUNS", runs);
    let args = vec!["-c".into(), line.into()];
    HeaderCommand { command: "/bin/sh".into(), args, environment, directory: None, redactor: None }
}

fn session(server: &HttpScripted, command: HeaderCommand) -> Session {
    let remote = RemoteOptions { header_command: Some(command), ..options(in_memory(server)) };
    http_with(remote, NoHost, legacy()).0
}

const COUNTING: &str = r#"echo x >>"$RUNS"; printf '{"Authorization": "Bearer %s"}' "$(grep -c x "$RUNS")""#;

#[tokio::test]
async fn its_headers_are_sent_with_every_request_and_it_runs_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = HttpScripted::new(Script::good());
    let session = session(&server, command(COUNTING, &folder.path().join("runs")));
    for _ in 0..3 {
        assert_eq!(result_text(soon(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
    }
    assert!(server.requests().iter().all(|seen| seen.headers["authorization"] == "Bearer 1"));
}

#[tokio::test]
async fn its_headers_replace_configured_ones_of_the_same_name() {
    let folder = tempfile::tempdir().unwrap();
    let server = HttpScripted::new(Script::good());
    let remote = RemoteOptions {
        headers: [("authorization", "Bearer configured"), ("x-team", "red")].map(|(a, b)| (a.into(), b.into())).into(),
        header_command: Some(command(COUNTING, &folder.path().join("runs"))),
        ..options(in_memory(&server))
    };
    let session = http_with(remote, NoHost, legacy()).0;
    assert_eq!(result_text(soon(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
    for seen in server.requests() {
        assert_eq!(seen.headers.get_all("authorization").iter().collect::<Vec<_>>(), ["Bearer 1"]);
        assert_eq!(seen.headers["x-team"], "red");
    }
}

#[tokio::test]
async fn it_runs_again_on_401_or_403_and_the_call_succeeds() {
    for status in [401, 403] {
        let folder = tempfile::tempdir().unwrap();
        let refuse = Step::Http { status, headers: Vec::new(), body: String::new() };
        let server = HttpScripted::new(Script::good().once("tools/call", [refuse]));
        let session = session(&server, command(COUNTING, &folder.path().join("runs")));
        assert_eq!(result_text(soon(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
        let sent: Vec<_> = server
            .requests()
            .iter()
            .filter(|seen| seen.body.contains("tools/call"))
            .map(|seen| seen.headers["authorization"].clone())
            .collect();
        assert_eq!(sent, ["Bearer 1", "Bearer 2"]);
        assert_eq!(server.log().count("initialize"), 1);
    }
}

#[tokio::test]
async fn streams_and_sockets_are_opened_with_refreshed_headers() {
    let refuse = || [Step::Http { status: 401, headers: Vec::new(), body: String::new() }];
    let folder = tempfile::tempdir().unwrap();
    let script = Script::good().once("GET", refuse());
    let server = HttpScripted::new(script).with_get(wharf_testkit::GetBehavior::Stream);
    let session = session(&server, command(COUNTING, &folder.path().join("runs")));
    soon(session.connect()).await.unwrap();
    wharf_testkit::until(async || server.open_streams() == 1).await;
    assert_eq!(server.requests().last().unwrap().headers["authorization"], "Bearer 2");

    let folder = tempfile::tempdir().unwrap();
    let script = Script::good().once("GET", refuse()).once("GET", [Step::Wait(0)]).once("GET", refuse());
    let server = HttpScripted::new(script);
    let header_command = Some(command(COUNTING, &folder.path().join("runs")));
    let remote = RemoteOptions { header_command, ..options(in_memory(&server)) };
    let transport = wharf_client::WebSocket::new("ws://server.test/ws", remote).unwrap();
    let session = Session::new("socket".parse().unwrap(), transport, NoHost, legacy());
    for _ in 0..2 {
        soon(session.connect()).await.unwrap();
        soon(session.close()).await;
    }
    let sent: Vec<_> = server.requests().iter().map(|seen| seen.headers["authorization"].clone()).collect();
    assert_eq!(sent, ["Bearer 1", "Bearer 2", "Bearer 2", "Bearer 3"]);
}

#[tokio::test]
async fn a_server_that_refuses_all_its_headers_gets_two_tries() {
    let folder = tempfile::tempdir().unwrap();
    let refuse = Step::Http { status: 401, headers: Vec::new(), body: String::new() };
    let server = HttpScripted::new(Script::good().on("tools/call", [refuse]));
    let session = session(&server, command(COUNTING, &folder.path().join("runs")));
    let error = soon(session.call("add", &json(json!({"a": 1, "b": 1})))).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Connect(wharf_client::ConnectErrorKind::Auth(_))), "{error}");
    assert_eq!(server.requests().iter().filter(|seen| seen.body.contains("tools/call")).count(), 2);
}

#[tokio::test]
async fn its_errors_do_not_contain_its_output() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = [
        ("echo s3cr3t", "did not print a JSON object of strings"),
        (r#"echo '{"Authorization": 7, "x": "s3cr3t"}'"#, "did not print a JSON object of strings"),
        ("echo s3cr3t >&2; exit 3", "exited with status 3; run it manually"),
        (r#"echo '{"Mcp-Session-Id": "s3cr3t"}'"#, "the client sets it"),
    ];
    for (line, expected) in wrong {
        let session = session(&HttpScripted::new(Script::good()), command(line, &folder.path().join("runs")));
        let error = soon(session.connect()).await.unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("header command `/bin/sh`"), "{error}");
        assert!(!error.contains("s3cr3t"), "{error}");
    }
}

#[tokio::test]
async fn a_command_that_hangs_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command("exec sleep 600", &folder.path().join("runs"));
    command.environment = command.environment.with("X", "1");
    let session = session(&HttpScripted::new(Script::good()), command);
    let error = soon(session.connect()).await.unwrap_err().to_string();
    assert!(error.contains("timed out after 10 s"), "{error}");
    wharf_testkit::until(async || wharf_testkit::children_of(std::process::id()).is_empty()).await;
}
