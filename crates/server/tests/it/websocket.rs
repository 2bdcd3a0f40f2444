//! Servers over WebSocket.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use wharf_server::{ListenOptions, RemoteServer};

use crate::raw::Http;
use crate::{call, initialize, initialized, remote, server_name, soon, text_of};

pub(crate) type Socket = WebSocketStream<TcpStream>;

async fn connect(remote: &RemoteServer, subprotocols: Option<&str>) -> Result<(Socket, Response), Error> {
    let mut request = remote.ws_url().into_client_request()?;
    if let Some(subprotocols) = subprotocols {
        request.headers_mut().insert("sec-websocket-protocol", subprotocols.parse().unwrap());
    }
    let stream = TcpStream::connect(remote.address()).await.unwrap();
    soon(tokio_tungstenite::client_async(request, stream)).await
}

pub(crate) async fn open(remote: &RemoteServer) -> Socket {
    connect(remote, Some("mcp")).await.unwrap().0
}

pub(crate) async fn send(socket: &mut Socket, message: &Value) {
    soon(socket.send(Message::text(message.to_string()))).await.unwrap();
}

/// Returns the next message, skipping pings.
pub(crate) async fn receive(socket: &mut Socket) -> Value {
    loop {
        match soon(socket.next()).await {
            Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).unwrap(),
            Some(Ok(Message::Ping(_))) => {}
            other => panic!("a message, not {other:?}"),
        }
    }
}

/// Returns the code of the server's close frame.
pub(crate) async fn close_code(socket: &mut Socket) -> CloseCode {
    loop {
        match soon(socket.next()).await {
            Some(Ok(Message::Close(frame))) => return frame.expect("a reason").code,
            Some(Ok(_)) => {}
            other => panic!("a close frame, not {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_tool_is_called_over_a_websocket() {
    let remote = remote(ListenOptions::default()).await;
    let mut socket = open(&remote).await;
    send(&mut socket, &initialize()).await;
    assert_eq!(server_name(&receive(&mut socket).await), "parrot");
    send(&mut socket, &initialized()).await;
    send(&mut socket, &call(2, "say", "hello")).await;
    assert_eq!(text_of(&receive(&mut socket).await), "hello");
    soon(socket.close(None)).await.unwrap();
    soon(remote.close()).await;
}

#[tokio::test]
async fn the_subprotocol_is_negotiated() {
    let remote = remote(ListenOptions::default()).await;
    for (offered, expected) in [(Some("mcp"), Some("mcp")), (Some("other, mcp"), Some("mcp")), (None, None)] {
        let (_, response) = connect(&remote, offered).await.unwrap();
        let agreed = response.headers().get("sec-websocket-protocol").map(|value| value.to_str().unwrap());
        assert_eq!(agreed, expected, "{offered:?}");
    }
    let Err(Error::Http(response)) = connect(&remote, Some("other")).await else { panic!("a refusal") };
    assert_eq!(response.status(), 400);
}

#[tokio::test]
async fn a_plain_request_gets_426_upgrade_required() {
    let remote = remote(ListenOptions::default()).await;
    let head = Http::connect(&remote).await.send("GET /ws", &[], "").await;
    assert_eq!((head.status, head.header("upgrade")), (426, Some("websocket")));
}

#[tokio::test]
async fn frames_without_a_valid_message_close_the_socket() {
    let remote = remote(ListenOptions { max_message_bytes: 1024, ..ListenOptions::default() }).await;
    for (frame, expected) in [
        (Message::binary(vec![1, 2, 3]), CloseCode::Unsupported),
        (Message::text(format!("\"{}\"", "x".repeat(256 * 1024))), CloseCode::Size),
        (Message::text("no json"), CloseCode::Invalid),
    ] {
        let mut socket = open(&remote).await;
        soon(socket.send(frame)).await.unwrap();
        assert_eq!(close_code(&mut socket).await, expected);
    }
}

#[tokio::test]
async fn a_client_that_does_not_answer_pings_is_disconnected() {
    let keep_alive = std::time::Duration::from_millis(50);
    let remote = remote(ListenOptions { keep_alive, ..ListenOptions::default() }).await;
    let mut answering = open(&remote).await;
    for _ in 0..6 {
        assert!(matches!(soon(answering.next()).await, Some(Ok(Message::Ping(_)))));
    }
    // A client answers pings only while it reads, so a client that pauses has not answered.
    let mut silent = open(&remote).await;
    tokio::time::sleep(keep_alive * 8).await;
    assert_eq!(close_code(&mut silent).await, CloseCode::Away);
}

#[tokio::test]
async fn a_forgotten_websocket_is_closed() {
    let remote = remote(ListenOptions::default()).await;
    let mut socket = open(&remote).await;
    send(&mut socket, &initialize()).await;
    receive(&mut socket).await;
    soon(remote.router().forget_sessions()).await;
    assert_eq!(close_code(&mut socket).await, CloseCode::Away);
}
