//! The modern era over HTTP: headers, broken streams and cancellation.

use serde_json::json;
use tokio::time::Instant;
use wharf_client::{CallErrorKind, Outcome, Session};
use wharf_testkit::{HttpScripted, ResponseFormat, Script, Step, eventually};

use super::{http, server_with_steps};
use crate::{json, none, result_text, seconds, settle};

fn status(status: u16, body: &str) -> Step {
    Step::Http { status, headers: Vec::new(), body: body.to_owned() }
}

fn calls(server: &HttpScripted) -> usize {
    server.log().count("tools/call")
}

#[tokio::test(start_paused = true)]
async fn a_header_mismatch_is_fixed_by_a_new_list_only_once() {
    let mismatch = || [Step::Error(-32020, "Mcp-Param-Region header is missing".into())];
    let marked = json!({"name": "tool", "inputSchema": {"type": "object", "properties":
        {"region": {"type": "string", "x-mcp-header": "Region"}}}});
    let script = || Script::modern().tool(marked.clone());
    let arguments = json(json!({"region": "köln"}));

    let server =
        HttpScripted::new(script().once("tools/call", mismatch()).on_call("tool", [Step::Text("done".into())]));
    assert_eq!(result_text(eventually(http(&server).call("tool", &arguments)).await), "done");
    assert_eq!((calls(&server), server.log().count("tools/list")), (2, 1));
    let sent = server.requests().into_iter().rev().find(|seen| seen.body.contains("tools/call")).unwrap();
    assert_eq!(sent.headers["mcp-param-region"], "=?base64?a8O2bG4=?=");
    assert_eq!(sent.headers["mcp-name"], "tool");

    let server = HttpScripted::new(script().on("tools/call", mismatch()));
    let error = eventually(http(&server).call("tool", &arguments)).await.unwrap_err();
    assert_eq!((error.code(), calls(&server), server.log().count("tools/list")), (Some(-32020), 2, 1));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_method_differs_from_an_unreachable_server() {
    let session = http(&HttpScripted::new(Script::modern()));
    let error = eventually(session.request("no/such", &none())).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Some(-32601), Outcome::Answered));

    let server = HttpScripted::new(server_with_steps([status(404, "nothing here")]));
    let session = http(&server);
    let error = eventually(session.call("tool", &none())).await.unwrap_err();
    assert_eq!(error.to_string(), "remote: the server answered with HTTP 404: nothing here");
    assert_eq!((error.outcome(), calls(&server), server.log().count("server/discover")), (Outcome::NotRun, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_before_its_answer_is_not_resumed() {
    for end in [Step::EndStream, Step::HangUp, Step::Reset] {
        let what = format!("{end:?}");
        let progress = Step::Progress(1.0, 2.0, "half".into());
        let first = Step::RawEvent("id: 7\nretry: 10\ndata:\n\n".into());
        let server = HttpScripted::new(server_with_steps([first, progress, end]))
            .with_event_ids()
            .with_response_format(ResponseFormat::Sse);
        let session = http(&server);
        let began = Instant::now();
        let error = eventually(session.call("tool", &none())).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Lost(_)), "{what}: {error}");
        assert_eq!((error.outcome(), began.elapsed(), calls(&server)), (Outcome::Unknown, seconds(0), 1), "{what}");
        assert!(server.requests().iter().all(|seen| seen.method == "POST"), "{what}");
        assert!(server.requests().iter().all(|seen| seen.headers.get("last-event-id").is_none()), "{what}");
        assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_idempotent_call_is_retried_once() {
    let tool =
        |hints: serde_json::Value| json!({"name": "tool", "inputSchema": {"type": "object"}, "annotations": hints});
    let lost = || [Step::Progress(1.0, 2.0, "half".into()), Step::EndStream];
    for (hints, repeated) in [
        (json!({"readOnlyHint": true}), true),
        (json!({"idempotentHint": true}), true),
        (json!({"destructiveHint": true}), false),
        (json!({}), false),
    ] {
        let script = Script::modern().tool(tool(hints.clone())).once("tools/call", lost());
        let server = HttpScripted::new(script.on_call("tool", [Step::Text("done".into())]));
        let session = http(&server);
        eventually(session.list_tools()).await.unwrap();
        let answer = eventually(session.call("tool", &none())).await;
        assert_eq!((answer.is_ok(), calls(&server)), (repeated, 1 + usize::from(repeated)), "{hints}");
        let ids: std::collections::HashSet<_> = server.log().messages().iter().map(|it| it["id"].to_string()).collect();
        assert_eq!(ids.len(), server.log().messages().len(), "{hints}");
    }
    // Not twice.
    let server = HttpScripted::new(Script::modern().tool(tool(json!({"readOnlyHint": true}))).on("tools/call", lost()));
    let session = http(&server);
    eventually(session.list_tools()).await.unwrap();
    let error = eventually(session.call("tool", &none())).await.unwrap_err();
    assert_eq!((error.outcome(), calls(&server)), (Outcome::Unknown, 2));
}

#[tokio::test(start_paused = true)]
async fn a_call_is_canceled_by_disconnecting_without_a_message() {
    for steps in [vec![Step::Hang], vec![Step::Progress(1.0, 2.0, "half".into()), Step::Hang]] {
        let server = HttpScripted::new(server_with_steps(steps));
        let session = http(&server);
        eventually(session.connect()).await.unwrap();
        settle().await;
        let before = server.open_connections();
        assert!(tokio::time::timeout(seconds(5), session.call("tool", &none())).await.is_err());
        tokio::time::sleep(seconds(5)).await;
        assert_eq!((calls(&server), server.log().count("notifications/cancelled")), (1, 0));
        // The call's stream is not read any more.
        assert!(server.open_connections() <= before, "{}", server.open_connections());
    }
}

#[tokio::test(start_paused = true)]
async fn session_ids_are_ignored() {
    let answer = |body: serde_json::Value| Step::Http {
        status: 200,
        headers: vec![("content-type".into(), "application/json".into()), ("mcp-session-id".into(), "unwanted".into())],
        body: format!(r#"{{"jsonrpc":"2.0","id":{{id}},"result":{body}}}"#),
    };
    let discovered = json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": true}}});
    let text = json!({"content": [{"type": "text", "text": "done"}]});
    let server = HttpScripted::new(server_with_steps([answer(text)]).on("server/discover", [answer(discovered)]));
    let session: Session = http(&server);
    for _ in 0..3 {
        assert_eq!(result_text(eventually(session.call("tool", &none())).await), "done");
    }
    eventually(session.list_tools()).await.unwrap();
    assert_eq!(session.session_id(), None);
    eventually(session.close()).await;
    let requests = server.requests();
    assert!(requests.iter().all(|seen| seen.headers.get("mcp-session-id").is_none() && seen.method == "POST"));
    assert!(requests.iter().all(|seen| seen.headers["mcp-protocol-version"] == "2026-07-28"));
    assert!(requests.iter().all(|seen| seen.headers.get("mcp-method").is_some()));
}
