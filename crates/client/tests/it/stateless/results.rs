//! Invalid results, and rounds without an end.

use std::sync::Arc;

use serde_json::{Value, json};
use wharf_client::{
    BoxFuture, CallErrorKind, ClientCapabilities, Elicitation, ElicitationAnswer, Host, InProcess, Outcome, Session,
    SessionOptions,
};
use wharf_testkit::{Script, Scripted, Step, eventually};

use super::{Obliging, piped, piped_with, requests, server_with_steps};
use crate::{json, none, result_text, seconds};

fn needs(requests: &Value) -> Step {
    Step::Result(json!({"resultType": "input_required", "inputRequests": requests}))
}

fn question(message: &str) -> Value {
    json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": {"type": "object"}}})
}

#[tokio::test(start_paused = true)]
async fn a_result_of_an_unknown_type_is_an_error() {
    for kind in [json!("surprise"), json!(""), json!(7), json!({})] {
        let result = json!({"resultType": kind, "content": [], "tools": [], "contents": []});
        let script = server_with_steps([Step::Result(result.clone())])
            .on("tools/list", [Step::Result(result.clone())])
            .on("resources/read", [Step::Result(result)]);
        let (session, server) = piped(script);
        let error = eventually(session.call("tool", &none())).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Malformed(_)), "{error}");
        assert_eq!(error.outcome(), Outcome::Answered);
        let error = eventually(session.read_resource("a://b")).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Malformed(_)), "{error}");
        let error = eventually(session.list_tools()).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Malformed(_)), "{error}");
        assert_eq!((server.log().count("tools/call"), server.log().count("tools/list")), (1, 1));
    }
    // Without a type a result is complete, as in the legacy era.
    let (session, _server) =
        piped(server_with_steps([Step::Result(json!({"content": [{"type": "text", "text": "old"}]}))]));
    assert_eq!(result_text(eventually(session.call("tool", &none())).await), "old");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_requires_input_is_an_error() {
    for result in [json!({}), json!({"tools": [], "ttlMs": 60_000})] {
        let mut result = result;
        result["resultType"] = "input_required".into();
        result["inputRequests"] = json!({"a": question("may I?")});
        let host = Obliging::default();
        let (session, server) = piped_with(Script::modern().once("tools/list", [Step::Result(result)]), host.clone());
        let error = eventually(session.list_tools()).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Malformed(_)), "{error}");
        assert_eq!((host.received(), server.log().count("tools/list")), (vec![], 1));
        // Nothing of it was cached.
        assert_eq!(eventually(session.list_tools()).await.unwrap().items.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_input_requests_fail_their_call_and_do_not_reach_the_host() {
    let inputs = [
        json!([question("listed")]),
        json!("please"),
        json!({"a": "elicitation/create"}),
        json!({"a": {}}),
        json!({"a": {"method": 7}}),
        json!({"a": {"method": "elicitation/create", "params": "who?"}}),
        json!({"a": {"method": "elicitation/create", "params": {}}}),
        json!({"a": {"method": "elicitation/create"}}),
        json!({"a": {"method": "sampling/createMessage", "params": {}}}),
        json!({"a": {"method": "ping"}}),
        json!({"a": {"method": "tools/call", "params": {"name": "add"}}}),
    ];
    for input in inputs {
        let host = Obliging::default();
        let (session, server) = piped_with(server_with_steps([needs(&input)]), host.clone());
        let error = eventually(session.call("tool", &none())).await.unwrap_err();
        let known = matches!(error.kind, CallErrorKind::Malformed(_) | CallErrorKind::Input { .. });
        assert!(known, "{input}: {error}");
        assert_eq!((host.received(), server.log().count("tools/call")), (vec![], 1), "{input}");
        assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
    }
}

#[tokio::test(start_paused = true)]
async fn the_request_state_is_sent_back_unchanged() {
    let notes = [
        r#""plain""#,
        r#"{"z":1,"a":[1.50,1e3,-0.0,12345678901234567890123],"é":"\u00e9\ud83d\ude00"}"#,
        "7",
        "[ 1,\t2 ]",
        r#""  spaced  ""#,
        "false",
    ];
    for note in notes {
        let first = format!(
            r#"{{"jsonrpc":"2.0","id":{{id}},"result":{{"resultType":"input_required","requestState":{note}}}}}"#
        );
        let script = Script::modern().any_tool("tool").once("tools/call", [Step::Line(first)]);
        let (session, server) = piped(script.on_call("tool", [Step::Text("done".into())]));
        assert_eq!(result_text(eventually(session.call("tool", &none())).await), "done");
        let lines = server.log().lines();
        let calls: Vec<_> = lines.iter().filter(|line| line.contains("tools/call")).collect();
        assert!(calls[1].contains(&format!(r#""requestState":{note}"#)), "{}", calls[1]);
        assert!(!calls[0].contains("requestState") && !calls[1].contains("inputResponses"));
        let ids: Vec<_> = requests(&server, "tools/call").iter().map(|call| call["id"].clone()).collect();
        assert_ne!(ids[0], ids[1]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_keeps_requesting_input_is_an_error() {
    let host = Obliging::default();
    let (session, server) = piped_with(server_with_steps([needs(&json!({"a": question("again?")}))]), host.clone());
    let error = eventually(session.call("tool", &none())).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Rounds(10)), "{error}");
    assert_eq!((host.received().len(), server.log().count("tools/call")), (10, 11));

    // A result that needs only time is not repeated quickly either.
    let began = tokio::time::Instant::now();
    let (session, server) =
        piped(server_with_steps([Step::Result(json!({"resultType": "input_required", "requestState": "x"}))]));
    eventually(session.call("tool", &none())).await.unwrap_err();
    assert_eq!(server.log().count("tools/call"), 11);
    assert!(began.elapsed() >= seconds(4), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_on_the_wire_gets_no_answer() {
    let ask = |method: &str| {
        Step::Line(format!(r#"{{"jsonrpc":"2.0","id":"q","method":"{method}","params":{{"message":"who?"}}}}"#))
    };
    let steps = [ask("elicitation/create"), ask("ping"), ask("roots/list"), Step::Text("done".into())];
    let host = Obliging::default();
    let (session, server) = piped_with(server_with_steps(steps), host.clone());
    assert_eq!(result_text(eventually(session.call("tool", &none())).await), "done");
    crate::settle().await;
    assert_eq!((host.received(), session.health().violations), (vec![], 3));
    assert!(server.log().messages().iter().all(|message| message.get("method").is_some()));
}

#[tokio::test(start_paused = true)]
async fn the_callers_meta_is_sent_without_reserved_fields() {
    let (session, server) = piped(Script::modern().on("own/method", [Step::Result(json!({}))]));
    let params = json!({
        "x": 1,
        "_meta": {
            "example.com/mine": {"a": [1]},
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "io.modelcontextprotocol/protocolVersion": "1999-01-01",
            "io.modelcontextprotocol/clientCapabilities": {"everything": {}},
            "io.modelcontextprotocol/clientInfo": {"name": "another client"},
            "io.modelcontextprotocol/logLevel": "debug",
        },
    });
    eventually(session.request("own/method", &params)).await.unwrap();
    let sent = server.log().last_params("own/method").unwrap();
    let meta = &sent["_meta"];
    assert_eq!((&sent["x"], &meta["example.com/mine"]), (&json!(1), &json!({"a": [1]})));
    assert!(meta["traceparent"].is_string());
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "wharf");
    assert!(meta["io.modelcontextprotocol/clientCapabilities"].get("everything").is_none());
    assert!(meta.get("io.modelcontextprotocol/logLevel").is_none());
    let line = server.log().lines().into_iter().find(|line| line.contains("own/method")).unwrap();
    assert_eq!(line.matches("protocolVersion").count(), 1, "{line}");
    assert_eq!(line.matches("traceparent").count(), 1, "{line}");

    // Parameters that are not an object carry nothing.
    for meta in [json!(null), json!("me"), json!([1])] {
        eventually(session.request("own/method", &json!({"_meta": meta}))).await.unwrap();
        let line = server.log().lines().into_iter().rev().find(|line| line.contains("own/method")).unwrap();
        assert_eq!(line.matches("\"_meta\"").count(), 1, "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_callers_round_is_replaced_in_the_next_one() {
    let again = Step::Result(json!({"resultType": "input_required", "requestState": "second"}));
    let script = Script::modern().once("own/method", [again]).on("own/method", [Step::Result(json!({}))]);
    let (session, server) = piped(script);
    let params = json!({"requestState": "first", "inputResponses": {"a": {}}});
    eventually(session.request("own/method", &params)).await.unwrap();
    let lines: Vec<_> = server.log().lines().into_iter().filter(|line| line.contains("own/method")).collect();
    assert!(lines[0].contains("\"first\""), "{}", lines[0]);
    assert_eq!(lines[1].matches("requestState").count(), 1, "{}", lines[1]);
    assert_eq!(server.log().last_params("own/method").unwrap()["requestState"], "second");
}

#[tokio::test(start_paused = true)]
async fn a_result_that_requires_input_without_naming_it_is_an_error() {
    for nothing in
        [json!({"resultType": "input_required"}), json!({"resultType": "input_required", "requestState": null})]
    {
        let (session, server) = piped(server_with_steps([Step::Result(nothing)]));
        let error = eventually(session.call("tool", &none())).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Malformed(_)), "{error}");
        assert_eq!(server.log().count("tools/call"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_servers_own_use_of_the_code_does_not_lose_the_session() {
    let (session, server) = piped(server_with_steps([Step::Error(-32022, "insufficient funds".into())]));
    let error = eventually(session.call("tool", &none())).await.unwrap_err();
    assert_eq!(error.code(), Some(-32022), "{error}");
    assert_eq!((server.log().count("tools/call"), server.connections()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn closing_ends_a_call_that_waits_for_the_host_and_does_not_reconnect() {
    let server = Scripted::new(server_with_steps([needs(&json!({"a": question("still there?")}))]));
    let copy = server.clone();
    let transport = Arc::new(InProcess::new(move |stream| copy.clone().serve(stream)));
    let session =
        Session::with_shared("asking".parse().unwrap(), transport, Arc::new(Sleepy), SessionOptions::default());
    let nothing = none();
    let mut call = Box::pin(session.call("tool", &nothing));
    assert!(tokio::time::timeout(seconds(5), &mut call).await.is_err());
    let began = tokio::time::Instant::now();
    eventually(session.close()).await;
    let error = eventually(call).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Closed), "{error}");
    assert!(began.elapsed() < seconds(3));
    tokio::time::sleep(seconds(7200)).await;
    assert_eq!((server.connections(), session.is_connected()), (1, false));
}

/// A user who never answers.
struct Sleepy;

impl Host for Sleepy {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities { elicitation: true, ..ClientCapabilities::default() }
    }

    fn elicit(&self, _request: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
        Box::pin(std::future::pending())
    }
}
