//! The only module generic over the handler's type, and the pipe that connects SSE and WebSocket to a handler.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::Request;
use http_body_util::{BodyExt, Full};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionHandle, LocalSessionManager};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ServerHandler, ServiceExt as _};
use tokio::io::{AsyncBufReadExt as _, BufReader, DuplexStream, Lines};
use tokio::sync::mpsc;
use tokio_util::io::StreamReader;
use tokio_util::sync::CancellationToken;

use super::options::ListenOptions;
use super::reply::Reply;
use crate::negotiation::NegotiatingTransport;

/// Capacity of the queue from a client to its handler, in messages.
const INBOX_MESSAGES: usize = 8;

/// Capacity of the pipe from a handler to its client, in bytes.
const OUTBOX_BYTES: usize = 64 * 1024;

/// Time limit for a client's first message.
const FIRST_MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a handler may take to stop after its client has disconnected.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The client's end of a connection to a handler, one line of JSON per message.
pub(crate) struct Pipe {
    pub(crate) to_handler: mpsc::Sender<Bytes>,
    pub(crate) from_handler: Lines<BufReader<DuplexStream>>,
}

/// The handler's end of a connection.
pub(crate) struct HandlerEnd {
    inbox: mpsc::Receiver<Bytes>,
    outbox: DuplexStream,
}

pub(crate) fn pipe() -> (Pipe, HandlerEnd) {
    let (to_handler, inbox) = mpsc::channel(INBOX_MESSAGES);
    let (outbox, from_handler) = tokio::io::duplex(OUTBOX_BYTES);
    (Pipe { to_handler, from_handler: BufReader::new(from_handler).lines() }, HandlerEnd { inbox, outbox })
}

/// Returns a message as one line; `None` if it is not JSON.
pub(crate) fn one_line(message: &[u8]) -> Option<Bytes> {
    serde_json::from_slice::<&serde_json::value::RawValue>(message).ok()?;
    // Line breaks in JSON occur only between tokens, where a space is equivalent.
    let unbroken = message.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte });
    Some(unbroken.chain([b'\n']).collect())
}

/// Creates handlers, and owns their Streamable HTTP sessions.
pub(crate) trait Backend: Send + Sync {
    /// Handles one Streamable HTTP request.
    fn handle(&self, request: Request<Full<Bytes>>) -> BoxFuture<'static, Reply>;

    /// Serves one client with a new handler until `over` is cancelled.
    fn serve(&self, end: HandlerEnd, over: CancellationToken) -> BoxFuture<'static, ()>;

    /// Returns the number of Streamable HTTP sessions.
    fn session_count(&self) -> BoxFuture<'_, usize>;

    /// Closes all Streamable HTTP sessions.
    fn forget(&self) -> BoxFuture<'_, ()>;
}

pub(crate) struct Handlers<H> {
    make: Arc<dyn Fn() -> H + Send + Sync>,
    streamable: StreamableHttpService<H, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    max_line_bytes: usize,
}

impl<H: ServerHandler> Handlers<H> {
    pub(crate) fn new(make: impl Fn() -> H + Send + Sync + 'static, options: &ListenOptions) -> Self {
        let make: Arc<dyn Fn() -> H + Send + Sync> = Arc::new(make);
        let sessions = Arc::new(LocalSessionManager::default());
        // The guard has already checked hosts and origins. `event_stream` adds keep-alive comments, by a clock that tests
        // can pause.
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(true)
            .with_json_response(options.json_responses)
            .with_max_request_body_bytes(options.max_message_bytes)
            .with_sse_keep_alive(None)
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let for_sessions = make.clone();
        let streamable = StreamableHttpService::new(move || Ok(for_sessions()), sessions.clone(), config);
        Self { make, streamable, sessions, max_line_bytes: options.max_message_bytes.saturating_add(1) }
    }
}

impl<H: ServerHandler> Backend for Handlers<H> {
    fn handle(&self, request: Request<Full<Bytes>>) -> BoxFuture<'static, Reply> {
        let streamable = self.streamable.clone();
        async move { streamable.handle(request).await.map(BodyExt::boxed_unsync) }.boxed()
    }

    fn serve(&self, end: HandlerEnd, over: CancellationToken) -> BoxFuture<'static, ()> {
        let HandlerEnd { mut inbox, outbox } = end;
        let handler = (self.make)();
        let lines = stream::poll_fn(move |context| inbox.poll_recv(context)).map(Ok::<_, io::Error>);
        let transport =
            AsyncRwTransport::new(StreamReader::new(lines), outbox).with_max_line_length(self.max_line_bytes);
        async move {
            let transport =
                NegotiatingTransport::new(transport, &handler).with_first_message_timeout(FIRST_MESSAGE_TIMEOUT);
            let Some(Ok(serving)) = over.run_until_cancelled(handler.serve(transport)).await else { return };
            let stop = serving.cancellation_token();
            let mut ended = std::pin::pin!(serving.waiting());
            if over.run_until_cancelled(ended.as_mut()).await.is_none() {
                stop.cancel();
                let _ = tokio::time::timeout(STOP_TIMEOUT, ended).await;
            }
        }
        .boxed()
    }

    fn session_count(&self) -> BoxFuture<'_, usize> {
        async move { self.sessions.sessions.read().await.len() }.boxed()
    }

    fn forget(&self) -> BoxFuture<'_, ()> {
        async move {
            let forgotten = std::mem::take(&mut *self.sessions.sessions.write().await);
            let closing = forgotten.into_values().map(close);
            futures_util::future::join_all(closing).await;
        }
        .boxed()
    }
}

async fn close(session: LocalSessionHandle) {
    // A session that has already ended, or is too busy to respond, ends when its handle is dropped.
    let _ = tokio::time::timeout(STOP_TIMEOUT, session.close()).await;
}

impl<H> Drop for Handlers<H> {
    /// The sessions' tasks own the sessions, so without this they would outlive the router by minutes.
    fn drop(&mut self) {
        if let Ok(mut sessions) = self.sessions.sessions.try_write() {
            sessions.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn a_message_becomes_one_line_without_changing_its_meaning() {
        for (message, expected) in [
            ("{}", Some("{}\n")),
            ("{\r\n  \"a\": \"b\\n\"\n}\n", Some("{    \"a\": \"b\\n\" } \n")),
            ("\"broken\nstring\"", None),
            ("{} {}", None),
            ("", None),
        ] {
            let line = one_line(message.as_bytes());
            assert_eq!(line.as_deref(), expected.map(str::as_bytes), "{message:?}");
        }
        assert_eq!(one_line(b"\"\xff\""), None);
    }
}
