//! HTTP+SSE, the transport of protocol 2024-11-05: the server sends on `/sse`, the client posts to `/messages`.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use http::{Request, StatusCode, Uri};
use hyper::body::Incoming;
use rmcp::transport::common::server_side_http::{SessionId, session_id};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::backend::{self, Pipe};
use super::connection::{Connection, Shared, SseSessions};
use super::event_stream;
use super::reply::{self, Reply};

/// How long a posted message may wait in front of a busy handler.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);

const SESSION_NOT_FOUND: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#;

/// Owned by the body of the stream, so that a disconnect ends the session and its handler.
struct Session {
    id: SessionId,
    sessions: SseSessions,
    _handler: DropGuard,
    _slot: OwnedSemaphorePermit,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.sessions.with(|inboxes| inboxes.remove(&self.id));
    }
}

/// Opens a stream with a new session and handler.
pub(crate) async fn open(connection: &Connection) -> Reply {
    let shared = &connection.shared;
    let slot = match shared.reserve_session().await {
        Ok(slot) => slot,
        Err(refusal) => return *refusal,
    };
    let (Pipe { to_handler, from_handler }, end) = backend::pipe();
    let over = CancellationToken::new();
    connection.spawn(shared.backend.serve(end, over.clone()));

    let id = session_id();
    let endpoint = Bytes::from(format!("event: endpoint\ndata: /messages?session={id}\n\n"));
    shared.sse_sessions.with(|inboxes| inboxes.insert(id.clone(), to_handler));
    let sessions = shared.sse_sessions.clone();
    let session = Session { id, sessions, _handler: over.drop_guard(), _slot: slot };

    let messages = stream::unfold((from_handler, session), |(mut lines, session)| async move {
        let line = lines.next_line().await.ok()??;
        Some((Bytes::from(format!("event: message\ndata: {line}\n\n")), (lines, session)))
    });
    let events = stream::iter([endpoint]).chain(messages);
    event_stream::reply(event_stream::body(events, shared.options.keep_alive, shared.until_forgotten()))
}

/// Forwards a posted message to the handler of its session.
pub(crate) async fn post(shared: &Shared, request: Request<Incoming>) -> Reply {
    let inbox =
        session_id_in(request.uri()).and_then(|id| shared.sse_sessions.with(|inboxes| inboxes.get(id).cloned()));
    let Some(inbox) = inbox else { return reply::json(StatusCode::NOT_FOUND, SESSION_NOT_FOUND) };
    let message = match reply::read(request.into_body(), shared.options.max_message_bytes).await {
        Ok(message) => message,
        Err(refusal) => return refusal,
    };
    let Some(line) = backend::one_line(&message) else {
        return reply::plain(StatusCode::BAD_REQUEST, "the body is not JSON");
    };
    match tokio::time::timeout(BUSY_TIMEOUT, inbox.send(line)).await {
        Ok(Ok(())) => reply::plain(StatusCode::ACCEPTED, "Accepted"),
        Ok(Err(_)) => reply::json(StatusCode::NOT_FOUND, SESSION_NOT_FOUND),
        Err(_) => reply::plain(StatusCode::SERVICE_UNAVAILABLE, "the session is busy"),
    }
}

fn session_id_in(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix("session="))
}
