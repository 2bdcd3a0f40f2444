//! Servers behind a WebSocket: subprotocol `mcp`, one message per text frame, and pings to detect a dead connection.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use http::header::SEC_WEBSOCKET_PROTOCOL;
use http::{HeaderValue, Method, Request};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use wharf_auth::{AuthRequired, NetworkZone, RequestTarget};
use wharf_io::address::WEBSOCKET_SCHEMES;
use wharf_io::{Dialed, HttpError};

use super::http::{HeaderRetries, Remote, challenge};
use super::{ExitInfo, Frame, Link, MAX_MESSAGE_BYTES, OpenError, Outward, PeerHandle, RemoteOptions, Transport};
use crate::error::HttpStatus;
use crate::remote::InvalidRemote;

/// How often the server is pinged.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// How long the server may send nothing, not even pongs.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(75);
/// The capacity of the write queue.
const MAX_QUEUED_MESSAGES: usize = 64;
/// Time for the closing handshake.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Connects to a server over a WebSocket.
#[derive(Clone)]
pub struct WebSocket {
    remote: Remote,
}

impl WebSocket {
    /// Creates a transport for the server at a `ws` or `wss` URL.
    pub fn new(url: &str, options: RemoteOptions) -> Result<Self, InvalidRemote> {
        Ok(Self { remote: Remote::new(url, WEBSOCKET_SCHEMES, options)? })
    }
}

impl Transport for WebSocket {
    fn open(&self) -> BoxFuture<'_, Result<Link, OpenError>> {
        Box::pin(async { open(&self.remote).await })
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn identity(&self) -> Option<String> {
        Some(self.remote.identity())
    }

    fn audience(&self) -> Option<String> {
        Some(self.remote.audience())
    }

    fn release(&self) {
        self.remote.release();
    }
}

async fn open(remote: &Remote) -> Result<Link, OpenError> {
    let endpoint = remote.endpoint()?;
    let mut retries = HeaderRetries::default();
    let socket = loop {
        let target = RequestTarget { method: &Method::GET, url: &endpoint.url };
        let (headers, version) = endpoint.headers.get(target).await?;
        let mut request = Request::new(());
        *request.uri_mut() = endpoint.url.clone();
        *request.headers_mut() = headers;
        let authority = endpoint.url.authority().map_or("", |authority| authority.as_str());
        let key = generate_key();
        let ours = [
            ("host", authority),
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", &key),
        ];
        for (name, value) in ours {
            let value = HeaderValue::from_str(value).map_err(|error| OpenError::Other(error.to_string()))?;
            request.headers_mut().insert(name, value);
        }
        request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("mcp"));
        let stream = endpoint.client.connect(&endpoint.url).await.map_err(|error| not_connected(&error))?;
        let zone = stream.peer().map(NetworkZone::of);
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES));
        match client_async_with_config(request, stream, Some(config)).await {
            Ok((socket, response)) => {
                endpoint.headers.responded(response.headers());
                break socket;
            }
            Err(error) => {
                if let Error::Http(response) = &error {
                    endpoint.headers.responded(response.headers());
                }
                let error = refused(error, zone);
                let required = if let OpenError::Auth(required) = &error { Some(required) } else { None };
                let stale = required.is_some() || matches!(&error, OpenError::Http(HttpStatus { status: 403, .. }));
                if !stale || !endpoint.headers.refresh(version, &mut retries, required).await? {
                    return Err(error);
                }
            }
        }
    };
    Ok(link(socket))
}

fn link(socket: WebSocketStream<Dialed>) -> Link {
    let (mut writer, reader) = socket.split();
    let (outgoing, mut waiting) = mpsc::channel::<Message>(MAX_QUEUED_MESSAGES);
    let liveness = Arc::new(Liveness {
        created_at: Instant::now(),
        last_at: AtomicU64::new(0),
        ended: Notify::new(),
        closed: Notify::new(),
        silent: AtomicBool::new(false),
    });
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Some(message) = waiting.recv().await {
            let last = matches!(message, Message::Close(_));
            if writer.send(message).await.is_err() || last {
                break;
            }
        }
        let _ = writer.close().await;
    });
    tasks.spawn(ping_periodically(outgoing.clone(), Arc::clone(&liveness)));
    let incoming = stream::unfold((reader, Arc::clone(&liveness)), async |(mut reader, liveness)| {
        let frame = tokio::select! {
            frame = next(&mut reader, &liveness) => frame,
            // The client has closed its side, and does not wait for the server's close frame.
            () = liveness.closed.notified() => None,
        };
        if !matches!(frame, Some(Ok(_))) {
            liveness.ended.notify_one();
        }
        Some((frame?, (reader, liveness)))
    });
    let closer = outgoing.clone();
    let sink = tokio_util::sync::PollSender::new(outgoing)
        .sink_map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
        .with(async |message: Bytes| {
            let text = Utf8Bytes::try_from(message).map_err(|error| io::Error::other(error.to_string()))?;
            Ok::<_, io::Error>(Message::Text(text))
        });
    Link {
        incoming: Box::pin(incoming),
        outward: Outward::Pipe { sink: Box::pin(sink), written: Arc::default() },
        peer: Arc::new(Socket { tasks: Mutex::new(tasks), liveness, closer }),
    }
}

/// Returns the server's next message, or how the connection ended.
async fn next(reader: &mut SplitStream<WebSocketStream<Dialed>>, liveness: &Liveness) -> Option<io::Result<Frame>> {
    loop {
        let message = reader.next().await?;
        liveness.touch();
        match message {
            Ok(Message::Text(text)) => return Some(Ok(Frame::Message(text.as_str().to_owned()))),
            Ok(Message::Binary(_)) => return Some(Err(io::Error::other("it sent a binary frame"))),
            Ok(Message::Close(frame)) => return Some(Err(io::Error::other(close_reason(frame)))),
            Ok(_) => {}
            Err(Error::ConnectionClosed) => return None,
            Err(error) => return Some(Err(io::Error::other(error.to_string()))),
        }
    }
}

fn close_reason(frame: Option<CloseFrame>) -> String {
    match frame {
        Some(frame) if frame.reason.is_empty() => format!("closed with code {}", u16::from(frame.code)),
        Some(frame) => format!("closed with code {}: {}", u16::from(frame.code), frame.reason),
        None => "closed without a reason".to_owned(),
    }
}

/// Pings the server, and reports when it no longer answers.
async fn ping_periodically(outgoing: mpsc::Sender<Message>, liveness: Arc<Liveness>) {
    let mut ticks = tokio::time::interval(PING_INTERVAL);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        if liveness.idle_for() > SILENCE_TIMEOUT {
            liveness.silent.store(true, Ordering::Relaxed);
            liveness.ended.notify_one();
            return;
        }
        // If the queue is full, the server has other messages to react to.
        let _ = outgoing.try_send(Message::Ping(Bytes::new()));
    }
}

/// When the server last sent something, and how the connection ended.
struct Liveness {
    created_at: Instant,
    last_at: AtomicU64,
    ended: Notify,
    /// The client has closed its side.
    closed: Notify,
    /// The server did not answer pings.
    silent: AtomicBool,
}

impl Liveness {
    fn touch(&self) {
        let milliseconds = u64::try_from(self.created_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_at.store(milliseconds, Ordering::Relaxed);
    }

    fn idle_for(&self) -> Duration {
        self.created_at.elapsed().saturating_sub(Duration::from_millis(self.last_at.load(Ordering::Relaxed)))
    }
}

struct Socket {
    tasks: Mutex<JoinSet<()>>,
    liveness: Arc<Liveness>,
    closer: mpsc::Sender<Message>,
}

impl PeerHandle for Socket {
    fn ended(&self) -> Option<BoxFuture<'_, ()>> {
        Some(Box::pin(self.liveness.ended.notified()))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
            let closing = async {
                if self.closer.send(Message::Close(None)).await.is_ok() {
                    // The writer ends after the close frame; the ping task must be aborted.
                    tasks.join_next().await;
                }
            };
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing).await;
            self.liveness.closed.notify_one();
            tasks.shutdown().await;
        })
    }

    fn exit_info(&self) -> ExitInfo {
        let silent = self.liveness.silent.load(Ordering::Relaxed);
        ExitInfo { reason: silent.then(|| "stopped answering pings".to_owned()), ..ExitInfo::default() }
    }

    fn abandon(&self) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

fn not_connected(error: &HttpError) -> OpenError {
    match error {
        HttpError::Untrusted(_) => OpenError::Untrusted(error.to_string()),
        HttpError::Redirected(_) => OpenError::Unusable(error.to_string()),
        HttpError::Unreachable(_) | HttpError::Broken(_) => OpenError::Other(error.to_string()),
    }
}

fn refused(error: Error, zone: Option<NetworkZone>) -> OpenError {
    let Error::Http(response) = error else { return OpenError::Other(error.to_string()) };
    let status = response.status().as_u16();
    let challenge = challenge(response.headers());
    if status == 401 || (status == 403 && challenge.is_some()) {
        return OpenError::Auth(AuthRequired { status, challenge, zone, reason: None });
    }
    let body = response.body().as_deref().map(|body| String::from_utf8_lossy(body).chars().take(1024).collect());
    OpenError::Http(HttpStatus { status, body: body.unwrap_or_default(), retry_after: None })
}
