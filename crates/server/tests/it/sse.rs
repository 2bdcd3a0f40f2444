//! Servers over HTTP+SSE.

use tokio::net::TcpStream;
use wharf_server::{ListenOptions, RemoteServer};

use crate::raw::Http;
use crate::{call, initialize, initialized, remote, server_name, soon, text_of};

/// Opens a stream and returns the path to post to.
pub(crate) async fn open(remote: &RemoteServer) -> (Http<TcpStream>, String) {
    let mut stream = Http::connect(remote).await;
    let head = stream.send("GET /sse", &["Accept: text/event-stream"], "").await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!(head.header("cache-control"), Some("no-cache, no-transform"));
    assert_eq!(head.header("x-accel-buffering"), Some("no"));
    let endpoint = stream.event().await.unwrap();
    let path = endpoint.strip_prefix("event: endpoint\ndata: ").expect("the endpoint first").to_owned();
    (stream, path)
}

#[tokio::test]
async fn a_tool_is_called_over_http_and_sse() {
    let remote = remote(ListenOptions::default()).await;
    let (mut stream, path) = open(&remote).await;
    let mut http = Http::connect(&remote).await;
    let head = http.post(&path, &[], &initialize()).await;
    assert_eq!((head.status, http.body(&head).await.as_str()), (202, "Accepted"));
    assert_eq!(server_name(&stream.message().await.unwrap()), "parrot");
    for message in [initialized(), call(2, "say", "hello")] {
        let head = http.post(&path, &[], &message).await;
        http.body(&head).await;
    }
    let event = stream.event().await.unwrap();
    let data = event.strip_prefix("event: message\ndata: ").expect("a message");
    assert_eq!(text_of(&serde_json::from_str(data).unwrap()), "hello");
    soon(remote.close()).await;
}

#[tokio::test]
async fn a_multi_line_message_is_one_message() {
    let remote = remote(ListenOptions::default()).await;
    let (mut stream, path) = open(&remote).await;
    let message = serde_json::to_string_pretty(&initialize()).unwrap();
    let head = Http::connect(&remote).await.send(&format!("POST {path}"), &[], &message).await;
    assert_eq!(head.status, 202);
    assert_eq!(server_name(&stream.message().await.unwrap()), "parrot");
}

#[tokio::test]
async fn an_idle_stream_carries_keep_alive_comments() {
    let keep_alive = std::time::Duration::from_millis(20);
    let remote = remote(ListenOptions { keep_alive, ..ListenOptions::default() }).await;
    let (mut stream, _) = open(&remote).await;
    for _ in 0..2 {
        assert_eq!(stream.event().await.unwrap(), ": keep-alive");
    }
}

#[tokio::test]
async fn an_invalid_message_or_one_without_a_session_is_refused() {
    let remote = remote(ListenOptions { max_message_bytes: 1024, ..ListenOptions::default() }).await;
    let (_stream, path) = open(&remote).await;
    let long = format!("\"{}\"", "x".repeat(2048));
    let unknown = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#;
    for (path, body, status, reply) in [
        ("/messages?session=guess", "{}", 404, unknown),
        ("/messages", "{}", 404, unknown),
        (path.as_str(), "no json", 400, "the body is not JSON"),
        (path.as_str(), long.as_str(), 413, "Payload Too Large"),
    ] {
        let mut http = Http::connect(&remote).await;
        let head = http.send(&format!("POST {path}"), &[], body).await;
        assert_eq!((head.status, http.body(&head).await.as_str()), (status, reply), "{path} {body:.20}");
    }
}

#[tokio::test]
async fn a_session_ends_with_its_stream() {
    let remote = remote(ListenOptions::default()).await;
    let (stream, path) = open(&remote).await;
    drop(stream);
    let gone = async { while Http::connect(&remote).await.post(&path, &[], &initialized()).await.status != 404 {} };
    soon(gone).await;
}

#[tokio::test]
async fn a_forgotten_session_is_closed_and_unknown() {
    let remote = remote(ListenOptions::default()).await;
    let (mut stream, path) = open(&remote).await;
    soon(remote.router().forget_sessions()).await;
    assert_eq!(stream.event().await, None);
    assert_eq!(Http::connect(&remote).await.post(&path, &[], &initialized()).await.status, 404);
}
