//! Streamable HTTP: a POST for every message, its answer in JSON or as a stream of events, and a GET for what the server
//! has to say besides.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use wharf_io::{BodyError, SseReader};

use super::follow::{Classified, answers_something, classify_sole, follow, utf8};
use super::listen::listen;
use super::poster::{Letter, Met, Refused, is};
use super::{FRAMES, Reached};
use crate::transport::{Frame, Link, MAX_MESSAGE_BYTES, Outward, PeerHandle, PostError, Posted, Posts, Reply};

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// How long the end of a session may take.
const FAREWELL: Duration = Duration::from_secs(3);

/// One session over Streamable HTTP.
pub(super) struct Exchange {
    pub(super) reached: Reached,
    spoken: ArcSwap<Spoken>,
    frames: mpsc::Sender<Frame>,
    tasks: Mutex<JoinSet<()>>,
    over: Arc<Notify>,
    /// The requests that are under way.
    under_way: Mutex<HashSet<u64>>,
    /// The server no longer knows the session, or nobody wants it any more.
    retired: AtomicBool,
    /// What a task of ours needs to come back to us.
    me: std::sync::Weak<Self>,
}

/// What has been agreed with the server, as the headers that say so.
#[derive(Clone, Debug, Default)]
pub(super) struct Spoken {
    headers: HeaderMap,
    /// Whether every request stands for itself, and says in its headers what it is.
    stateless: bool,
}

impl Spoken {
    fn new(session: Option<HeaderValue>, revision: Option<HeaderValue>) -> Self {
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

    fn stateless(revision: &str) -> Self {
        Self { stateless: true, ..Self::new(None, HeaderValue::from_str(revision).ok()) }
    }

    /// Whether the rest of a stream that broke can be had.
    pub(super) fn resumes(&self) -> bool {
        !self.stateless
    }

    fn session(&self) -> Option<&HeaderValue> {
        self.headers.get(SESSION_ID)
    }
}

impl Exchange {
    pub(super) fn open(reached: Reached) -> Link {
        let (frames, mut waiting) = mpsc::channel(FRAMES);
        let over = Arc::new(Notify::new());
        let exchange = Arc::new_cyclic(|me| Self {
            reached,
            spoken: ArcSwap::default(),
            frames,
            tasks: Mutex::default(),
            over: Arc::clone(&over),
            under_way: Mutex::default(),
            retired: AtomicBool::new(false),
            me: me.clone(),
        });
        let incoming = async_stream(async move || {
            tokio::select! {
                biased;
                frame = waiting.recv() => frame.map(Ok),
                () = over.notified() => None,
            }
        });
        let keeper = Arc::new(ExchangeKeeper(Arc::clone(&exchange)));
        Link { incoming: Box::pin(incoming), outward: Outward::Posts(exchange), keeper }
    }

    async fn request(&self, posted: Posted) -> Result<Reply, PostError> {
        let _under_way = UnderWay::new(self, posted.id);
        // The session this request belongs to stays what it is, whatever becomes of it meanwhile.
        let spoken = if posted.handshake { Arc::new(Spoken::new(None, None)) } else { self.spoken.load_full() };
        let letter = Letter {
            to: &self.reached.url,
            content: &posted.message,
            own: &spoken.headers,
            method: spoken.stateless.then(|| HeaderValue::from_str(posted.method).ok()).flatten(),
            extra: posted.headers.as_deref(),
            session: spoken.session().is_some(),
        };
        let response = match self.reached.post(letter).await? {
            Met::Success(response) => response,
            Met::Rpc(error) => return Ok(Reply::Answer { answer: Err(error), well_addressed: true }),
        };
        posted.heard.begin();
        if posted.handshake {
            let session = response.headers().get(SESSION_ID).cloned();
            self.spoken.store(Arc::new(Spoken::new(session, None)));
        }
        if is(&response, "text/event-stream") {
            return follow(self, response.into_body(), posted.id, &spoken).await;
        }
        let (head, mut body) = response.into_parts();
        let content = body.read_all(MAX_MESSAGE_BYTES).await.map_err(|error| match error {
            BodyError::TooLong(_) => PostError::Malformed(error.to_string()),
            BodyError::Broken(reason) => PostError::Lost(format!("broke the connection ({reason})")),
        })?;
        if content.trim_ascii().is_empty() {
            return Ok(Reply::Accepted(head.status.as_u16()));
        }
        let kind =
            head.headers.get(CONTENT_TYPE).map_or("no type".into(), |kind| String::from_utf8_lossy(kind.as_bytes()));
        let text = utf8(content)?;
        match classify_sole(text, posted.id) {
            Classified::Answer { reply, .. } => Ok(reply),
            Classified::Broken(reason) => Err(PostError::Malformed(reason)),
            Classified::Other(text) if answers_something(&text) => {
                self.pass_on(Frame::AnswerTo(posted.id, text)).await;
                Ok(Reply::Elsewhere)
            }
            Classified::Other(text) => {
                let start = text.split_whitespace().take(40).collect::<Vec<_>>().join(" ");
                let start: String = start.chars().take(200).collect();
                Err(PostError::Malformed(format!(
                    "HTTP {} of {kind}, which is no answer: {start}",
                    head.status.as_u16()
                )))
            }
        }
    }

    pub(super) async fn pass_on(&self, frame: Frame) {
        // The reader is gone only when the connection is, and then nobody waits for this.
        let _ = self.frames.send(frame).await;
    }

    async fn tell(&self, method: Option<&str>, message: Bytes) -> Result<(), PostError> {
        let spoken = self.spoken.load_full();
        let (own, session) = (&spoken.headers, spoken.session().is_some());
        let method = method.filter(|_| spoken.stateless).and_then(|method| HeaderValue::from_str(method).ok());
        self.reached.tell(Letter { to: &self.reached.url, content: &message, own, method, extra: None, session }).await
    }

    /// Opens the stream of what the server says unasked. `Ok(None)`: it may work later. `Err`: never.
    pub(super) async fn open_stream(&self, last: Option<&HeaderValue>) -> Result<Option<SseReader>, String> {
        self.events(&self.spoken.load_full(), last).await
    }

    /// A stream of events, from the beginning or after `last`. `Ok(None)`: it may work later. `Err`: never.
    pub(super) async fn events(
        &self,
        spoken: &Spoken,
        last: Option<&HeaderValue>,
    ) -> Result<Option<SseReader>, String> {
        let mut own = spoken.headers.clone();
        own.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(last) = last {
            own.insert(LAST_EVENT_ID, last.clone());
        }
        match self.reached.get_events(&own, spoken.session().is_some()).await {
            Ok(response) if is(&response, "text/event-stream") => {
                Ok(Some(SseReader::new(response.into_body(), MAX_MESSAGE_BYTES)))
            }
            Ok(response) => Err(format!("HTTP {} without events", response.status())),
            Err(Refused::Unsent(_)) => Ok(None),
            Err(Refused::Answered(refusal)) if refusal.status.status >= 500 || refusal.status.status == 429 => Ok(None),
            Err(Refused::Answered(refusal)) => Err(refusal.status.to_string()),
        }
    }

    /// Whether this request is under way, and another one than `ours`.
    pub(super) fn is_anothers(&self, id: Option<u64>, ours: u64) -> bool {
        id.is_some_and(|id| id != ours && self.under_way().contains(&id))
    }

    fn under_way(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs something besides, for as long as the session lives.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    pub(super) fn frames(&self) -> mpsc::Sender<Frame> {
        self.frames.clone()
    }

    async fn say_goodbye(&self) {
        let spoken = self.spoken.load_full();
        if spoken.session().is_none() || self.retired.load(Ordering::Relaxed) {
            return;
        }
        let goodbye = async {
            if let Ok((headers, _)) = self.reached.with_own(&spoken.headers).await {
                let _ = self.reached.send(Method::DELETE, &self.reached.url, headers, Bytes::new()).await;
            }
        };
        let _ = tokio::time::timeout(FAREWELL, goodbye).await;
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is under way for as long as this lives.
struct UnderWay<'a>(&'a Exchange, u64);

impl<'a> UnderWay<'a> {
    fn new(exchange: &'a Exchange, id: u64) -> Self {
        exchange.under_way().insert(id);
        Self(exchange, id)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way().remove(&self.1);
    }
}

impl Posts for Exchange {
    fn request(&self, posted: Posted) -> BoxFuture<'_, Result<Reply, PostError>> {
        Box::pin(self.request(posted))
    }

    fn tell<'a>(&'a self, method: Option<&'a str>, message: Bytes) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(self.tell(method, message))
    }

    fn stand_alone(&self, revision: Option<&str>) {
        self.spoken.store(Arc::new(revision.map(Spoken::stateless).unwrap_or_default()));
    }

    fn greeted(&self, revision: &str) {
        let session = self.spoken.load().session().cloned();
        self.spoken.store(Arc::new(Spoken::new(session, HeaderValue::from_str(revision).ok())));
    }

    fn resume(&self, session: &str, revision: &str) -> bool {
        let (Ok(mut session), Ok(revision)) = (HeaderValue::from_str(session), HeaderValue::from_str(revision)) else {
            return false;
        };
        session.set_sensitive(true);
        self.spoken.store(Arc::new(Spoken::new(Some(session), Some(revision))));
        true
    }

    fn listen(&self) {
        self.spawn(listen(self.me.clone(), self.frames.clone()));
    }

    fn tidy(&self) {
        self.reached.client.sweep();
    }

    fn renews(&self) -> bool {
        true
    }

    fn has_session(&self) -> bool {
        self.spoken.load().session().is_some()
    }
}

struct ExchangeKeeper(Arc<Exchange>);

impl PeerHandle for ExchangeKeeper {
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let mut tasks = std::mem::take(&mut *self.0.tasks());
            tasks.shutdown().await;
            self.0.say_goodbye().await;
            self.0.reached.client.close_idle();
            self.0.over.notify_one();
        })
    }

    fn abandon(&self) {
        self.0.retired.store(true, Ordering::Relaxed);
        self.0.tasks().abort_all();
    }

    fn session_id(&self) -> Option<String> {
        let spoken = self.0.spoken.load();
        spoken.session().map(|session| String::from_utf8_lossy(session.as_bytes()).into_owned())
    }
}

/// A stream of what a closure makes until it makes nothing.
fn async_stream<T>(make: impl AsyncFnMut() -> Option<T> + Send) -> impl futures_core::Stream<Item = T> {
    futures_util::stream::unfold(make, async |mut make| Some((make().await?, make)))
}
