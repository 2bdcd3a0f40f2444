//! The settings and the state of a script that is served over HTTP.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use super::output::{Incoming, Output};
use crate::log::WireLog;
use crate::rules::Rules;
use crate::script::Script;
use crate::seen_request::SeenRequest;

/// A script served over HTTP, shared by all its connections.
///
/// Every path serves Streamable HTTP except three: `/sse` and `/messages` serve the old HTTP+SSE, `/ws` a WebSocket. In
/// Streamable HTTP, steps send their output in the response to the POST. A notification has no response, so its steps
/// send their output on the open GET streams.
///
/// Rules for `GET` apply to all three. On a stream of messages they are played concurrently with it.
#[derive(Clone)]
pub struct HttpScripted {
    pub(super) shared: Arc<Shared>,
    pub(super) response_format: ResponseFormat,
    pub(super) get_behavior: GetBehavior,
    pub(super) unknown_session: UnknownSession,
    pub(super) sessions: bool,
    pub(super) event_ids: bool,
}

/// The form of the response to a POST with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFormat {
    /// One JSON document, unless the steps send more than one message.
    Json,
    /// An event stream that ends after the response.
    Sse,
}

/// The response to a GET without a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetBehavior {
    /// Status 405.
    NotAllowed,
    /// An event stream that stays open.
    Stream,
}

/// The response to a request whose session is unknown, or that lacks the session it needs.
#[derive(Clone, Debug)]
pub enum UnknownSession {
    /// Status 404 without a body.
    NotFound,
    /// Status 404 with error -32001 and the request's id.
    NotFoundRpc,
    /// Status 400 with error -32000 and without an id, like an often copied example.
    BadRequestNoId,
    /// Status 200 with this error and the request's id.
    OkRpc(i64, String),
    /// This status and body, with `{id}` filled in.
    Custom(u16, String),
}

pub(super) struct Shared {
    pub(super) rules: Rules,
    pub(super) log: WireLog,
    pub(super) handled: WireLog,
    pub(super) connections: AtomicU64,
    pub(super) open_connections: AtomicU64,
    pub(super) next_event: AtomicU64,
    next_request: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sessions: HashSet<String>,
    sessions_opened: u64,
    streams: Vec<OpenStream>,
    inboxes_opened: u64,
    inboxes: HashMap<u64, mpsc::Sender<Incoming>>,
    pending: HashMap<String, oneshot::Sender<Value>>,
    requests: Vec<SeenRequest>,
}

/// A stream for messages that are not responses. It is open as long as its task can send.
pub(super) struct OpenStream {
    pub(super) session: Option<String>,
    pub(super) out: mpsc::WeakSender<Output>,
    pub(super) task: AbortHandle,
}

impl OpenStream {
    fn is_open(&self) -> bool {
        self.out.upgrade().is_some_and(|out| !out.is_closed())
    }
}

impl HttpScripted {
    /// Creates a server that is ready to serve.
    pub fn new(script: Script) -> Self {
        let shared = Shared {
            rules: Rules::new(script),
            log: WireLog::default(),
            handled: WireLog::default(),
            connections: AtomicU64::new(0),
            open_connections: AtomicU64::new(0),
            next_event: AtomicU64::new(1),
            next_request: AtomicU64::new(1),
            state: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
            response_format: ResponseFormat::Json,
            get_behavior: GetBehavior::NotAllowed,
            unknown_session: UnknownSession::NotFound,
            sessions: true,
            event_ids: false,
        }
    }

    /// Sets the form of responses to requests.
    #[must_use]
    pub fn with_response_format(mut self, format: ResponseFormat) -> Self {
        self.response_format = format;
        self
    }

    /// Sets the response to GET.
    #[must_use]
    pub fn with_get(mut self, behavior: GetBehavior) -> Self {
        self.get_behavior = behavior;
        self
    }

    /// Turns session ids off.
    #[must_use]
    pub fn without_sessions(mut self) -> Self {
        self.sessions = false;
        self
    }

    /// Numbers all events with ids.
    #[must_use]
    pub fn with_event_ids(mut self) -> Self {
        self.event_ids = true;
        self
    }

    /// Sets the response to requests of unknown sessions.
    #[must_use]
    pub fn on_unknown_session(mut self, response: UnknownSession) -> Self {
        self.unknown_session = response;
        self
    }

    /// Forgets all sessions and ends the open streams, like a restart.
    pub fn wipe(&self) {
        self.wipe_silently();
        let mut state = self.state();
        for stream in state.streams.drain(..) {
            stream.task.abort();
        }
    }

    /// Forgets all sessions but keeps the open streams, like a proxy in front of a restarted server.
    pub fn wipe_silently(&self) {
        let mut state = self.state();
        state.sessions.clear();
        state.inboxes.clear();
    }

    /// Returns the received messages in order.
    pub fn log(&self) -> &WireLog {
        &self.shared.log
    }

    /// Returns the handled messages in order: all received ones except those of unknown sessions.
    pub fn handled(&self) -> &WireLog {
        &self.shared.handled
    }

    /// Returns the received HTTP requests in order.
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.state().requests.clone()
    }

    /// Returns how many connections have been opened.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Returns how many connections are open now.
    pub fn open_connections(&self) -> u64 {
        self.shared.open_connections.load(Ordering::Relaxed)
    }

    /// Returns how many open streams [`HttpScripted::push`] would reach.
    pub fn open_streams(&self) -> usize {
        self.state().streams.iter().filter(|stream| stream.is_open()).count()
    }

    /// Sends a message on every open stream.
    pub async fn push(&self, message: Value) {
        let streams: Vec<_> = self.state().streams.iter().filter_map(|stream| stream.out.upgrade()).collect();
        for stream in streams {
            let _ = stream.send(Output::Message(message.clone())).await;
        }
    }

    pub(super) fn record(&self, request: SeenRequest) {
        self.state().requests.push(request);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn new_session(&self) -> String {
        let mut state = self.state();
        state.sessions_opened += 1;
        let id = format!("session-{}", state.sessions_opened);
        state.sessions.insert(id.clone());
        id
    }

    pub(super) fn knows_session(&self, id: &str) -> bool {
        self.state().sessions.contains(id)
    }

    /// Forgets one session and ends its streams; returns whether it was known.
    pub(super) fn forget_session(&self, id: &str) -> bool {
        let mut state = self.state();
        for stream in state.streams.extract_if(.., |stream| stream.session.as_deref() == Some(id)) {
            stream.task.abort();
        }
        state.sessions.remove(id)
    }

    /// Registers the inbox of a stream whose messages arrive in other requests, and returns its number.
    pub(super) fn open_inbox(&self, inbox: mpsc::Sender<Incoming>) -> u64 {
        let mut state = self.state();
        state.inboxes_opened += 1;
        let number = state.inboxes_opened;
        state.inboxes.insert(number, inbox);
        number
    }

    pub(super) fn inbox(&self, number: u64) -> Option<mpsc::Sender<Incoming>> {
        self.state().inboxes.get(&number).filter(|inbox| !inbox.is_closed()).cloned()
    }

    pub(super) fn open_stream(&self, stream: OpenStream) {
        let mut state = self.state();
        state.streams.retain(OpenStream::is_open);
        state.streams.push(stream);
    }

    /// Sends a request to the client on this stream and waits for the response, which may arrive in any way.
    pub(super) async fn request(&self, method: &str, params: &Value, out: &mpsc::Sender<Output>) -> Value {
        let id = format!("question-{}", self.shared.next_request.fetch_add(1, Ordering::Relaxed));
        let (sender, response) = oneshot::channel();
        self.state().pending.insert(id.clone(), sender);
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let _ = out.send(Output::Message(request)).await;
        response.await.unwrap_or_default()
    }

    /// Resolves the pending request that the client responds to.
    pub(super) fn receive_response(&self, response: Value) {
        let pending = response["id"].as_str().and_then(|id| self.state().pending.remove(id));
        if let Some(sender) = pending {
            let _ = sender.send(response);
        }
    }
}
