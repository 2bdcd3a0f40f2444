//! Servers over Streamable HTTP.

use serde_json::Value;
use tokio::net::TcpStream;
use wharf_server::{ListenOptions, RemoteServer};

use crate::raw::Http;
use crate::{call, initialize, initialized, remote, server_name, soon, text_of};

/// Opens a session and returns its `Mcp-Session-Id` header line.
pub(crate) async fn open(remote: &RemoteServer) -> (Http<TcpStream>, String) {
    let mut http = Http::connect(remote).await;
    let head = http.post("/mcp", &[], &initialize()).await;
    let session = format!("Mcp-Session-Id: {}", head.header("mcp-session-id").expect("a session"));
    assert_eq!(server_name(&http.message().await.unwrap()), "parrot");
    assert_eq!(http.event().await, None);
    let head = http.post("/mcp", &[&session], &initialized()).await;
    assert_eq!(head.status, 202);
    (http, session)
}

#[tokio::test]
async fn a_tool_is_called_over_streamable_http() {
    let remote = remote(ListenOptions::default()).await;
    let (mut http, session) = open(&remote).await;
    let head = http.post("/mcp", &[&session], &call(2, "say", "hello")).await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!(head.header("x-accel-buffering"), Some("no"));
    assert_eq!(text_of(&http.message().await.unwrap()), "hello");
    remote.close().await;
}

#[tokio::test]
async fn an_idle_stream_carries_keep_alive_comments() {
    let keep_alive = std::time::Duration::from_millis(20);
    let remote = remote(ListenOptions { keep_alive, ..ListenOptions::default() }).await;
    let (mut http, session) = open(&remote).await;
    http.post("/mcp", &[&session], &call(2, "hang", "")).await;
    soon(async { while http.event().await.unwrap() != ": keep-alive" {} }).await;
}

#[tokio::test]
async fn a_sole_response_is_json() {
    let remote = remote(ListenOptions { json_responses: true, ..ListenOptions::default() }).await;
    let mut http = Http::connect(&remote).await;
    let head = http.post("/mcp", &[], &initialize()).await;
    let session = format!("Mcp-Session-Id: {}", head.header("mcp-session-id").expect("a session"));
    assert_eq!(head.header("content-type"), Some("application/json"));
    let answer = http.body(&head).await;
    assert_eq!(server_name(&serde_json::from_str(&answer).unwrap()), "parrot");
    http.post("/mcp", &[&session], &initialized()).await;

    let head = http.post("/mcp", &[&session], &call(2, "say", "hello")).await;
    assert_eq!(head.header("content-type"), Some("application/json"));
    let answer = http.body(&head).await;
    assert_eq!(text_of(&serde_json::from_str::<Value>(&answer).unwrap()), "hello");

    let head = http.post("/mcp", &[&session], &call(3, "report", "")).await;
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    assert_eq!(http.message().await.unwrap()["method"], "notifications/progress");
    assert_eq!(text_of(&http.message().await.unwrap()), "done");
}

#[tokio::test]
async fn a_forgotten_session_is_not_found_and_a_new_one_can_be_opened() {
    let remote = remote(ListenOptions::default()).await;
    let (mut http, session) = open(&remote).await;
    let mut listening = Http::connect(&remote).await;
    let head = listening.send("GET /mcp", &[&session, "Accept: text/event-stream"], "").await;
    assert_eq!(head.status, 200);

    soon(remote.router().forget_sessions()).await;
    while listening.event().await.is_some() {}
    let head = http.post("/mcp", &[&session], &call(2, "say", "hello")).await;
    assert_eq!(head.status, 404);
    let (_, another) = open(&remote).await;
    assert_ne!(session, another);
}

#[tokio::test]
async fn a_pending_call_ends_when_its_session_is_forgotten() {
    let remote = remote(ListenOptions { json_responses: true, ..ListenOptions::default() }).await;
    let mut http = Http::connect(&remote).await;
    let head = http.post("/mcp", &[], &initialize()).await;
    http.body(&head).await;
    let session = format!("Mcp-Session-Id: {}", head.header("mcp-session-id").expect("a session"));
    http.post("/mcp", &[&session], &initialized()).await;
    let hanging_call = call(2, "hang", "");
    let calling = async {
        http.post("/mcp", &[&session], &hanging_call).await;
        while http.event().await.is_some() {}
    };
    let forgetting = async {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        remote.router().forget_sessions().await;
    };
    soon(async { tokio::join!(calling, forgetting) }).await;
}

#[tokio::test]
async fn a_session_outlives_the_listener() {
    let first = remote(ListenOptions::default()).await;
    let (_, session) = open(&first).await;
    let address = first.address();
    let router = first.router().clone();
    soon(first.close()).await;
    let second = RemoteServer::bind(address, router).await.unwrap();
    let mut http = Http::connect(&second).await;
    http.post("/mcp", &[&session], &call(2, "say", "still here")).await;
    assert_eq!(text_of(&http.message().await.unwrap()), "still here");
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused() {
    let remote = remote(ListenOptions { max_message_bytes: 1024, ..ListenOptions::default() }).await;
    let mut http = Http::connect(&remote).await;
    let head = http.post("/mcp", &[], &call(1, "say", &"x".repeat(2048))).await;
    assert_eq!(head.status, 413);
}
