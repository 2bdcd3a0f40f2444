//! The session: one server, started when it is first needed, started again when it has died, closed when you say so.
//!
//! Callers read the living connection without a lock. Only who finds none takes the one lock there is, and either joins
//! the attempt that is under way or begins one. An attempt is a task of its own: a caller that gives up waiting does not
//! stop it, and a connection is published only when its handshake is done, so nobody ever sees half of one.

mod attempt;
mod beliefs;
mod cache;
mod call;
mod discover;
mod following;
mod handshake;
mod headers;
mod list;
mod manner;
mod negotiate;
mod options;
mod race;
mod request;
mod rounds;
mod saved;
mod subscribe;
mod tasks;
mod tools;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, join_all};
use serde_json::json;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use wharf_protocol::{Json, ServerName};

pub use cache::ResultCache;
pub use call::{CallOptions, OnLoss};
pub use handshake::ServerInfo;
pub use options::{Deadlines, SessionOptions};
pub use saved::SavedSession;

use crate::health::Counters;
use crate::restarts::{Decision, Restarts};
use crate::transport::{Transport, session_loss};
use crate::wire::{Ending, Limits, Wire};
use crate::{CallError, CallErrorKind, ConnectError, ConnectErrorKind, Evidence, Health, Host};
use attempt::Parts;
use beliefs::Beliefs;
use discover::{Discovered, discover};
use manner::{Request, Speaker, Wishes};
use wharf_io::jittered;

/// Counts the sessions of this process.
static SESSIONS: AtomicU64 = AtomicU64::new(1);
/// How long a server may take to answer a ping, when nothing else has been heard of it.
const PING_LIMIT: Duration = Duration::from_secs(10);
/// How long last words to the server may hold up the end of its session.
const FAREWELLS: Duration = Duration::from_secs(1);
/// The pauses before a list is asked for once more.
const READING_PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_millis(500)];
/// How long a local server may be silent during a call, if nobody says otherwise.
const LOCAL_SILENCE: Duration = Duration::from_secs(30 * 60);
/// How long a remote one may.
const REMOTE_SILENCE: Duration = Duration::from_secs(5 * 60);

/// One server. Cloning gives another handle to the same session; when the last one is dropped the server is killed.
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

/// How a session is doing.
#[derive(Clone, Debug)]
pub enum SessionStatus {
    /// It has not been used yet.
    Idle,
    /// It is being connected.
    Connecting(Phase),
    /// It is ready.
    Connected(Arc<ServerInfo>),
    /// It could not be connected, or its connection ended. The next call tries again.
    Failed(ConnectError),
    /// It was closed. The next call opens it again.
    Closed,
}

/// What connecting has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The way to the server is being made: a process, a connection, an HTTP client.
    Transport,
    /// The handshake is under way. A session that the server has lost goes back to here only.
    Handshake,
}

struct Inner {
    name: ServerName,
    transport: Arc<dyn Transport>,
    host: Arc<dyn Host>,
    options: SessionOptions,
    live: ArcSwapOption<Live>,
    start: Mutex<Start>,
    status: watch::Sender<SessionStatus>,
    counters: Arc<Counters>,
    wishes: Arc<Wishes>,
    /// What the server is known by to what we keep of it.
    endpoint: Arc<str>,
    /// What only this session is known by.
    own: Arc<str>,
    /// Last words to the server about what nobody wants any more.
    farewells: Mutex<JoinSet<()>>,
    /// How many calls wait for tasks of the server.
    awaited: watch::Sender<usize>,
    /// One at a time may close.
    closing: Semaphore,
    /// Whether the session that was to be taken up has been.
    taken_up: AtomicBool,
}

/// A connection whose handshake is done.
struct Live {
    /// Which connection of this session it is.
    number: u64,
    wire: Wire,
    speaker: Speaker,
    info: Arc<ServerInfo>,
    beliefs: Arc<Beliefs>,
    since: Instant,
    /// The server no longer knows our session: whoever comes now needs another one.
    lost: AtomicBool,
    /// An answer did not come where answers come on a stream of their own; that stream may be dead without having ended.
    doubtful: AtomicBool,
    /// One at a time finds out.
    asking: Semaphore,
    /// What goes on besides calls for as long as the connection lives.
    beside: Mutex<JoinSet<()>>,
}

/// Everything about starting, behind the one lock.
#[derive(Default)]
struct Start {
    restarts: Restarts,
    attempt: Option<Attempt>,
    last_failure: Option<ConnectError>,
    tasks: JoinSet<()>,
    /// Connections whose session the server has lost, with calls that may still be under way.
    retired: Vec<Weak<Live>>,
    /// Counts how often the session was closed: an attempt from before that has no say any more.
    closings: u64,
}

type Attempt = Shared<BoxFuture<'static, Result<Arc<Live>, ConnectError>>>;

impl Session {
    /// A session with the server that `transport` reaches. Nothing happens until it is used.
    pub fn new(name: ServerName, transport: impl Transport, host: impl Host, options: SessionOptions) -> Self {
        Self::with_shared(name, Arc::new(transport), Arc::new(host), options)
    }

    /// The same, with parts that are shared with others.
    pub fn with_shared(
        name: ServerName,
        transport: Arc<dyn Transport>,
        host: Arc<dyn Host>,
        options: SessionOptions,
    ) -> Self {
        // Servers without an identity are each their own.
        let own: Arc<str> = format!("session {}", SESSIONS.fetch_add(1, Ordering::Relaxed)).into();
        let inner = Inner {
            name,
            endpoint: transport.identity().map_or_else(|| Arc::clone(&own), Into::into),
            own,
            wishes: Arc::default(),
            transport,
            host,
            options,
            live: ArcSwapOption::empty(),
            start: Mutex::default(),
            status: watch::Sender::new(SessionStatus::Idle),
            counters: Arc::default(),
            farewells: Mutex::default(),
            awaited: watch::Sender::default(),
            closing: Semaphore::new(1),
            taken_up: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The server's name.
    pub fn name(&self) -> &ServerName {
        &self.inner.name
    }

    /// How the session is doing, now and from now on.
    pub fn status(&self) -> watch::Receiver<SessionStatus> {
        self.inner.status.subscribe()
    }

    /// Whether the server is behind a network, and not a process of ours.
    pub fn is_remote(&self) -> bool {
        self.inner.transport.is_remote()
    }

    /// Whether there is a connection whose handshake is done.
    pub fn is_connected(&self) -> bool {
        self.inner.up().is_some()
    }

    /// The id under which a remote server keeps this session; local ones have none.
    pub fn session_id(&self) -> Option<String> {
        self.inner.up()?.wire.session_id()
    }

    /// Which connection, or session of the server, there is: another number for every new one, and 0 while there is none.
    /// What was listed on one generation says nothing of the next.
    pub fn generation(&self) -> u64 {
        self.inner.live.load().as_ref().filter(|live| live.is_up()).map_or(0, |live| live.number)
    }

    /// How the server has behaved so far.
    pub fn health(&self) -> Health {
        self.inner.counters.snapshot()
    }

    /// What a connected server has said that was no message: its last lines on stderr, and on stdout.
    pub fn evidence(&self) -> Evidence {
        self.inner.up().map_or_else(Evidence::default, |live| live.wire.evidence())
    }

    /// Connects if there is no connection, and tells who the server is. Using the session does this by itself.
    pub async fn connect(&self) -> Result<Arc<ServerInfo>, ConnectError> {
        Ok(Arc::clone(&self.inner.ready().await?.info))
    }

    /// Greets the server once more on the connection there is; what was known of it is forgotten.
    pub async fn initialize(&self) -> Result<Arc<ServerInfo>, CallError> {
        let live = self.inner.ready().await?;
        if live.wire.renews() {
            // Over HTTP a handshake begins a session of its own, with a stream of its own.
            live.lose();
            return Ok(Arc::clone(&self.inner.ready().await?.info));
        }
        live.beliefs.forget();
        let (host, options) = (Arc::clone(&self.inner.host), self.inner.options.clone());
        let greeted = if live.speaker.is_modern() {
            match discover(live.wire.line(), host, options, Arc::clone(&self.inner.wishes)).await {
                Discovered::Modern(info, _) => Ok(info),
                Discovered::Legacy { kind, .. } | Discovered::Gone(kind) | Discovered::Hopeless(kind) => {
                    // What was agreed before still holds.
                    live.wire.stand_alone(Some(&live.info.revision));
                    Err(kind)
                }
            }
        } else {
            handshake::shake_hands(live.wire.line(), host, options).await.map_err(|refused| refused.kind)
        };
        let greeted = greeted.map(|info| Arc::new(ServerInfo { generation: live.number, ..info }));
        greeted.map_err(|kind| self.inner.call_error(&live, CallErrorKind::Connect(kind)))
    }

    /// Reads something, which may be done as often as it takes: a few times, with pauses between.
    async fn reading<'a, T>(
        &'a self,
        work: impl Fn(Arc<Live>) -> BoxFuture<'a, Result<T, CallError>> + Send + Sync,
    ) -> Result<T, CallError> {
        let (mut pauses, closings) = (READING_PAUSES.into_iter(), self.inner.start().closings);
        loop {
            let error = match self.in_session(&work).await {
                Err(error) if error.may_pass() => error,
                result => return result,
            };
            let Some(pause) = pauses.next() else { return Err(error) };
            tokio::time::sleep(jittered(pause)).await;
            // A session that was closed meanwhile is not opened again by who came before.
            if self.inner.start().closings != closings {
                return Err(error);
            }
        }
    }

    /// Does something on the living connection, and again on a new session where the server has lost the old one. It
    /// refused then before it did anything, so whatever it is may be repeated.
    async fn in_session<'a, T>(
        &'a self,
        work: impl Fn(Arc<Live>) -> BoxFuture<'a, Result<T, CallError>> + Send,
    ) -> Result<T, CallError> {
        let mut retries = self.inner.options.session_retries;
        loop {
            let live = self.inner.ready().await?;
            match work(Arc::clone(&live)).await {
                Err(error) if self.inner.has_lost(&live, &error) && retries > 0 => retries -= 1,
                result => return result,
            }
        }
    }

    /// Ends the connection in good order. Calls under way fail at once; the next use connects anew.
    pub async fn close(&self) {
        // Whoever closes it too returns when it is closed, not before.
        let _turn = self.inner.closing.acquire().await;
        let (mut tasks, retired, live) = {
            let mut start = self.inner.start();
            start.attempt = None;
            start.restarts.forget();
            start.closings += 1;
            // Said before the waiting: whoever uses the session meanwhile opens it again, and has the last word.
            self.inner.status.send_replace(SessionStatus::Closed);
            (std::mem::take(&mut start.tasks), std::mem::take(&mut start.retired), self.inner.live.swap(None))
        };
        tasks.shutdown().await;
        let _ = tokio::time::timeout(FAREWELLS, self.inner.say_farewells()).await;
        let retired = retired.iter().filter_map(Weak::upgrade);
        join_all(retired.chain(live).map(|live| async move { live.close().await })).await;
    }
}

impl Start {
    fn retire(&mut self, live: &Arc<Live>) {
        self.retired.retain(|retired| retired.strong_count() > 0 && retired.as_ptr() != Arc::as_ptr(live));
        self.retired.push(Arc::downgrade(live));
    }
}

impl Live {
    fn is_up(&self) -> bool {
        self.wire.ending().is_none() && !self.lost.load(Ordering::Acquire)
    }

    /// Lets nobody else into this session.
    fn lose(&self) {
        if !self.lost.swap(true, Ordering::AcqRel) {
            self.beside().abort_all();
            self.wire.retire();
        }
    }

    fn beside(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn close(&self) {
        // Some servers wait a while for a client that still listens.
        let mut beside = std::mem::take(&mut *self.beside());
        beside.shutdown().await;
        self.wire.close().await;
    }

    /// Asks whether the server is there, by what its era has for that.
    async fn ping(&self, limits: Limits) -> Result<Json, CallErrorKind> {
        let method = if self.speaker.is_modern() { "server/discover" } else { "ping" };
        let answer = self.speaker.send(&mut Request::new(method, &json!({}), limits), None).await;
        answer.map_err(|kind| match kind {
            CallErrorKind::Server { code, message, .. } if self.wire.renews() && session_loss(code, &message) => {
                CallErrorKind::SessionLost { code, message }
            }
            other => other,
        })
    }
}

impl Inner {
    fn up(&self) -> Option<Arc<Live>> {
        self.live.load_full().filter(|live| live.is_up())
    }

    /// Whether a call failed because the server has lost the session, or speaks another way than it did. If so, nobody
    /// else is let into it.
    fn has_lost(&self, live: &Live, error: &CallError) -> bool {
        let lost = matches!(error.kind, CallErrorKind::SessionLost { .. });
        if lost {
            tracing::debug!(server = %self.name, %error, "the session is lost");
            live.lose();
        }
        lost
    }

    /// The living connection, or a new one.
    async fn ready(self: &Arc<Self>) -> Result<Arc<Live>, ConnectError> {
        match self.up() {
            Some(live) if !live.doubtful.load(Ordering::Relaxed) || self.is_there(&live).await => Ok(live),
            _ => self.attempt()?.await,
        }
    }

    /// Asks a server of whose stream nothing has come whether it is there; if it is not, its session is left.
    async fn is_there(&self, live: &Live) -> bool {
        let _turn = live.asking.acquire().await;
        // Whoever asked before us may have found out.
        if live.doubtful.load(Ordering::Relaxed) && !live.lost.load(Ordering::Acquire) {
            let limits = Limits { idle: PING_LIMIT, total: Some(PING_LIMIT), first_byte: PING_LIMIT };
            match live.ping(limits).await {
                // Even a refusal is an answer.
                Ok(_) | Err(CallErrorKind::Server { .. }) => live.doubtful.store(false, Ordering::Relaxed),
                // Closed by ourselves, which the call will be told.
                Err(CallErrorKind::Closed | CallErrorKind::Connect(ConnectErrorKind::Closed)) => {}
                Err(_) => live.lose(),
            }
        }
        !live.lost.load(Ordering::Acquire)
    }

    /// Joins the attempt that is under way, or begins one.
    fn attempt(self: &Arc<Self>) -> Result<Attempt, ConnectError> {
        let mut start = self.start();
        if let Some(live) = self.live.load_full() {
            match live.wire.ending() {
                None if live.lost.load(Ordering::Acquire) => start.retire(&live),
                None => return Ok(std::future::ready(Ok(live)).boxed().shared()),
                // It has just ended, and whoever is to say so has not come to it yet.
                Some(ending) => drop(self.ended_under(&mut start, live.number, ending)),
            }
        }
        if let Some(attempt) = start.attempt.as_ref().filter(|attempt| attempt.peek().is_none()) {
            return Ok(attempt.clone());
        }
        let pause = match start.restarts.decide(Instant::now()) {
            Decision::After(pause) => pause,
            Decision::Rest(wait) => {
                let (kind, evidence) = start.last_failure.clone().map_or_else(
                    || (ConnectErrorKind::Closed, Evidence::default()),
                    |failure| (failure.kind, failure.evidence),
                );
                let (failures, last) = (start.restarts.failures(), Arc::new(kind));
                let kind = ConnectErrorKind::Resting { failures, wait, last };
                return Err(ConnectError { server: self.name.clone(), kind, evidence });
            }
        };
        // What was lost was a session, not the way to the server.
        let renewing =
            self.live.load().as_ref().is_some_and(|live| live.lost.load(Ordering::Acquire) && live.wire.renews());
        let phase = if renewing { Phase::Handshake } else { Phase::Transport };
        self.status.send_replace(SessionStatus::Connecting(phase));
        let closed =
            ConnectError { server: self.name.clone(), kind: ConnectErrorKind::Closed, evidence: Evidence::default() };
        let late = closed.clone();
        let (told, result) = oneshot::channel();
        while start.tasks.try_join_next().is_some() {}
        let (parts, session, closings) = (self.parts(), Arc::downgrade(self), start.closings);
        start.tasks.spawn(async move {
            // Even no time at all would be waited for until the clock ticks.
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let result = parts.connect().await.map(Arc::new);
            let stale = session.upgrade().is_some_and(|session| !session.attempted(&result, closings));
            // What comes about after the session was closed is nobody's.
            let _ = told.send(if stale { Err(late) } else { result });
        });
        let attempt = result.map(|result| result.unwrap_or(Err(closed))).boxed().shared();
        start.attempt = Some(attempt.clone());
        Ok(attempt)
    }

    /// Publishes how an attempt went, before anybody who waits for it is woken; `false` if it came too late.
    fn attempted(&self, result: &Result<Arc<Live>, ConnectError>, closings: u64) -> bool {
        let mut start = self.start();
        if start.closings != closings {
            return false;
        }
        // Whoever waits for the attempt has a handle of its own; ours would keep its result around.
        start.attempt = None;
        match result {
            Ok(live) => {
                self.live.store(Some(Arc::clone(live)));
                self.status.send_replace(SessionStatus::Connected(Arc::clone(&live.info)));
                // It may have ended before anybody could hear of it.
                if let Some(ending) = live.wire.ending() {
                    self.ended_under(&mut start, live.number, ending);
                }
            }
            Err(error) => self.failed(&mut start, error, Duration::ZERO),
        }
        true
    }

    /// The connection `number` has ended by itself; what is returned is what is left of it.
    fn ended(&self, number: u64, ending: &Ending) -> Option<Arc<Live>> {
        self.ended_under(&mut self.start(), number, ending)
    }

    fn ended_under(&self, start: &mut Start, number: u64, ending: &Ending) -> Option<Arc<Live>> {
        let live = self.live.load_full().filter(|live| live.number == number && !ending.closed)?;
        self.live.store(None);
        if live.lost.load(Ordering::Acquire) {
            // It was left before it ended; how the next one is doing is what counts.
            return Some(live);
        }
        let error = ConnectError {
            server: self.name.clone(),
            kind: ConnectErrorKind::Transport(format!("the server {}", ending.reason)),
            evidence: ending.evidence.clone(),
        };
        let lived = if live.wire.was_useful() { Duration::MAX } else { live.since.elapsed() };
        self.failed(start, &error, lived);
        Some(live)
    }

    fn failed(&self, start: &mut Start, error: &ConnectError, lived: Duration) {
        start.restarts.failed(Instant::now(), lived);
        start.last_failure = Some(error.clone());
        self.status.send_replace(SessionStatus::Failed(error.clone()));
    }

    fn parts(self: &Arc<Self>) -> Parts {
        Parts {
            name: self.name.clone(),
            transport: Arc::clone(&self.transport),
            host: Arc::clone(&self.host),
            options: self.options.clone(),
            // Once: what was lost is not taken up again.
            resume: self.options.resume.clone().filter(|_| !self.taken_up.swap(true, Ordering::Relaxed)),
            counters: Arc::clone(&self.counters),
            wishes: Arc::clone(&self.wishes),
            endpoint: Arc::clone(&self.endpoint),
            session: Arc::downgrade(self),
        }
    }

    fn limits(&self, options: &CallOptions<'_>) -> Limits {
        let deadlines = self.options.deadlines;
        let usual = if self.transport.is_remote() { REMOTE_SILENCE } else { LOCAL_SILENCE };
        let idle = options.idle.or(deadlines.idle).unwrap_or(usual);
        Limits { idle, total: options.total.or(deadlines.total), first_byte: deadlines.first_byte }
    }

    fn call_error(&self, live: &Live, kind: CallErrorKind) -> CallError {
        if matches!(kind, CallErrorKind::Timeout { .. }) && live.wire.answers_apart() {
            live.doubtful.store(true, Ordering::Relaxed);
        }
        CallError { server: self.name.clone(), kind, evidence: live.wire.evidence() }
    }

    fn farewells(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.farewells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody waits for a task any more, and the server has been told so.
    async fn say_farewells(&self) {
        let _ = self.awaited.subscribe().wait_for(|awaited| *awaited == 0).await;
        let mut farewells = std::mem::take(&mut *self.farewells());
        while farewells.join_next().await.is_some() {}
    }

    /// Completes when the session is closed after it had been closed so often.
    async fn closed_after(&self, closings: u64) {
        let mut status = self.status.subscribe();
        while self.start().closings == closings && status.changed().await.is_ok() {}
    }

    fn start(&self) -> MutexGuard<'_, Start> {
        self.start.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
