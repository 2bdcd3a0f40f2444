//! The state of one Streamable HTTP connection: the negotiated headers, the requests in flight, and the queue of frames
//! for the reader.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use wharf_auth::RequestTarget;
use wharf_io::SseReader;

use super::HttpEndpoint;
use super::post::{EventStreamError, has_content_type};
use crate::transport::{Frame, MAX_MESSAGE_BYTES};

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Time for ending the session on the server.
const END_SESSION_TIMEOUT: Duration = Duration::from_secs(3);

/// One connection over Streamable HTTP.
pub(super) struct Exchange {
    pub(super) endpoint: HttpEndpoint,
    pub(super) negotiated: ArcSwap<NegotiatedHeaders>,
    frames: mpsc::Sender<Frame>,
    tasks: Mutex<JoinSet<()>>,
    /// Ends the stream of frames.
    pub(super) closed: Arc<Notify>,
    /// The ids of the requests in flight.
    in_flight: Mutex<HashSet<u64>>,
    /// The server lost the session, or it was detached: closing must not end it on the server.
    retired: AtomicBool,
}

/// The headers that carry the negotiated session and revision.
#[derive(Clone, Debug, Default)]
pub(super) struct NegotiatedHeaders {
    pub(super) headers: HeaderMap,
    /// Whether requests are self-contained and name their method in a header.
    pub(super) stateless: bool,
}

impl NegotiatedHeaders {
    pub(super) fn new(session: Option<HeaderValue>, revision: Option<HeaderValue>) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        if let Some(session) = session {
            headers.insert(SESSION_ID, session);
        }
        if let Some(revision) = revision {
            headers.insert(PROTOCOL_VERSION, revision);
        }
        Self { headers, stateless: false }
    }

    pub(super) fn stateless(revision: &str) -> Self {
        Self { stateless: true, ..Self::new(None, HeaderValue::from_str(revision).ok()) }
    }

    /// Returns whether the rest of a broken stream can be requested.
    pub(super) fn is_resumable(&self) -> bool {
        !self.stateless
    }

    pub(super) fn session(&self) -> Option<&HeaderValue> {
        self.headers.get(SESSION_ID)
    }
}

impl Exchange {
    pub(super) fn new(endpoint: HttpEndpoint, frames: mpsc::Sender<Frame>) -> Self {
        Self {
            endpoint,
            negotiated: ArcSwap::default(),
            frames,
            tasks: Mutex::default(),
            closed: Arc::default(),
            in_flight: Mutex::default(),
            retired: AtomicBool::new(false),
        }
    }

    /// Passes a frame to the reader.
    pub(super) async fn forward(&self, frame: Frame) {
        // Fails only after the connection has ended, when no call waits for it.
        let _ = self.frames.send(frame).await;
    }

    pub(super) fn frames(&self) -> mpsc::Sender<Frame> {
        self.frames.clone()
    }

    /// Opens an event stream, from the start or after the event `last`. Returns `Ok(None)` if it may work later, and an
    /// error if it never will.
    pub(super) async fn events(
        &self,
        negotiated: &NegotiatedHeaders,
        last: Option<&HeaderValue>,
    ) -> Result<Option<SseReader>, String> {
        let mut own = negotiated.headers.clone();
        own.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(last) = last {
            own.insert(LAST_EVENT_ID, last.clone());
        }
        match self.endpoint.get_events(&own, negotiated.session().is_some()).await {
            Ok(response) if has_content_type(&response, "text/event-stream") => {
                Ok(Some(SseReader::new(response.into_body(), MAX_MESSAGE_BYTES)))
            }
            Ok(response) => Err(format!("HTTP {} without events", response.status())),
            Err(EventStreamError::NotSent(_)) => Ok(None),
            Err(EventStreamError::Refused(refusal)) if refusal.status.status >= 500 || refusal.status.status == 429 => {
                Ok(None)
            }
            Err(EventStreamError::Refused(refusal)) => Err(refusal.status.to_string()),
        }
    }

    /// Returns whether `id` is a request in flight other than `ours`.
    pub(super) fn is_other_request(&self, id: Option<u64>, ours: u64) -> bool {
        id.is_some_and(|id| id != ours && self.in_flight().contains(&id))
    }

    fn in_flight(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Spawns a task that is aborted when the connection is closed.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Stops listening, and leaves the session open on the server.
    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
        self.tasks().abort_all();
    }

    /// Aborts all tasks and ends the session on the server.
    pub(super) async fn close(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks());
        tasks.shutdown().await;
        self.end_session().await;
        self.endpoint.client.close_idle();
        self.closed.notify_one();
    }

    async fn end_session(&self) {
        let negotiated = self.negotiated.load_full();
        if negotiated.session().is_none() || self.retired.load(Ordering::Relaxed) {
            return;
        }
        let ending = async {
            let target = RequestTarget { method: &Method::DELETE, url: &self.endpoint.url };
            if let Ok((headers, _)) = self.endpoint.headers_with(target, &negotiated.headers).await {
                let _ = self.endpoint.send(Method::DELETE, &self.endpoint.url, headers, Bytes::new()).await;
            }
        };
        let _ = tokio::time::timeout(END_SESSION_TIMEOUT, ending).await;
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks a request as in flight until it is dropped.
pub(super) struct InFlight<'a> {
    exchange: &'a Exchange,
    id: u64,
}

impl<'a> InFlight<'a> {
    pub(super) fn new(exchange: &'a Exchange, id: u64) -> Self {
        exchange.in_flight().insert(id);
        Self { exchange, id }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.exchange.in_flight().remove(&self.id);
    }
}
