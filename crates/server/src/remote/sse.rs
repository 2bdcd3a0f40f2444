//! HTTP+SSE, the transport of protocol 2024-11-05: the server speaks at `/sse`, the client at `/messages`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use http::{Request, StatusCode, Uri};
use hyper::body::Incoming;
use rmcp::transport::common::server_side_http::{SessionId, session_id};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::backend::{self, Pipe};
use super::event_stream;
use super::reply::{self, Reply};
use super::router::{Connection, Shared};

/// How long a posted message may wait for its handler to take it.
const BUSY_LIMIT: Duration = Duration::from_secs(60);

const UNKNOWN: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#;

/// Where the messages of each open stream's client go.
#[derive(Clone, Default)]
pub(crate) struct Sessions {
    inboxes: Arc<Mutex<HashMap<SessionId, mpsc::Sender<Bytes>>>>,
}

impl Sessions {
    pub(crate) fn forget(&self) {
        self.with(HashMap::clear);
    }

    fn with<T>(&self, change: impl FnOnce(&mut HashMap<SessionId, mpsc::Sender<Bytes>>) -> T) -> T {
        change(&mut self.inboxes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Lives in the body of the stream: when the client is gone, so are its session and its handler.
struct Session {
    id: SessionId,
    sessions: Sessions,
    _handler: DropGuard,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.sessions.with(|inboxes| inboxes.remove(&self.id));
    }
}

/// Opens a stream with a session and a handler of its own.
pub(crate) fn open(connection: &Connection) -> Reply {
    let shared = connection.shared();
    let (Pipe { to_handler, from_handler }, end) = backend::pipe();
    let over = CancellationToken::new();
    connection.spawn(shared.backend.serve(end, over.clone()));

    let id = session_id();
    let endpoint = Bytes::from(format!("event: endpoint\ndata: /messages?session={id}\n\n"));
    shared.sse.with(|inboxes| inboxes.insert(id.clone(), to_handler));
    let session = Session { id, sessions: shared.sse.clone(), _handler: over.drop_guard() };

    let messages = stream::unfold((from_handler, session), |(mut lines, session)| async move {
        let line = lines.next_line().await.ok()??;
        Some((Bytes::from(format!("event: message\ndata: {line}\n\n")), (lines, session)))
    });
    let events = stream::iter([endpoint]).chain(messages);
    event_stream::reply(event_stream::body(events, shared.options.keep_alive, shared.until_forgotten()))
}

/// Passes a posted message on to the handler of its session.
pub(crate) async fn post(shared: &Shared, request: Request<Incoming>) -> Reply {
    let inbox = session_named_in(request.uri()).and_then(|id| shared.sse.with(|inboxes| inboxes.get(id).cloned()));
    let Some(inbox) = inbox else { return reply::json(StatusCode::NOT_FOUND, UNKNOWN) };
    let message = match reply::read(request.into_body(), shared.options.largest_message).await {
        Ok(message) => message,
        Err(refusal) => return refusal,
    };
    let Some(line) = backend::one_line(&message) else {
        return reply::plain(StatusCode::BAD_REQUEST, "the body is not JSON");
    };
    match tokio::time::timeout(BUSY_LIMIT, inbox.send(line)).await {
        Ok(Ok(())) => reply::plain(StatusCode::ACCEPTED, "Accepted"),
        Ok(Err(_)) => reply::json(StatusCode::NOT_FOUND, UNKNOWN),
        Err(_) => reply::plain(StatusCode::SERVICE_UNAVAILABLE, "the session is busy"),
    }
}

fn session_named_in(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix("session="))
}
