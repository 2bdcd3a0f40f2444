//! What a server may answer when it is asked what it speaks.

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::stream;
use serde_json::json;
use tokio::time::Instant;
use wharf_client::{ConnectErrorKind, InProcess, Link, NoHost, ProtocolMode, Session, Transport as _};
use wharf_testkit::{Script, Scripted, Step, eventually};

use super::{LEGACY, MODERN, auto, error_with, protocol, spoken, unsupported};
use crate::seconds;

#[tokio::test(start_paused = true)]
async fn a_good_answer_begins_a_session_without_a_handshake() {
    for script in [Script::modern(), Script::dual_era()] {
        let (session, server) = auto(script);
        assert_eq!(spoken(&session).await, MODERN);
        assert_eq!((server.connections(), server.log().count("server/discover")), (1, 1));
        assert_eq!(server.log().count("initialize"), 0);
        let info = eventually(session.connect()).await.unwrap();
        assert_eq!((info.name.as_str(), info.protocol().as_str()), ("scripted", "2026-07-28 (modern)"));
    }
}

/// Every server here knows only the old way, and answers the question as somebody does. It is greeted on the same
/// connection where it answered, and on a second one where it did not.
#[tokio::test(start_paused = true)]
async fn whatever_an_old_server_makes_of_the_question_it_is_greeted_the_old_way() {
    let line = |line: &str| vec![Step::Line(line.into())];
    let result = |result: serde_json::Value| vec![Step::Result(result)];
    let error = |code: i64, message: &str| vec![Step::Error(code, message.into())];
    let nameless = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"}}"#;
    let greeting = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "eager"}});
    let answers = [
        // Over one connection, at once.
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
        ("a greeting", result(greeting), 1, 0),
        ("old revisions in an error", vec![unsupported(&["2025-11-25"])], 1, 0),
        ("the modern error, empty", vec![error_with(-32022, &json!(null))], 1, 0),
        ("both result and error", line(r#"{"jsonrpc":"2.0","id":{id},"result":{},"error":{"code":1}}"#), 1, 0),
        ("neither", line(r#"{"jsonrpc":"2.0","id":{id}}"#), 1, 0),
        ("broken", line(r#"{"jsonrpc":"2.0","id":{id},"result":{"#), 1, 0),
        // Over a second one, at once.
        ("hanging up", vec![Step::HangUp], 2, 0),
        ("an answer, then hanging up", vec![Step::Error(-32601, "no".into()), Step::HangUp], 2, 0),
        ("garbage, then hanging up", vec![Step::Line("Traceback".into()), Step::HangUp], 2, 0),
        // Beside the first, after a while.
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
        assert_eq!(spoken(&session).await, LEGACY, "{what}");
        let (connections_made, asked) = (server.connections(), server.log().count("server/discover"));
        assert_eq!((connections_made, asked, began.elapsed().as_secs()), (connections, 1, waited), "{what}");
        assert_eq!(session.health().connections, 1, "{what}");
        // Whoever answered is not started twice, and not greeted twice either.
        if connections == 1 {
            assert_eq!(server.log().count("initialize"), 1, "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_the_question_and_then_no_greeting_gets_a_fresh_connection() {
    let script = Script::good().on("server/discover", [Step::Error(-32601, "no".into())]);
    let (session, server) = auto(script.once("initialize", [Step::Hang]));
    let began = Instant::now();
    assert_eq!(spoken(&session).await, LEGACY);
    assert_eq!((server.connections(), began.elapsed()), (2, seconds(10)));
    assert_eq!((server.log().count("server/discover"), server.log().count("initialize")), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_a_greeting_after_the_question_gets_one_without_it() {
    for refusal in [vec![Step::Error(-32600, "not the first message".into())], vec![Step::HangUp]] {
        let script = Script::good().on("server/discover", [Step::Error(-32601, "no".into())]);
        let (session, server) = auto(script.once("initialize", refusal));
        assert_eq!(spoken(&session).await, LEGACY);
        assert_eq!((server.connections(), server.log().count("server/discover")), (2, 1));
    }
    // One that refuses every greeting is believed, and its words are told.
    let script = Script::good().on("server/discover", [Step::Error(-32601, "no".into())]);
    let (session, server) = auto(script.on("initialize", [Step::Error(-32000, "licence expired".into())]));
    let error = eventually(session.connect()).await.unwrap_err();
    assert_eq!(error.to_string(), "scripted: the server refused the session: error -32000: licence expired");
    assert_eq!((server.connections(), server.log().count("initialize")), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_both_know_is_asked_for_once_more() {
    let (session, server) = auto(Script::modern().once("server/discover", [unsupported(&["2031-01-01", MODERN])]));
    assert_eq!(spoken(&session).await, MODERN);
    assert_eq!((server.connections(), server.log().count("server/discover")), (1, 2));
    assert_eq!(server.log().count("initialize"), 0);

    // Not for ever.
    let (session, server) = auto(Script::modern().on("server/discover", [unsupported(&[MODERN])]));
    let error = eventually(session.connect()).await.unwrap_err();
    assert!(matches!(error.kind, ConnectErrorKind::Refused(_)), "{error}");
    assert_eq!((server.connections(), server.log().methods().len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_server_of_a_later_time_is_not_greeted_in_an_older_way() {
    for answer in [unsupported(&["2031-01-01"]), Step::Result(json!({"supportedVersions": ["2031-01-01"]}))] {
        let (session, server) = auto(Script::modern().on("server/discover", [answer]));
        let error = eventually(session.connect()).await.unwrap_err();
        let expected = "scripted: the server refused the session: it speaks the protocol of 2031-01-01; this client \
                        speaks 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28";
        assert_eq!(error.to_string(), expected);
        assert_eq!((server.connections(), server.log().methods().len()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn errors_that_only_the_modern_era_has_are_no_reason_to_fall_back() {
    for code in [-32020, -32021] {
        let (session, server) = auto(Script::modern().on("server/discover", [Step::Error(code, "no".into())]));
        let error = eventually(session.connect()).await.unwrap_err();
        assert_eq!(error.to_string(), format!("scripted: the server refused the session: error {code}: no"));
        assert_eq!((server.connections(), server.log().methods().len()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn fifty_first_calls_find_out_once() {
    for script in [
        Script::modern().once("server/discover", [Step::Wait(300), Step::Normally]),
        Script::good().once("server/discover", [Step::Wait(300), Step::Normally]),
    ] {
        let (session, server) = auto(script);
        let calls = futures_util::future::join_all((0..50).map(|_| spoken(&session)));
        let spoken = eventually(calls).await;
        assert!(spoken.iter().all(|one| *one == spoken[0]));
        assert_eq!((server.connections(), server.log().count("server/discover")), (1, 1));
        assert!(server.log().count("initialize") <= 1);
    }
}

/// The answer and the end are there together, before anybody could send anything more.
#[tokio::test(start_paused = true)]
async fn a_server_that_answers_and_is_gone_in_the_same_moment_gets_a_fresh_connection() {
    let server = Scripted::new(Script::good());
    let (copy, opened) = (server.clone(), AtomicU32::new(0));
    let transport = move || {
        let (copy, first) = (copy.clone(), opened.fetch_add(1, Ordering::Relaxed) == 0);
        async move {
            if !first {
                return InProcess::new(move |stream| copy.clone().serve(stream)).open().await;
            }
            let (sent, mut heard) = tokio::sync::mpsc::channel(8);
            let answer = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#;
            let incoming = stream::once(async move {
                heard.recv().await;
                Ok(answer.to_owned())
            });
            let outgoing = futures_util::sink::unfold(sent, async |sent, _message: bytes::Bytes| {
                let _ = sent.send(()).await;
                Ok(sent)
            });
            Ok(Link::from_messages(incoming, outgoing))
        }
    };
    let session = Session::new("brief".parse().unwrap(), transport, NoHost, protocol(ProtocolMode::Auto));
    assert_eq!(spoken(&session).await, LEGACY);
    assert_eq!(server.log().methods()[0], "initialize");
}
