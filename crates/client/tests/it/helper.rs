//! A command that tells headers: run when needed, again when the server no longer takes what it said, and not for long.

use std::path::Path;

use serde_json::json;
use wharf_client::{CallErrorKind, HeaderCommand, NoHost, RemoteOptions, Session};
use wharf_io::Environment;
use wharf_testkit::{HttpScripted, Script, Step, soon};

use crate::remote::{http_with, in_memory, options};
use crate::{json, legacy, told};

/// A helper that runs this line of shell, in an environment where `RUNS` names a file.
fn helper(line: &str, runs: &Path) -> HeaderCommand {
    let environment = Environment::default().with("PATH", "/usr/bin:/bin").with("RUNS", runs);
    HeaderCommand { command: "/bin/sh".into(), args: vec!["-c".into(), line.into()], environment, directory: None }
}

fn session(server: &HttpScripted, helper: HeaderCommand) -> Session {
    let remote = RemoteOptions { helper: Some(helper), ..options(in_memory(server)) };
    http_with(remote, NoHost, legacy()).0
}

const COUNTING: &str = r#"echo x >>"$RUNS"; printf '{"Authorization": "Bearer %s"}' "$(grep -c x "$RUNS")""#;

#[tokio::test]
async fn its_headers_go_with_every_request_and_it_is_run_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = HttpScripted::new(Script::good());
    let session = session(&server, helper(COUNTING, &folder.path().join("runs")));
    for _ in 0..3 {
        assert_eq!(told(soon(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
    }
    assert!(server.requests().iter().all(|seen| seen.headers["authorization"] == "Bearer 1"));
}

#[tokio::test]
async fn it_is_run_again_when_the_server_answers_401_or_403_and_the_call_succeeds() {
    for status in [401, 403] {
        let folder = tempfile::tempdir().unwrap();
        let refuse = Step::Http { status, headers: Vec::new(), body: String::new() };
        let server = HttpScripted::new(Script::good().once("tools/call", [refuse]));
        let session = session(&server, helper(COUNTING, &folder.path().join("runs")));
        assert_eq!(told(soon(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
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
async fn the_stream_and_the_socket_are_opened_with_fresh_headers_too_every_time_the_old_ones_are_stale() {
    let refuse = || [Step::Http { status: 401, headers: Vec::new(), body: String::new() }];
    let folder = tempfile::tempdir().unwrap();
    let script = Script::good().once("GET", refuse());
    let server = HttpScripted::new(script).with_get(wharf_testkit::GetBehavior::Stream);
    let session = session(&server, helper(COUNTING, &folder.path().join("runs")));
    soon(session.connect()).await.unwrap();
    wharf_testkit::until(async || server.open_streams() == 1).await;
    assert_eq!(server.requests().last().unwrap().headers["authorization"], "Bearer 2");

    let folder = tempfile::tempdir().unwrap();
    let script = Script::good().once("GET", refuse()).once("GET", [Step::Wait(0)]).once("GET", refuse());
    let server = HttpScripted::new(script);
    let helper = Some(helper(COUNTING, &folder.path().join("runs")));
    let remote = RemoteOptions { helper, ..options(in_memory(&server)) };
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
async fn a_server_that_takes_nothing_it_says_gets_two_tries() {
    let folder = tempfile::tempdir().unwrap();
    let refuse = Step::Http { status: 401, headers: Vec::new(), body: String::new() };
    let server = HttpScripted::new(Script::good().on("tools/call", [refuse]));
    let session = session(&server, helper(COUNTING, &folder.path().join("runs")));
    let error = soon(session.call("add", &json(json!({"a": 1, "b": 1})))).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Connect(wharf_client::ConnectErrorKind::Auth(_))), "{error}");
    assert_eq!(server.requests().iter().filter(|seen| seen.body.contains("tools/call")).count(), 2);
}

#[tokio::test]
async fn what_is_wrong_with_it_is_told_without_what_it_said() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = [
        ("echo s3cr3t", "did not print one JSON object with texts in it"),
        (r#"echo '{"Authorization": 7, "x": "s3cr3t"}'"#, "did not print one JSON object with texts in it"),
        ("echo s3cr3t >&2; exit 3", "exited with status 3; run it by hand"),
        (r#"echo '{"Mcp-Session-Id": "s3cr3t"}'"#, "set by the client itself"),
    ];
    for (line, expected) in wrong {
        let session = session(&HttpScripted::new(Script::good()), helper(line, &folder.path().join("runs")));
        let error = soon(session.connect()).await.unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("the header helper `/bin/sh`"), "{error}");
        assert!(!error.contains("s3cr3t"), "{error}");
    }
}

#[tokio::test]
async fn one_that_does_not_end_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let mut helper = helper("exec sleep 600", &folder.path().join("runs"));
    helper.environment = helper.environment.with("X", "1");
    let session = session(&HttpScripted::new(Script::good()), helper);
    let error = soon(session.connect()).await.unwrap_err().to_string();
    assert!(error.contains("did not end within 10 s"), "{error}");
    wharf_testkit::until(async || wharf_testkit::children_of(std::process::id()).is_empty()).await;
}
