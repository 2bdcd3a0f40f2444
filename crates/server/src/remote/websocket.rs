//! WebSocket at `/ws`: one message per text frame, both ways.

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

use super::ListenOptions;
use super::backend::{self, Pipe};
use super::reply::{self, Reply};
use super::router::Connection;

const PROTOCOL: HeaderValue = HeaderValue::from_static("mcp");
const VERSION: HeaderValue = HeaderValue::from_static("13");

/// How long the connection may take to become a WebSocket.
const UPGRADE_LIMIT: Duration = Duration::from_secs(10);

/// How long to wait for a client to take the close frame and hang up.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// How many pings in a row may be unanswered.
const LOST_PINGS: u32 = 2;

/// How much is read at a time.
const READ_BUFFER: usize = 16 * 1024;

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Turns the connection into a WebSocket with a handler of its own.
pub(crate) fn open(connection: &Connection, mut request: Request<Incoming>) -> Reply {
    let agreement = match agree(request.version(), request.headers()) {
        Ok(agreement) => agreement,
        Err(refusal) => return *refusal,
    };
    let upgrade = hyper::upgrade::on(&mut request);
    connection.spawn(serve(connection.clone(), upgrade));

    let mut reply = reply::plain(StatusCode::SWITCHING_PROTOCOLS, "");
    let headers = reply.headers_mut();
    headers.clear();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, agreement.accept);
    if agreement.subprotocol {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, PROTOCOL);
    }
    reply
}

struct Agreement {
    accept: HeaderValue,
    /// Whether the client asked for the subprotocol; one that asks for none is taken at its path.
    subprotocol: bool,
}

fn agree(version: Version, headers: &HeaderMap) -> Result<Agreement, Box<Reply>> {
    let refuse = |status, reason| Err(Box::new(reply::plain(status, reason)));
    let upgrades = lists(headers, &CONNECTION, "upgrade") && lists(headers, &UPGRADE, "websocket");
    if version != Version::HTTP_11 || !upgrades || headers.get(SEC_WEBSOCKET_VERSION) != Some(&VERSION) {
        let mut refusal = reply::plain(StatusCode::UPGRADE_REQUIRED, "this is a WebSocket, version 13");
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
        return refuse(StatusCode::BAD_REQUEST, "the only subprotocol is mcp");
    }
    Ok(Agreement { accept, subprotocol })
}

/// Whether a header with a comma-separated list has the token in it.
fn lists(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|listed| listed.trim().eq_ignore_ascii_case(token))
}

async fn serve(connection: Connection, upgrade: OnUpgrade) {
    let shared = connection.shared();
    let forgotten = shared.until_forgotten();
    let upgraded = connection.over.run_until_cancelled(tokio::time::timeout(UPGRADE_LIMIT, upgrade)).await;
    let Some(Ok(Ok(upgraded))) = upgraded else { return };
    let socket =
        WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(limits(&shared.options))).await;

    let (pipe, end) = backend::pipe();
    let client_gone = CancellationToken::new();
    let handling = shared.backend.serve(end, client_gone.clone());
    let relaying = async {
        let told_to_end = async {
            tokio::select! { () = connection.over.cancelled() => {}, () = forgotten.cancelled() => {} }
        };
        relay(socket, pipe, shared.options.keep_alive, told_to_end).await;
        client_gone.cancel();
    };
    tokio::join!(handling, relaying);
}

fn limits(options: &ListenOptions) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .max_message_size(Some(options.largest_message))
        .max_frame_size(Some(options.largest_message))
}

/// Carries messages both ways until one side ends or is told to, and says why in the close frame.
async fn relay(socket: Socket, pipe: Pipe, keep_alive: Duration, told_to_end: impl Future<Output = ()>) {
    let Pipe { to_handler, mut from_handler } = pipe;
    let (mut sink, mut source) = socket.split();
    let unanswered = AtomicU32::new(0);

    // Each way is a loop of its own: if one of them waits for room, the other goes on making it.
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
                    if unanswered.fetch_add(1, Ordering::Relaxed) >= LOST_PINGS {
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
    let why = tokio::select! {
        why = reading => why,
        why = writing => why,
        () = told_to_end => CloseCode::Away,
    };
    if why.is_allowed() {
        let _ = tokio::time::timeout(CLOSE_LIMIT, hang_up(sink, source, why)).await;
    }
}

/// Takes the client's messages until there is a reason to close.
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

/// Sends the close frame, and reads what is still on its way: a socket closed over unread bytes is reset, and the
/// client may never see why.
async fn hang_up(mut sink: SplitSink<Socket, Message>, source: SplitStream<Socket>, why: CloseCode) {
    let farewell = CloseFrame { code: why, reason: Utf8Bytes::default() };
    // If the client was first to close, tungstenite only has its answer to flush.
    let _ = sink.send(Message::Close(Some(farewell))).await;
    let _ = sink.flush().await;
    let Ok(socket) = sink.reunite(source) else { return };
    let mut stream = socket.into_inner();
    let mut rest = vec![0; 4096];
    while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
}
