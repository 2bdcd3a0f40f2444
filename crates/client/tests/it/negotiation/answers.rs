//! Answers to `server/discover`.

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::stream;
use serde_json::json;
use tokio::time::Instant;
use wharf_client::{ConnectErrorKind, InProcess, Link, NoHost, ProtocolMode, Session, Transport as _};
use wharf_testkit::{Script, Scripted, Step, eventually};

use super::{LEGACY, MODERN, auto, error_with, negotiated_revision, protocol, unsupported};
use crate::seconds;

#[tokio::test(start_paused = true)]
async fn a_valid_discover_result_needs_no_handshake() {
    for script in [Script::modern(), Script::dual_era()] {
        let (session, server) = auto(script);
        assert_eq!(negotiated_revision(&session).await, MODERN);
        assert_eq!((server.connections(), server.log().count("server/discover")), (1, 1));
        assert_eq!(server.log().count("initialize"), 0);
        let info = eventually(session.connect()).await.unwrap();
        assert_eq!((info.name.as_str(), info.protocol().as_str()), ("scripted", "2026-07-28 (modern)"));
    }
}

/// Every server here is legacy, and answers `server/discover` as some real server does. The handshake follows on the
/// same
/// connection if it answered, and on a second one if it did not.
#[tokio::test(start_paused = true)]
async fn any_legacy_answer_to_discover_leads_to_a_handshake() {
    let line = |line: &str| vec![Step::Line(line.into())];
    let result = |result: serde_json::Value| vec![Step::Result(result)];
    let error = |code: i64, message: &str| vec![Step::Error(code, message.into())];
    let nameless = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"}}"#;
    let initialize_result =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "eager"}});
    let answers = [
        // On one connection, immediately.
        ("no method", error(-32601, "Method not found"), 1, 0),
        ("invalid params", error(-32602, "Invalid request parameters"), 1, 0),
        ("invalid request", error(-32600, "Invalid Request"), 1, 0),
        ("not initialized", error(-32000, "Server not initialized"), 1, 0),
        ("a lost session", error(-32600, "Session not found"), 1, 0),
        ("positive", error(1, "what?"), 1, 0),
        ("internal", error(-32603, "undefined is not a function"), 1, 0),
        ("an empty result", result(json!({})), 1, 0),
        ("a null result", result(json!(null)), 1, 0),
        ("a text", result(json!("hello")), 1, 0),
        ("no revision", result(json!({"supportedVersions": []})), 1, 0),
        ("old revisions", result(json!({"supportedVersions": ["2025-06-18", "2025-11-25"]})), 1, 0),
        ("an initialize result", result(initialize_result), 1, 0),
        ("old revisions in an error", vec![unsupported(&["2025-11-25"])], 1, 0),
        ("the modern error, empty", vec![error_with(-32022, &json!(null))], 1, 0),
        ("both result and error", line(r#"{"jsonrpc":"2.0","id":{id},"result":{},"error":{"code":1}}"#), 1, 0),
        ("neither", line(r#"{"jsonrpc":"2.0","id":{id}}"#), 1, 0),
        ("broken", line(r#"{"jsonrpc":"2.0","id":{id},"result":{"#), 1, 0),
        // On a second connection, immediately.
        ("hanging up", vec![Step::HangUp], 2, 0),
        ("an answer, then hanging up", vec![Step::Error(-32601, "no".into()), Step::HangUp], 2, 0),
        ("garbage, then hanging up", vec![Step::Line("Traceback".into()), Step::HangUp], 2, 0),
        // On a second connection, after a while.
        ("silence", vec![Step::Hang], 2, 2),
        ("an error without an id", line(nameless), 2, 2),
        ("an error with an id of null", line(&nameless.replace("\"error\"", "\"id\":null,\"error\"")), 2, 2),
        ("garbage", line("unknown command: server/discover"), 2, 2),
        ("a bare null", line("null"), 2, 2),
        ("deafness", vec![Step::StopReading], 2, 2),
    ];
    for (what, steps, connections, waited) in answers {
        let (session, server) = auto(Script::good().on("server/discover", steps));
        let began = Instant::now();
        assert_eq!(negotiated_revision(&session).await, LEGACY, "{what}");
        let connections_made = server.connections();
        let discovers = server.log().count("server/discover");
        assert_eq!((connections_made, discovers, began.elapsed().as_secs()), (connections, 1, waited), "{what}");
        assert_eq!(session.health().connections, 1, "{what}");
        // A server that answered is neither started twice nor sent two handshakes.
        if connections == 1 {
            assert_eq!(server.log().count("initialize"), 1, "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_in_the_handshake_after_discover_gets_a_new_connection() {
    let script = Script::good().on("server/discover", [Step::Error(-32601, "no".into())]);
    let (session, server) = auto(script.once("initialize", [Step::Hang]));
    let began = Instant::now();
    assert_eq!(negotiated_revision(&session).await, LEGACY);
    assert_eq!((server.connections(), began.elapsed()), (2, seconds(10)));
    assert_eq!((server.log().count("server/discover"), server.log().count("initialize")), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_a_handshake_after_discover_gets_one_without_it() {
    for refusal in [vec![Step::Error(-32600, "not the first message".into())], vec![Step::HangUp]] {
        let script = Script::good().on("server/discover", [Step::Error(-32601, "no".into())]);
        let (session, server) = auto(script.once("initialize", refusal));
        assert_eq!(negotiated_revision(&session).await, LEGACY);
        assert_eq!((server.connections(), server.log().count("server/discover")), (2, 1));
    }
    // A server that refuses every handshake is reported with its message.
    let script = Script::good().on("server/discover", [Step::Error(-32601, "no".into())]);
    let (session, server) = auto(script.on("initialize", [Step::Error(-32000, "licence expired".into())]));
    let error = eventually(session.connect()).await.unwrap_err();
    assert_eq!(error.to_string(), "scripted: the server refused the session: error -32000: licence expired");
    assert_eq!((server.connections(), server.log().count("initialize")), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_common_revision_is_requested_again() {
    let (session, server) = auto(Script::modern().once("server/discover", [unsupported(&["2031-01-01", MODERN])]));
    assert_eq!(negotiated_revision(&session).await, MODERN);
    assert_eq!((server.connections(), server.log().count("server/discover")), (1, 2));
    assert_eq!(server.log().count("initialize"), 0);

    // But not forever.
    let (session, server) = auto(Script::modern().on("server/discover", [unsupported(&[MODERN])]));
    let error = eventually(session.connect()).await.unwrap_err();
    assert!(matches!(error.kind, ConnectErrorKind::Refused(_)), "{error}");
    assert_eq!((server.connections(), server.log().methods().len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_server_with_only_newer_revisions_gets_no_handshake() {
    for answer in [unsupported(&["2031-01-01"]), Step::Result(json!({"supportedVersions": ["2031-01-01"]}))] {
        let (session, server) = auto(Script::modern().on("server/discover", [answer]));
        let error = eventually(session.connect()).await.unwrap_err();
        let expected = "scripted: the server refused the session: unsupported protocol version 2031-01-01: this \
                        client supports 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28";
        assert_eq!(error.to_string(), expected);
        assert_eq!((server.connections(), server.log().methods().len()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn modern_errors_do_not_cause_a_fallback() {
    for code in [-32020, -32021] {
        let (session, server) = auto(Script::modern().on("server/discover", [Step::Error(code, "no".into())]));
        let error = eventually(session.connect()).await.unwrap_err();
        assert_eq!(error.to_string(), format!("scripted: the server refused the session: error {code}: no"));
        assert_eq!((server.connections(), server.log().methods().len()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn fifty_concurrent_first_calls_negotiate_once() {
    for script in [
        Script::modern().once("server/discover", [Step::Wait(300), Step::Normally]),
        Script::good().once("server/discover", [Step::Wait(300), Step::Normally]),
    ] {
        let (session, server) = auto(script);
        let calls = futures_util::future::join_all((0..50).map(|_| negotiated_revision(&session)));
        let revisions = eventually(calls).await;
        assert!(revisions.iter().all(|one| *one == revisions[0]));
        assert_eq!((server.connections(), server.log().count("server/discover")), (1, 1));
        assert!(server.log().count("initialize") <= 1);
    }
}

/// The answer and the end of the connection arrive together, before anything else could be sent.
#[tokio::test(start_paused = true)]
async fn a_server_that_answers_and_disconnects_gets_a_new_connection() {
    let server = Scripted::new(Script::good());
    let copy = server.clone();
    let opened = AtomicU32::new(0);
    let transport = move || {
        let copy = copy.clone();
        let first = opened.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            if !first {
                return InProcess::new(move |stream| copy.clone().serve(stream)).open().await;
            }
            let (sender, mut receiver) = tokio::sync::mpsc::channel(8);
            let answer = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#;
            let incoming = stream::once(async move {
                receiver.recv().await;
                Ok(answer.to_owned())
            });
            let outgoing = futures_util::sink::unfold(sender, async |sent, _message: bytes::Bytes| {
                let _ = sent.send(()).await;
                Ok(sent)
            });
            Ok(Link::from_messages(incoming, outgoing))
        }
    };
    let session = Session::new("brief".parse().unwrap(), transport, NoHost, protocol(ProtocolMode::Auto));
    assert_eq!(negotiated_revision(&session).await, LEGACY);
    assert_eq!(server.log().methods()[0], "initialize");
}
