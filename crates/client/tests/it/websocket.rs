//! WebSocket: the subprotocol, pings, and the ways in which a connection ends.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};
use wharf_client::{CallErrorKind, ConnectErrorKind, NoHost, RemoteOptions, Session, SessionStatus, WebSocket};
use wharf_io::{DialTo, Dialed, HttpSettings};
use wharf_testkit::{HttpScripted, Script, Step, eventually};

use crate::remote::{Way, in_memory};
use crate::{json, legacy, none, result_text, seconds};

fn websocket(server: &HttpScripted) -> Session {
    Way::WebSocket.over(in_memory(server), legacy())
}

/// A session whose far end performs the upgrade manually and then runs this.
fn by_hand<F, O>(then: F) -> Session
where
    F: Fn(WebSocketStream<DuplexStream>) -> O + Clone + Send + Sync + 'static,
    O: Future<Output = ()> + Send,
{
    let tasks = std::sync::Mutex::new(tokio::task::JoinSet::new());
    let http = HttpSettings::default().dialing(move |_: DialTo| {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let then = then.clone();
        tasks.lock().unwrap().spawn(async move {
            let mut socket = accept_hdr_async(theirs, offered).await.unwrap();
            let request = socket.next().await.unwrap().unwrap();
            let id = serde_json::from_str::<Value>(request.to_text().unwrap()).unwrap()["id"].clone();
            let info = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "by hand"}});
            socket.send(Message::text(json!({"jsonrpc": "2.0", "id": id, "result": info}).to_string())).await.unwrap();
            then(socket).await;
        });
        async { Ok(Dialed::new(ours)) }
    });
    let transport = WebSocket::new("ws://server.test/ws", RemoteOptions { http, ..RemoteOptions::default() }).unwrap();
    Session::new("socket".parse().unwrap(), transport, NoHost, legacy())
}

#[expect(clippy::result_large_err, clippy::unnecessary_wraps, reason = "the library wants it so")]
fn offered(
    request: &Request,
    mut response: Response,
) -> Result<Response, tokio_tungstenite::tungstenite::handshake::server::ErrorResponse> {
    assert_eq!(request.headers()["sec-websocket-protocol"], "mcp");
    response.headers_mut().insert("sec-websocket-protocol", "mcp".parse().unwrap());
    Ok(response)
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_answering_pings_is_detected_without_a_call() {
    let session = by_hand(|socket| async move {
        // The far end does not read, so that it does not answer.
        let _socket = socket;
        std::future::pending::<()>().await;
    });
    eventually(session.connect()).await.unwrap();
    let began = Instant::now();
    let mut status = session.status();
    eventually(status.wait_for(|status| matches!(status, SessionStatus::Failed(_)))).await.unwrap();
    assert!(began.elapsed() <= seconds(105), "{:?}", began.elapsed());
    let ended = format!("{:?}", *status.borrow());
    assert!(ended.contains("stopped answering pings"), "{ended}");
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_for_an_unresponsive_server() {
    let session = by_hand(|socket| async move {
        let _socket = socket;
        std::future::pending::<()>().await;
    });
    eventually(session.connect()).await.unwrap();
    let began = Instant::now();
    eventually(session.close()).await;
    assert!(began.elapsed() <= seconds(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_pings_stays_connected() {
    let session = by_hand(|mut socket| async move { while socket.next().await.is_some() {} });
    eventually(session.connect()).await.unwrap();
    tokio::time::sleep(seconds(6 * 60 * 60)).await;
    assert!(session.is_connected());
}

#[tokio::test(start_paused = true)]
async fn the_close_reason_is_reported() {
    let session = by_hand(|mut socket| async move {
        socket.next().await; // initialized
        socket.next().await; // the call
        let frame = CloseFrame { code: 1008.into(), reason: "policy".into() };
        let _ = socket.close(Some(frame)).await;
        while socket.next().await.is_some() {}
    });
    let error = eventually(session.call("tool", &none())).await.unwrap_err();
    assert!(error.to_string().contains("closed with code 1008: policy"), "{error}");
    assert!(matches!(error.kind, CallErrorKind::Lost(_)));
}

#[tokio::test(start_paused = true)]
async fn a_binary_or_overlong_frame_ends_the_connection() {
    let messages =
        [(Message::binary(vec![1, 2, 3]), "binary frame"), (Message::text("x".repeat(33 << 20)), "too long")];
    for (message, expected) in messages {
        let session = by_hand(move |mut socket| {
            let message = message.clone();
            async move {
                socket.next().await;
                socket.next().await;
                let _ = socket.send(message).await;
                while socket.next().await.is_some() {}
            }
        });
        let error = eventually(session.call("tool", &none())).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Lost(_)), "{error}");
        assert!(error.to_string().to_lowercase().contains(expected), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_upgrade_is_reported_with_its_status() {
    let refuse = |status, headers: &[(&str, &str)]| {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        websocket(&HttpScripted::new(Script::good().on("GET", [Step::Http { status, headers, body: "no".into() }])))
    };
    let error = eventually(refuse(401, &[]).connect()).await.unwrap_err();
    assert!(matches!(error.kind, ConnectErrorKind::Auth(_)), "{error}");
    let error = eventually(refuse(503, &[]).connect()).await.unwrap_err();
    assert!(error.to_string().starts_with("remote: the server answered with HTTP 503"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_closed_every_socket_is_reconnected() {
    let server = HttpScripted::new(Script::good());
    let session = websocket(&server);
    for (round, sum) in [(1, "2"), (2, "3"), (3, "4")] {
        assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": round, "b": 1})))).await), sum);
        server.wipe();
        crate::settle().await;
    }
    assert_eq!(server.log().count("initialize"), 3);
}
