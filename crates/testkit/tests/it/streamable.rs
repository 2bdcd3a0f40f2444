//! Scripted servers over Streamable HTTP, correct and faulty.

use std::io::ErrorKind;

use serde_json::{Value, json};
use wharf_testkit::{GetBehavior, HttpScripted, ResponseFormat, Script, Step, UnknownSession, eventually, soon, until};

use crate::wire::{Wire, echo, echoed, event};

#[tokio::test]
async fn initialize_opens_a_session_with_json_responses() {
    let server = HttpScripted::new(Script::good());
    let listening = server.listen().await;
    let mut wire = Wire::to(listening.address()).await;
    let (head, body) = soon(wire.initialize()).await;
    assert_eq!((head.status, head.get("content-type")), (200, Some("application/json")));
    assert_eq!(head.get("mcp-session-id"), Some("session-1"));
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["result"]["protocolVersion"], "2025-06-18");

    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let (head, body) = soon(wire.post(&initialized)).await;
    assert_eq!((head.status, body.as_str()), (202, ""));
    let (head, body) = soon(wire.post(&echo(2, "hello"))).await;
    assert_eq!((head.status, body), (200, echoed(2, "hello").to_string()));

    assert_eq!(server.log().methods(), ["initialize", "notifications/initialized", "tools/call"]);
    let seen = server.requests().pop().unwrap();
    assert_eq!((seen.method.as_str(), seen.path.as_str(), seen.connection), ("POST", "/mcp", 1));
    assert_eq!(seen.headers["mcp-session-id"], "session-1");

    let (head, _) = soon(wire.request("DELETE /mcp", "")).await;
    assert_eq!(head.status, 200);
    let (head, _) = soon(wire.post(&echo(3, "again"))).await;
    assert_eq!((head.status, server.connections()), (404, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_can_respond_with_events() {
    let script = Script::good().on_call("echo", [Step::Wait(60_000), Step::Normally]);
    let server = HttpScripted::new(script).with_response_format(ResponseFormat::Sse).with_event_ids();
    let (ours, theirs) = tokio::io::duplex(1024);
    let mut wire = Wire::over(ours);
    let talk = async {
        let (head, body) = wire.initialize().await;
        assert_eq!(head.get("content-type"), Some("text/event-stream"));
        assert!(body.starts_with("id: 1\nevent: message\ndata: {"), "{body}");
        let (_, body) = wire.post(&echo(2, "late")).await;
        assert_eq!(body, format!("id: 2\n{}", event(&echoed(2, "late"))));
        drop(wire);
    };
    eventually(async { tokio::join!(server.serve_connection(theirs), talk) }).await;
}

#[tokio::test]
async fn progress_and_requests_are_sent_on_the_stream_of_their_call() {
    let steps = [Step::Progress(1.0, 2.0, "half".into()), Step::Ask("roots/list".into(), json!({})), Step::EchoAnswer];
    let server = HttpScripted::new(Script::good().on_call("echo", steps)).without_sessions();
    let listening = server.listen().await;
    let mut wire = Wire::to(listening.address()).await;
    let mut other = Wire::to(listening.address()).await;
    let talk = async {
        let (head, _) = wire.initialize().await;
        assert_eq!(head.get("mcp-session-id"), None);
        wire.send("POST /mcp", &echo(7, "").to_string()).await;
        assert_eq!(wire.head().await.unwrap().get("content-type"), Some("text/event-stream"));
        assert!(wire.chunk().await.unwrap().unwrap().contains("notifications/progress"));
        assert!(wire.chunk().await.unwrap().unwrap().contains(r#""id":"question-1","method":"roots/list""#));
        let answer = json!({"jsonrpc": "2.0", "id": "question-1", "result": {"roots": []}});
        assert_eq!(other.post(&answer).await.0.status, 202);
        assert_eq!(wire.chunk().await.unwrap().unwrap(), event(&echoed(7, r#"{"roots":[]}"#)));
        assert_eq!(wire.chunk().await.unwrap(), None);
    };
    soon(talk).await;
}

#[tokio::test]
async fn a_wiped_server_sends_every_kind_of_unknown_session_response() {
    let rpc = |code: i64, message: &str| json!({"code": code, "message": message});
    let kinds = [
        (UnknownSession::NotFound, 404, String::new()),
        (
            UnknownSession::NotFoundRpc,
            404,
            json!({"jsonrpc": "2.0", "id": 2, "error": rpc(-32001, "Session not found")}).to_string(),
        ),
        (
            UnknownSession::BadRequestNoId,
            400,
            json!({"jsonrpc": "2.0", "error": rpc(-32000, "Bad Request: No valid session ID provided")}).to_string(),
        ),
        (
            UnknownSession::OkRpc(-1, "who?".into()),
            200,
            json!({"jsonrpc": "2.0", "id": 2, "error": rpc(-1, "who?")}).to_string(),
        ),
        (UnknownSession::Custom(418, "no {id}".into()), 418, "no 2".into()),
    ];
    for (response, status, body) in kinds {
        let server = HttpScripted::new(Script::good()).on_unknown_session(response);
        let listening = server.listen().await;
        let mut wire = Wire::to(listening.address()).await;
        soon(wire.initialize()).await;
        server.wipe();
        let (head, answer) = soon(wire.post(&echo(2, ""))).await;
        assert_eq!((head.status, answer), (status, body));
        assert_eq!(soon(wire.initialize()).await.0.get("mcp-session-id"), Some("session-2"));
    }
}

#[tokio::test]
async fn pushed_messages_arrive_on_the_open_stream_until_the_server_is_wiped() {
    let server = HttpScripted::new(Script::good()).with_get(GetBehavior::Stream);
    let listening = server.listen().await;
    let mut wire = Wire::to(listening.address()).await;
    soon(wire.initialize()).await;
    wire.send("GET /mcp", "").await;
    assert_eq!(soon(wire.head()).await.unwrap().get("content-type"), Some("text/event-stream"));
    until(async || server.open_streams() == 1).await;
    let message = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    server.push(message.clone()).await;
    assert_eq!(soon(wire.chunk()).await.unwrap(), Some(event(&message)));
    server.wipe();
    assert_eq!(soon(wire.chunk()).await.unwrap(), None);
    assert_eq!(soon(wire.request("GET /mcp", "")).await.0.status, 404);
}

#[tokio::test]
async fn a_get_can_be_refused_or_scripted_line_by_line() {
    let lines = [Step::Line("id: 9".into()), Step::Line("data: x".into()), Step::Line(String::new()), Step::HangUp];
    let server = HttpScripted::new(Script::good().once("GET", lines));
    let listening = server.listen().await;
    let mut wire = Wire::to(listening.address()).await;
    let (head, body) = soon(wire.request("GET /mcp", "")).await;
    assert_eq!((head.status, body.as_str()), (200, "id: 9\ndata: x\n\n"));
    assert_eq!(soon(wire.request("GET /mcp", "")).await.0.status, 405);
}

#[tokio::test]
async fn a_response_can_be_scripted_exactly() {
    let headers = vec![("www-authenticate".to_owned(), "Bearer".to_owned())];
    let step = Step::Http { status: 401, headers, body: "no {id}".into() };
    let listening = HttpScripted::new(Script::good().once("initialize", [step])).listen().await;
    let mut wire = Wire::to(listening.address()).await;
    let (head, body) = soon(wire.initialize()).await;
    assert_eq!((head.status, head.get("www-authenticate"), body.as_str()), (401, Some("Bearer"), "no 1"));
    assert_eq!((head.get("mcp-session-id"), head.get("content-type")), (None, None));
    assert_eq!(soon(wire.initialize()).await.0.get("mcp-session-id"), Some("session-1"));
}

#[tokio::test]
async fn responses_can_be_interrupted_in_every_way() {
    let half = || Step::RawEvent("data: {id}".into());
    let script = Script::good()
        .on_call("reset", [Step::Reset])
        .on_call("hang up", [Step::HangUp])
        .on_call("half, reset", [half(), Step::Reset])
        .on_call("half, hang up", [half(), Step::HangUp])
        .on_call("half, end", [half(), Step::EndStream, Step::Hang])
        .on_call("answer, hang up", [Step::Text("last".into()), Step::HangUp])
        .on_call("stall", [Step::Stall]);
    let listening = HttpScripted::new(script).without_sessions().listen().await;
    let call = async |name: &str| {
        let mut wire = Wire::to(listening.address()).await;
        let call = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": name}});
        wire.send("POST /mcp", &call.to_string()).await;
        wire
    };
    let talk = async {
        assert_eq!(call("reset").await.head().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(call("hang up").await.head().await.unwrap_err().kind(), ErrorKind::UnexpectedEof);

        for (name, end) in [("half, reset", ErrorKind::ConnectionReset), ("half, hang up", ErrorKind::UnexpectedEof)] {
            let mut wire = call(name).await;
            wire.head().await.unwrap();
            assert_eq!(wire.chunk().await.unwrap(), Some("data: 5".into()));
            assert_eq!(wire.chunk().await.unwrap_err().kind(), end, "{name}");
        }
        assert_eq!(call("half, end").await.response().await.unwrap().1, "data: 5");

        let mut wire = call("answer, hang up").await;
        assert_eq!(wire.response().await.unwrap().1, echoed(5, "last").to_string());
        assert_eq!(wire.rest().await.unwrap(), b"");

        let mut wire = call("stall").await;
        assert_eq!(wire.head().await.unwrap().get("content-length"), Some("1000"));
        let nothing = tokio::time::timeout(std::time::Duration::from_millis(50), wire.rest()).await;
        assert!(nothing.is_err(), "{nothing:?}");
    };
    soon(talk).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_ends_when_its_client_disconnects_during_any_step() {
    for (request, format) in [
        ("POST /mcp", ResponseFormat::Json),
        ("POST /mcp", ResponseFormat::Sse),
        ("GET /mcp", ResponseFormat::Sse),
        ("GET /sse", ResponseFormat::Sse),
    ] {
        let script = Script::good().on_call("echo", [Step::Hang]);
        let server =
            HttpScripted::new(script).without_sessions().with_response_format(format).with_get(GetBehavior::Stream);
        let (ours, theirs) = tokio::io::duplex(1024);
        let mut wire = Wire::over(ours);
        let seen = server.clone();
        let leave = async {
            wire.send(request, &echo(1, "").to_string()).await;
            until(async || !seen.requests().is_empty()).await;
            drop(wire);
        };
        eventually(async { tokio::join!(server.serve_connection(theirs), leave) }).await;
        assert_eq!(seen.open_streams(), 0);
    }
}

#[tokio::test]
async fn a_server_can_restart_on_its_port() {
    let server = HttpScripted::new(Script::good());
    let listening = server.listen().await;
    let address = listening.address();
    let mut wire = Wire::to(address).await;
    soon(wire.initialize()).await;
    drop(listening);
    let listening = soon(server.listen_on(address)).await.unwrap();
    assert_eq!(soon(wire.rest()).await.unwrap(), b"");
    assert_eq!(soon(Wire::to(address).await.initialize()).await.0.get("mcp-session-id"), Some("session-2"));
    soon(listening.close()).await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
