//! Scripted servers over WebSocket, tested with a third-party client.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};
use wharf_testkit::{HttpScripted, Listening, Script, Step, soon};

use crate::wire::{echo, echoed, initialize};

async fn connect(listening: &Listening) -> Result<WebSocketStream<TcpStream>, Error> {
    let mut request = listening.ws_url().into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "mcp".parse().unwrap());
    let stream = TcpStream::connect(listening.address()).await.unwrap();
    let (socket, response) = client_async(request, stream).await?;
    assert_eq!(response.headers()["sec-websocket-protocol"], "mcp");
    Ok(socket)
}

async fn request(socket: &mut WebSocketStream<TcpStream>, message: &Value) -> Value {
    socket.send(Message::text(message.to_string())).await.unwrap();
    let answer = socket.next().await.unwrap().unwrap();
    serde_json::from_str(answer.to_text().unwrap()).unwrap()
}

#[tokio::test]
async fn a_frame_is_a_message_until_the_server_hangs_up() {
    let server = HttpScripted::new(Script::good().on("ping", [Step::HangUp]));
    let listening = server.listen().await;
    let mut socket = soon(connect(&listening)).await.unwrap();
    assert_eq!(soon(request(&mut socket, &initialize())).await["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(soon(request(&mut socket, &echo(2, "hi"))).await, echoed(2, "hi"));
    let pushed = json!({"jsonrpc": "2.0", "method": "pushed"});
    server.push(pushed.clone()).await;
    assert_eq!(soon(socket.next()).await.unwrap().unwrap(), Message::text(pushed.to_string()));
    let ping = json!({"jsonrpc": "2.0", "id": 3, "method": "ping"});
    socket.send(Message::text(ping.to_string())).await.unwrap();
    assert!(matches!(soon(socket.next()).await, Some(Ok(Message::Close(_)))));
    assert_eq!(server.log().methods(), ["initialize", "tools/call", "ping"]);
}

#[tokio::test]
async fn a_handshake_can_be_refused() {
    let refusal = Step::Http { status: 401, headers: Vec::new(), body: String::new() };
    let listening = HttpScripted::new(Script::good().on("GET", [refusal])).listen().await;
    let refused = soon(connect(&listening)).await.unwrap_err();
    assert!(matches!(&refused, Error::Http(response) if response.status() == 401), "{refused}");
}
