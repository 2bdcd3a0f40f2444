//! A server behind a WebSocket: the subprotocol `mcp`, one message a text frame, and pings that find out whether it is
//! still there.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use http::header::SEC_WEBSOCKET_PROTOCOL;
use http::{HeaderValue, Request};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use wharf_io::{Dialed, HttpError};

use super::http::{Remote, Tried, challenge};
use super::{ExitInfo, Frame, InvalidRemote, Link, MAX_MESSAGE_BYTES, OpenError, PeerHandle, RemoteOptions, Transport};
use crate::{AuthRequired, HttpStatus};

/// How often the server is asked whether it is there.
const PING: Duration = Duration::from_secs(30);
/// How long it may be silent, its answers to pings included.
const SILENCE: Duration = Duration::from_secs(75);
/// Messages that may wait to be written.
const WAITING: usize = 64;
/// How long a farewell may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// A server that speaks over a WebSocket.
#[derive(Clone)]
pub struct WebSocket {
    remote: Remote,
}

impl WebSocket {
    /// The server at `url`, which is `ws` or `wss`.
    pub fn new(url: &str, options: RemoteOptions) -> Result<Self, InvalidRemote> {
        Ok(Self { remote: Remote::new(url, ["ws", "wss"], options)? })
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
}

async fn open(remote: &Remote) -> Result<Link, OpenError> {
    let reached = remote.reach()?;
    let mut tried = Tried::default();
    let socket = loop {
        let (headers, said) = reached.headers.get().await?;
        let mut request = Request::new(());
        *request.uri_mut() = reached.url.clone();
        *request.headers_mut() = headers;
        let authority = reached.url.authority().map_or("", |authority| authority.as_str());
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
        let stream = reached.client.connect(&reached.url).await.map_err(|error| not_connected(&error))?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES));
        match client_async_with_config(request, stream, Some(config)).await {
            Ok((socket, _)) => break socket,
            Err(error) => {
                let error = refused(error);
                let required = if let OpenError::Auth(required) = &error { Some(required) } else { None };
                let stale = required.is_some() || matches!(&error, OpenError::Http(HttpStatus { status: 403, .. }));
                if !stale || !reached.headers.refresh(said, &mut tried, required).await? {
                    return Err(error);
                }
            }
        }
    };
    Ok(link(socket))
}

fn link(socket: WebSocketStream<Dialed>) -> Link {
    let (mut writer, reader) = socket.split();
    let (outgoing, mut waiting) = mpsc::channel::<Message>(WAITING);
    let heard = Arc::new(Heard {
        began: Instant::now(),
        at: AtomicU64::new(0),
        over: Notify::new(),
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
    tasks.spawn(keep_asking(outgoing.clone(), Arc::clone(&heard)));
    let incoming = stream::unfold((reader, Arc::clone(&heard)), async |(mut reader, heard)| {
        let frame = tokio::select! {
            frame = next(&mut reader, &heard) => frame,
            // We have said goodbye; whether the server answers is its own affair.
            () = heard.closed.notified() => None,
        };
        if !matches!(frame, Some(Ok(_))) {
            // There is nothing more to be learnt of the far end.
            heard.over.notify_one();
        }
        Some((frame?, (reader, heard)))
    });
    let farewell = outgoing.clone();
    let sink = tokio_util::sync::PollSender::new(outgoing)
        .sink_map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
        .with(async |message: Bytes| {
            let text = Utf8Bytes::try_from(message).map_err(|error| io::Error::other(error.to_string()))?;
            Ok::<_, io::Error>(Message::Text(text))
        });
    let mut link = Link::from_messages(stream::empty(), sink);
    link.incoming = Box::pin(incoming);
    link.kept_by(Socket { tasks: Mutex::new(tasks), heard, farewell })
}

/// The next message of the server, or how its connection ended.
async fn next(reader: &mut SplitStream<WebSocketStream<Dialed>>, heard: &Heard) -> Option<io::Result<Frame>> {
    loop {
        let message = reader.next().await?;
        heard.now();
        match message {
            Ok(Message::Text(text)) => return Some(Ok(Frame::Message(text.as_str().to_owned()))),
            Ok(Message::Binary(_)) => return Some(Err(io::Error::other("it sent a binary frame"))),
            Ok(Message::Close(frame)) => return Some(Err(io::Error::other(farewell(frame)))),
            Ok(_) => {}
            Err(Error::ConnectionClosed) => return None,
            Err(error) => return Some(Err(io::Error::other(error.to_string()))),
        }
    }
}

fn farewell(frame: Option<CloseFrame>) -> String {
    match frame {
        Some(frame) if frame.reason.is_empty() => format!("closed with code {}", u16::from(frame.code)),
        Some(frame) => format!("closed with code {}: {}", u16::from(frame.code), frame.reason),
        None => "closed without a reason".to_owned(),
    }
}

/// Asks again and again whether the server is there, and says when it no longer is.
async fn keep_asking(outgoing: mpsc::Sender<Message>, heard: Arc<Heard>) {
    let mut ticks = tokio::time::interval(PING);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        if heard.since() > SILENCE {
            heard.silent.store(true, Ordering::Relaxed);
            heard.over.notify_one();
            return;
        }
        // If the way out is full, the server has enough to answer.
        let _ = outgoing.try_send(Message::Ping(Bytes::new()));
    }
}

/// When the server was last heard of.
struct Heard {
    began: Instant,
    at: AtomicU64,
    over: Notify,
    /// We have closed our side.
    closed: Notify,
    /// It did not even answer pings.
    silent: AtomicBool,
}

impl Heard {
    fn now(&self) {
        let milliseconds = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.at.store(milliseconds, Ordering::Relaxed);
    }

    fn since(&self) -> Duration {
        self.began.elapsed().saturating_sub(Duration::from_millis(self.at.load(Ordering::Relaxed)))
    }
}

struct Socket {
    tasks: Mutex<JoinSet<()>>,
    heard: Arc<Heard>,
    farewell: mpsc::Sender<Message>,
}

impl PeerHandle for Socket {
    fn ended(&self) -> Option<BoxFuture<'_, ()>> {
        Some(Box::pin(self.heard.over.notified()))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
            let goodbye = async {
                if self.farewell.send(Message::Close(None)).await.is_ok() {
                    // The writer ends when it has said so; the other task has to be ended.
                    tasks.join_next().await;
                }
            };
            let _ = tokio::time::timeout(FAREWELL, goodbye).await;
            self.heard.closed.notify_one();
            tasks.shutdown().await;
        })
    }

    fn last_words(&self) -> ExitInfo {
        let silent = self.heard.silent.load(Ordering::Relaxed);
        ExitInfo { reason: silent.then(|| "no longer answers pings".to_owned()), ..ExitInfo::default() }
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

fn refused(error: Error) -> OpenError {
    let Error::Http(response) = error else { return OpenError::Other(error.to_string()) };
    let status = response.status().as_u16();
    let challenge = challenge(response.headers());
    if status == 401 || (status == 403 && challenge.is_some()) {
        return OpenError::Auth(AuthRequired { status, challenge, reason: None });
    }
    let body = response.body().as_deref().map(|body| String::from_utf8_lossy(body).chars().take(1024).collect());
    OpenError::Http(HttpStatus { status, body: body.unwrap_or_default(), retry_after: None })
}
