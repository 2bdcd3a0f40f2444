//! A script served over HTTP: what can be set about it, and what it remembers.
//!
//! [`connection`] speaks HTTP on one stream and leaves the protocol to [`streamable`], [`legacy`] or [`websocket`].
//! [`play`] turns steps into things said, [`response`] turns those into responses, and [`listening`] accepts real TCP.

mod connection;
mod legacy;
mod listening;
mod play;
mod response;
mod streamable;
mod websocket;

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

pub use listening::Listening;

use crate::rules::Rules;
use crate::{Script, WireLog};
use play::{Heard, Said};

/// How many things may be said on one response before the client has taken the first.
const SAID_AHEAD: usize = 64;
/// How many messages may wait in one conversation before the server has taken the first.
const HEARD_AHEAD: usize = 64;

/// A script served over HTTP, shared by all its connections.
///
/// Streamable HTTP is spoken at every path but three: `/sse` and `/messages` are the old HTTP with SSE, `/ws` is a
/// WebSocket. In Streamable HTTP, what steps send goes to the response of the POST that is being answered; a
/// notification has no answer, so what its steps send goes to the open GET streams.
///
/// Rules for `GET` hold for all three. On a stream of messages they are played beside the conversation.
#[derive(Clone)]
pub struct HttpScripted {
    shared: Arc<Shared>,
    answers: ResponseFormat,
    push: GetBehavior,
    stale: UnknownSession,
    sessions: bool,
    event_ids: bool,
}

/// What the response to a POST with a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFormat {
    /// One JSON document, unless the steps send more than that.
    Json,
    /// An event stream that ends after the answer.
    Sse,
}

/// What a GET without a rule gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetBehavior {
    /// Status 405.
    NotAllowed,
    /// An event stream that stays open.
    Stream,
}

/// What a request gets whose session is unknown, or that has none and needs one.
#[derive(Clone, Debug)]
pub enum UnknownSession {
    /// Status 404 without a body.
    NotFound,
    /// Status 404 with error -32001 and the request's id.
    NotFoundRpc,
    /// Status 400 with error -32000 and no id at all, as an often copied example does it.
    BadRequestNoId,
    /// Status 200 with this error and the request's id.
    OkRpc(i64, String),
    /// This status and body, with `{id}` filled in.
    Custom(u16, String),
}

/// One HTTP request as it came.
#[derive(Clone, Debug)]
pub struct SeenRequest {
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers.
    pub headers: http::HeaderMap,
    /// The whole body.
    pub body: String,
    /// The number of the connection it came on; the first is 1.
    pub connection: u64,
}

struct Shared {
    rules: Rules,
    log: WireLog,
    taken: WireLog,
    connections: AtomicU64,
    open_connections: AtomicU64,
    next_event: AtomicU64,
    next_question: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sessions: HashSet<String>,
    opened: u64,
    streams: Vec<OpenStream>,
    conversed: u64,
    conversations: HashMap<u64, mpsc::Sender<Heard>>,
    asked: HashMap<String, oneshot::Sender<Value>>,
    requests: Vec<SeenRequest>,
}

/// A stream on which the server may speak unasked. It is open as long as its task has something to say.
struct OpenStream {
    session: Option<String>,
    out: mpsc::WeakSender<Said>,
    task: AbortHandle,
}

impl OpenStream {
    fn is_heard(&self) -> bool {
        self.out.upgrade().is_some_and(|out| !out.is_closed())
    }
}

impl HttpScripted {
    /// Ready to be served.
    pub fn new(script: Script) -> Self {
        let shared = Shared {
            rules: Rules::new(script),
            log: WireLog::default(),
            taken: WireLog::default(),
            connections: AtomicU64::new(0),
            open_connections: AtomicU64::new(0),
            next_event: AtomicU64::new(1),
            next_question: AtomicU64::new(1),
            state: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
            answers: ResponseFormat::Json,
            push: GetBehavior::NotAllowed,
            stale: UnknownSession::NotFound,
            sessions: true,
            event_ids: false,
        }
    }

    /// Answering requests in this form.
    #[must_use]
    pub fn with_response_format(mut self, how: ResponseFormat) -> Self {
        self.answers = how;
        self
    }

    /// Answering GET in this way.
    #[must_use]
    pub fn with_get(mut self, push: GetBehavior) -> Self {
        self.push = push;
        self
    }

    /// Without any session ids.
    #[must_use]
    pub fn without_sessions(mut self) -> Self {
        self.sessions = false;
        self
    }

    /// With a counter as the id of every event.
    #[must_use]
    pub fn with_event_ids(mut self) -> Self {
        self.event_ids = true;
        self
    }

    /// Answering requests of unknown sessions in this way.
    #[must_use]
    pub fn on_unknown_session(mut self, how: UnknownSession) -> Self {
        self.stale = how;
        self
    }

    /// Forgets all sessions and ends the open streams, as a restart would.
    pub fn wipe(&self) {
        self.wipe_silently();
        let mut state = self.state();
        for stream in state.streams.drain(..) {
            stream.task.abort();
        }
    }

    /// Forgets all sessions, but leaves the open streams open, as a proxy before a restarted server might.
    pub fn wipe_silently(&self) {
        let mut state = self.state();
        state.sessions.clear();
        state.conversations.clear();
    }

    /// The messages received so far, in order.
    pub fn log(&self) -> &WireLog {
        &self.shared.log
    }

    /// The messages it has acted upon so far, in order: all it received but those whose session it did not know.
    pub fn handled(&self) -> &WireLog {
        &self.shared.taken
    }

    /// The HTTP requests received so far, in order.
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.state().requests.clone()
    }

    /// How many connections there have been.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// How many connections there are now.
    pub fn open_connections(&self) -> u64 {
        self.shared.open_connections.load(Ordering::Relaxed)
    }

    /// How many streams are open on which [`HttpScripted::push`] would be heard.
    pub fn open_streams(&self) -> usize {
        self.state().streams.iter().filter(|stream| stream.is_heard()).count()
    }

    /// Sends a message on every open stream.
    pub async fn push(&self, message: Value) {
        let streams: Vec<_> = self.state().streams.iter().filter_map(|stream| stream.out.upgrade()).collect();
        for stream in streams {
            let _ = stream.send(Said::Message(message.clone())).await;
        }
    }

    /// Serves one HTTP/1.1 connection until its end.
    pub async fn serve_connection(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        connection::serve(self, stream, Arc::default()).await;
    }

    /// Serves real TCP on a free port of this machine.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn listen(&self) -> Listening {
        self.listen_on(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a port is free")
    }

    /// Serves real TCP on this address, where another server may just have been.
    pub async fn listen_on(&self, address: SocketAddr) -> std::io::Result<Listening> {
        Listening::start(self.clone(), address).await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_session(&self) -> String {
        let mut state = self.state();
        state.opened += 1;
        let id = format!("session-{}", state.opened);
        state.sessions.insert(id.clone());
        id
    }

    fn knows_session(&self, id: &str) -> bool {
        self.state().sessions.contains(id)
    }

    /// Forgets one session and ends its streams; whether it was known.
    fn forget_session(&self, id: &str) -> bool {
        let mut state = self.state();
        for stream in state.streams.extract_if(.., |stream| stream.session.as_deref() == Some(id)) {
            stream.task.abort();
        }
        state.sessions.remove(id)
    }

    /// Remembers a conversation whose messages come in by other requests, and numbers it.
    fn open_conversation(&self, heard: mpsc::Sender<Heard>) -> u64 {
        let mut state = self.state();
        state.conversed += 1;
        let number = state.conversed;
        state.conversations.insert(number, heard);
        number
    }

    fn conversation(&self, number: u64) -> Option<mpsc::Sender<Heard>> {
        self.state().conversations.get(&number).filter(|heard| !heard.is_closed()).cloned()
    }

    fn open_stream(&self, stream: OpenStream) {
        let mut state = self.state();
        state.streams.retain(OpenStream::is_heard);
        state.streams.push(stream);
    }

    /// Asks the client on this stream and waits for the answer, by whichever way it comes.
    async fn ask(&self, method: &str, params: &Value, out: &mpsc::Sender<Said>) -> Value {
        let id = format!("question-{}", self.shared.next_question.fetch_add(1, Ordering::Relaxed));
        let (asked, answered) = oneshot::channel();
        self.state().asked.insert(id.clone(), asked);
        let question = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let _ = out.send(Said::Message(question)).await;
        answered.await.unwrap_or_default()
    }

    /// Takes the client's answer to a question.
    fn hear_answer(&self, answer: Value) {
        let asked = answer["id"].as_str().and_then(|id| self.state().asked.remove(id));
        if let Some(asked) = asked {
            let _ = asked.send(answer);
        }
    }
}
