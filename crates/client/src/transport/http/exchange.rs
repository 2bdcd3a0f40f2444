//! Streamable HTTP: a POST for every message, its answer in JSON or as a stream of events, and a GET for what the server
//! has to say besides.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use wharf_io::{Body, BodyError, EventError, Events};

use super::governor::Governor;
use super::poster::{Letter, Met, is};
use super::refusal::{self, Refusal};
use super::{FRAMES, Reached};
use crate::transport::{Frame, Keeper, LONGEST_MESSAGE, Link, Outward, PostError, Posted, Posts, Reply};
use crate::wire::{Message, TELL_LIMIT, read_shared};

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// How long the end of a session may take.
const FAREWELL: Duration = Duration::from_secs(3);
/// How long the rest of a stream is read once its answer has come, so that its connection can be used again.
const REST: Duration = Duration::from_secs(1);
/// How often connections that nobody uses are looked after.
const SWEEP: Duration = Duration::from_secs(60);

/// One session over Streamable HTTP.
pub(super) struct Exchange {
    pub(super) reached: Reached,
    spoken: ArcSwap<Spoken>,
    frames: mpsc::Sender<Frame>,
    tasks: Mutex<JoinSet<()>>,
    over: Arc<Notify>,
    /// What a task of ours needs to come back to us.
    me: std::sync::Weak<Self>,
}

/// What has been agreed with the server, as the headers that say so.
#[derive(Clone, Debug, Default)]
struct Spoken {
    headers: HeaderMap,
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
        Self { headers }
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
        // The session this request belongs to stays what it is, whatever becomes of it meanwhile.
        let spoken = if posted.handshake { Arc::new(Spoken::new(None, None)) } else { self.spoken.load_full() };
        let letter = Letter {
            to: &self.reached.url,
            content: &posted.message,
            own: &spoken.headers,
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
            return self.follow(response.into_body(), posted.id, &spoken).await;
        }
        let (head, mut body) = response.into_parts();
        let content = body.read_all(LONGEST_MESSAGE).await.map_err(|error| match error {
            BodyError::TooLong(_) => PostError::Malformed(error.to_string()),
            BodyError::Broken(reason) => PostError::Lost(format!("broke off its answer ({reason})")),
        })?;
        if content.trim_ascii().is_empty() {
            return Ok(Reply::Accepted(head.status.as_u16()));
        }
        let kind =
            head.headers.get(CONTENT_TYPE).map_or("no type".into(), |kind| String::from_utf8_lossy(kind.as_bytes()));
        let text = utf8(content)?;
        match classify(text, posted.id) {
            Classified::Answer(reply, _) => Ok(reply),
            Classified::Broken(reason) => Err(PostError::Malformed(reason)),
            Classified::Other(text) if text.trim_start().starts_with('[') => {
                self.pass_on(Frame::AnswerTo(posted.id, text)).await;
                Ok(Reply::Elsewhere)
            }
            Classified::Other(text) => {
                let start: String = text.trim().chars().take(200).collect();
                Err(PostError::Malformed(format!(
                    "HTTP {} of {kind}, which is no answer: {start}",
                    head.status.as_u16()
                )))
            }
        }
    }

    /// Reads the events of an answer until the answer itself comes. What comes before it, and after, goes its way.
    async fn follow(&self, body: Body, id: u64, spoken: &Spoken) -> Result<Reply, PostError> {
        let mut events = Events::new(body, LONGEST_MESSAGE);
        let mut passed_on = false;
        let mut governor = Governor::default();
        loop {
            let (opened, mut useful) = (Instant::now(), false);
            let broken = loop {
                let event = match events.next().await {
                    Some(Ok(event)) if event.kind == "message" && !event.data.trim_ascii().is_empty() => event,
                    Some(Ok(_)) => continue,
                    Some(Err(error @ EventError::TooLong(_))) => return Err(PostError::Malformed(error.to_string())),
                    Some(Err(EventError::Broken(reason))) => break format!("broke off its answer ({reason})"),
                    None => break "ended its answer before it was complete".to_owned(),
                };
                useful = true;
                match classify(utf8(event.data)?, id) {
                    Classified::Answer(reply, text) => {
                        if passed_on {
                            // What came before must be heard before.
                            drop(reply);
                            self.pass_on(Frame::AnswerTo(id, Arc::unwrap_or_clone(text))).await;
                            self.finish(events);
                            return Ok(Reply::Elsewhere);
                        }
                        self.finish(events);
                        return Ok(reply);
                    }
                    Classified::Broken(reason) => return Err(PostError::Malformed(reason)),
                    Classified::Other(text) => {
                        passed_on = true;
                        self.pass_on(Frame::Message(text)).await;
                    }
                }
            };
            // An event with an id is a promise that the rest can be had.
            let Some(last) = events.last_id().and_then(|id| HeaderValue::from_str(id).ok()) else {
                return Err(PostError::Lost(broken));
            };
            let Some(pause) = governor.ended(opened.elapsed(), useful, events.retry()) else {
                return Err(PostError::Lost(broken));
            };
            tokio::time::sleep(pause).await;
            events = match self.resume(last, spoken).await {
                Ok(Some(events)) => events,
                Ok(None) => continue,
                Err(PostError::SessionLost { .. }) => return Err(PostError::Lost(broken)),
                Err(error) => {
                    tracing::debug!(?error, "a stream cannot be resumed");
                    return Err(PostError::Lost(broken));
                }
            };
        }
    }

    /// Takes up a stream where it broke; `None` if that may work later.
    async fn resume(&self, last: HeaderValue, spoken: &Spoken) -> Result<Option<Events>, PostError> {
        match self.get(spoken, Some(last)).await {
            Ok(response) if response.status().is_success() && is(&response, "text/event-stream") => {
                Ok(Some(Events::new(response.into_body(), LONGEST_MESSAGE)))
            }
            Ok(response) if response.status().is_server_error() => Ok(None),
            Ok(response) => match refusal::read(response, spoken.session().is_some()).await {
                Refusal::Other(error) => Err(error),
                Refusal::Rpc(error) => Err(PostError::Malformed(error.message)),
            },
            Err(PostError::NotSent(_) | PostError::Lost(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads what is left of a stream after its answer, if anything is.
    fn finish(&self, mut events: Events) {
        if matches!(events.next().now_or_never(), Some(None)) {
            return;
        }
        let frames = self.frames.clone();
        let mut tasks = self.tasks();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let rest = async {
                while let Some(Ok(event)) = events.next().await {
                    if let Ok(text) = String::from_utf8(event.data) {
                        let _ = frames.send(Frame::Message(text)).await;
                    }
                }
            };
            let _ = tokio::time::timeout(REST, rest).await;
        });
    }

    async fn pass_on(&self, frame: Frame) {
        // The reader is gone only when the connection is, and then nobody waits for this.
        let _ = self.frames.send(frame).await;
    }

    async fn tell(&self, message: Bytes) -> Result<(), PostError> {
        let spoken = self.spoken.load_full();
        let session = spoken.session().is_some();
        let own = &spoken.headers;
        let telling = self.reached.post(Letter { to: &self.reached.url, content: &message, own, extra: None, session });
        let late = || PostError::Lost(format!("did not take a message within {} s", TELL_LIMIT.as_secs()));
        match tokio::time::timeout(TELL_LIMIT, telling).await.unwrap_or_else(|_| Err(late()))? {
            Met::Success(response) => {
                // There is nothing in it that anybody waits for; read, it frees its connection.
                let _ = tokio::time::timeout(REST, response.into_body().read_head(1024)).await;
                Ok(())
            }
            Met::Rpc(error) => Err(PostError::Malformed(format!("error {}: {}", error.code, error.message))),
        }
    }

    /// Opens the stream of what the server says unasked. `Ok(None)`: it may work later. `Err`: never.
    pub(super) async fn open_stream(&self, last: Option<&HeaderValue>) -> Result<Option<Events>, String> {
        let spoken = self.spoken.load_full();
        match self.get(&spoken, last.cloned()).await {
            Ok(response) if response.status().is_success() && is(&response, "text/event-stream") => {
                Ok(Some(Events::new(response.into_body(), LONGEST_MESSAGE)))
            }
            Ok(response) if response.status().is_server_error() || response.status().as_u16() == 429 => Ok(None),
            Ok(response) => {
                let status = response.status();
                // Read, it frees its connection.
                let _ = tokio::time::timeout(REST, response.into_body().read_head(64 * 1024)).await;
                Err(format!("HTTP {status}"))
            }
            Err(PostError::NotSent(_) | PostError::Lost(_)) => Ok(None),
            Err(error) => Err(format!("{error:?}")),
        }
    }

    async fn get(&self, spoken: &Spoken, last: Option<HeaderValue>) -> Result<Response<Body>, PostError> {
        let (mut headers, _) = self.reached.with_own(&spoken.headers).await?;
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(last) = last {
            headers.insert(LAST_EVENT_ID, last);
        }
        self.reached.send(Method::GET, &self.reached.url, headers, Bytes::new()).await
    }

    async fn say_goodbye(&self) {
        let spoken = self.spoken.load_full();
        if spoken.session().is_none() {
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

impl Posts for Exchange {
    fn request(&self, posted: Posted) -> BoxFuture<'_, Result<Reply, PostError>> {
        Box::pin(self.request(posted))
    }

    fn tell(&self, message: Bytes) -> BoxFuture<'_, Result<(), PostError>> {
        Box::pin(self.tell(message))
    }

    fn greeted(&self, revision: &str) {
        let session = self.spoken.load().session().cloned();
        self.spoken.store(Arc::new(Spoken::new(session, HeaderValue::from_str(revision).ok())));
    }

    fn listen(&self) {
        let mut tasks = self.tasks();
        let (me, client) = (self.me.clone(), self.reached.client.clone());
        tasks.spawn(super::listen::listen(me, self.frames.clone()));
        tasks.spawn(async move {
            loop {
                tokio::time::sleep(SWEEP).await;
                client.sweep();
            }
        });
    }

    fn renews(&self) -> bool {
        true
    }

    fn has_session(&self) -> bool {
        self.spoken.load().session().is_some()
    }
}

struct ExchangeKeeper(Arc<Exchange>);

impl Keeper for ExchangeKeeper {
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let mut tasks = std::mem::take(&mut *self.0.tasks());
            tasks.shutdown().await;
            self.0.say_goodbye().await;
            self.0.reached.client.let_go();
            self.0.over.notify_one();
        })
    }

    fn abandon(&self) {
        self.0.tasks().abort_all();
    }

    fn session_id(&self) -> Option<String> {
        let spoken = self.0.spoken.load();
        spoken.session().map(|session| String::from_utf8_lossy(session.as_bytes()).into_owned())
    }
}

/// What a text is to the caller who waits for an answer.
enum Classified {
    Answer(Reply, Arc<String>),
    /// Meant as an answer, and broken.
    Broken(String),
    /// Anything else.
    Other(String),
}

fn classify(text: String, id: u64) -> Classified {
    let text = Arc::new(text);
    let mut reading = read_shared(&text);
    match (reading.messages.pop(), reading.messages.is_empty(), reading.noise.is_none()) {
        (Some(Message::Answer { id: given, well_typed, answer }), true, true) => {
            let well_addressed = well_typed && given == Some(id);
            Classified::Answer(Reply::Answer { answer, well_addressed }, text)
        }
        (Some(Message::Nonsense { reason, .. }), true, true) => Classified::Broken(reason),
        (None, _, true) if !reading.broken.is_empty() => Classified::Broken(reading.broken.swap_remove(0).1),
        (message, _, _) => {
            drop((message, reading));
            Classified::Other(Arc::unwrap_or_clone(text))
        }
    }
}

fn utf8(bytes: Vec<u8>) -> Result<String, PostError> {
    String::from_utf8(bytes)
        .map_err(|error| PostError::Malformed(format!("it is not UTF-8 at byte {}", error.utf8_error().valid_up_to())))
}

/// A stream of what a closure makes until it makes nothing.
fn async_stream<T>(make: impl AsyncFnMut() -> Option<T> + Send) -> impl futures_core::Stream<Item = T> {
    futures_util::stream::unfold(make, async |mut make| Some((make().await?, make)))
}
