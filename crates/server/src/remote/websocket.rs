//! WebSocket at `/ws`: one message per text frame, in both directions.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use http::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{Request, StatusCode, Version};
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt as _;
use tokio::time::MissedTickBehavior;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message, Utf8Bytes};
use tokio_util::sync::CancellationToken;

use super::backend::{self, Pipe};
use super::connection::Connection;
use super::options::ListenOptions;
use super::reply::{self, Reply};

const PROTOCOL: HeaderValue = HeaderValue::from_static("mcp");
const VERSION: HeaderValue = HeaderValue::from_static("13");

/// Time limit for the upgrade to a WebSocket.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait for a client to read the close frame and disconnect.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// How many consecutive pings may remain unanswered.
const MAX_LOST_PINGS: u32 = 2;

/// Bytes per read.
const READ_BUFFER_BYTES: usize = 16 * 1024;

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Upgrades the connection to a WebSocket with a new handler.
pub(crate) async fn open(connection: &Connection, mut request: Request<Incoming>) -> Reply {
    let handshake = match check(request.version(), request.headers()) {
        Ok(handshake) => handshake,
        Err(refusal) => return *refusal,
    };
    let slot = match connection.shared.reserve_session().await {
        Ok(slot) => slot,
        Err(refusal) => return *refusal,
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let serving = serve(connection.clone(), upgrade);
    connection.spawn(async move {
        let _slot = slot;
        serving.await;
    });

    let mut reply = reply::plain(StatusCode::SWITCHING_PROTOCOLS, "");
    let headers = reply.headers_mut();
    headers.clear();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, handshake.accept);
    if handshake.subprotocol {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, PROTOCOL);
    }
    reply
}

/// A valid opening handshake.
struct Handshake {
    accept: HeaderValue,
    /// Whether the client requested the subprotocol. Without one the path is enough.
    subprotocol: bool,
}

fn check(version: Version, headers: &HeaderMap) -> Result<Handshake, Box<Reply>> {
    let refuse = |status, reason| Err(Box::new(reply::plain(status, reason)));
    let upgrades = lists(headers, &CONNECTION, "upgrade") && lists(headers, &UPGRADE, "websocket");
    if version != Version::HTTP_11 || !upgrades || headers.get(SEC_WEBSOCKET_VERSION) != Some(&VERSION) {
        let mut refusal = reply::plain(StatusCode::UPGRADE_REQUIRED, "WebSocket version 13 required");
        refusal.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
        refusal.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        refusal.headers_mut().insert(SEC_WEBSOCKET_VERSION, VERSION);
        return Err(Box::new(refusal));
    }
    let Some(key) = headers.get(SEC_WEBSOCKET_KEY) else {
        return refuse(StatusCode::BAD_REQUEST, "Sec-WebSocket-Key is missing");
    };
    let Ok(accept) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) else {
        return refuse(StatusCode::BAD_REQUEST, "Sec-WebSocket-Key is malformed");
    };
    let subprotocol = lists(headers, &SEC_WEBSOCKET_PROTOCOL, "mcp");
    if headers.contains_key(SEC_WEBSOCKET_PROTOCOL) && !subprotocol {
        return refuse(StatusCode::BAD_REQUEST, "unsupported subprotocol: expected mcp");
    }
    Ok(Handshake { accept, subprotocol })
}

/// Returns whether a header with a comma-separated list contains the token.
fn lists(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|listed| listed.trim().eq_ignore_ascii_case(token))
}

async fn serve(connection: Connection, upgrade: OnUpgrade) {
    let shared = &connection.shared;
    let forgotten = shared.until_forgotten();
    let upgraded = connection.over.run_until_cancelled(tokio::time::timeout(UPGRADE_TIMEOUT, upgrade)).await;
    let Some(Ok(Ok(upgraded))) = upgraded else { return };
    let socket =
        WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(limits(&shared.options))).await;

    let (pipe, end) = backend::pipe();
    let client_gone = CancellationToken::new();
    let handling = shared.backend.serve(end, client_gone.clone());
    let relaying = async {
        let stopped = async {
            tokio::select! { () = connection.over.cancelled() => {}, () = forgotten.cancelled() => {} }
        };
        relay(socket, pipe, shared.options.keep_alive, stopped).await;
        client_gone.cancel();
    };
    tokio::join!(handling, relaying);
}

fn limits(options: &ListenOptions) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .max_message_size(Some(options.max_message_bytes))
        .max_frame_size(Some(options.max_message_bytes))
}

/// Forwards messages in both directions until one side ends or `stopped` completes. The close frame carries the reason.
async fn relay(socket: Socket, pipe: Pipe, keep_alive: Duration, stopped: impl Future<Output = ()>) {
    let Pipe { to_handler, mut from_handler } = pipe;
    let (mut sink, mut source) = socket.split();
    let unanswered = AtomicU32::new(0);

    // Each direction has its own loop: while one waits for buffer space, the other keeps freeing it.
    let reading = read(&mut source, &to_handler, &unanswered);
    let writing = async {
        let mut pings = tokio::time::interval(keep_alive);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        pings.reset();
        loop {
            let message = tokio::select! {
                line = from_handler.next_line() => match line {
                    Ok(Some(line)) => Message::text(line),
                    Ok(None) | Err(_) => return CloseCode::Normal,
                },
                _ = pings.tick() => {
                    if unanswered.fetch_add(1, Ordering::Relaxed) >= MAX_LOST_PINGS {
                        return CloseCode::Away;
                    }
                    Message::Ping(Bytes::new())
                }
            };
            if sink.send(message).await.is_err() {
                return CloseCode::Abnormal;
            }
        }
    };
    let code = tokio::select! {
        code = reading => code,
        code = writing => code,
        () = stopped => CloseCode::Away,
    };
    if code.is_allowed() {
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, close(sink, source, code)).await;
    }
}

/// Reads the client's messages until the connection must close.
async fn read(
    source: &mut SplitStream<Socket>,
    to_handler: &tokio::sync::mpsc::Sender<Bytes>,
    unanswered: &AtomicU32,
) -> CloseCode {
    loop {
        match source.next().await {
            Some(Ok(Message::Text(text))) => {
                let Some(line) = backend::one_line(text.as_bytes()) else { return CloseCode::Invalid };
                if to_handler.send(line).await.is_err() {
                    return CloseCode::Normal;
                }
            }
            Some(Ok(Message::Binary(_))) => return CloseCode::Unsupported,
            Some(Ok(Message::Pong(_))) => unanswered.store(0, Ordering::Relaxed),
            // Tungstenite answers pings itself, and close frames too.
            Some(Ok(Message::Ping(_) | Message::Frame(_))) => {}
            Some(Ok(Message::Close(_))) => return CloseCode::Normal,
            Some(Err(Error::Capacity(_))) => return CloseCode::Size,
            Some(Err(Error::Utf8(_))) => return CloseCode::Invalid,
            Some(Err(Error::Protocol(_))) => return CloseCode::Protocol,
            Some(Err(_)) | None => return CloseCode::Abnormal,
        }
    }
}

/// Sends the close frame and drains the socket: closing a socket with unread bytes resets it, and the client might never
/// see the reason.
async fn close(mut sink: SplitSink<Socket, Message>, source: SplitStream<Socket>, code: CloseCode) {
    let frame = CloseFrame { code, reason: Utf8Bytes::default() };
    // If the client closed first, tungstenite only has its reply to flush.
    let _ = sink.send(Message::Close(Some(frame))).await;
    let _ = sink.flush().await;
    let Ok(socket) = sink.reunite(source) else { return };
    let mut stream = socket.into_inner();
    let mut rest = vec![0; 4096];
    while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
}
