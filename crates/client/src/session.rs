//! A session with one server: connects on first use, reconnects after a crash, and closes on request.
//!
//! Callers read the live connection without a lock. Only a caller that finds none takes the start lock; it joins the
//! pending attempt to connect or starts one. An attempt is its own task: it continues when the caller stops waiting, and
//! publishes the connection only after the handshake, so that callers never see a half-open one.

mod attempt;
mod budget;
mod cache;
mod call;
mod client_info;
mod complete;
mod connect_context;
mod discover;
mod handshake;
mod list;
mod listen;
mod live;
mod negotiate;
mod object;
mod options;
mod param_headers;
mod preferences;
mod race;
mod request;
mod round;
mod saved;
mod sender;
mod server_cache;
mod subscribe;
mod subscription;
mod tasks;
mod tools;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, join_all};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use wharf_io::jittered;
use wharf_protocol::ServerName;

pub use cache::ResultCache;
pub use call::{CallOptions, OnLoss};
pub use handshake::ServerInfo;
pub use options::{Deadlines, SessionOptions};
pub use saved::SavedSession;

use crate::health::Counters;
use crate::restarts::{Decision, RestartTracker};
use crate::transport::Transport;
use crate::wire::{Ending, Limits};
use crate::{CallError, CallErrorKind, ConnectError, ConnectErrorKind, Evidence, Health, Host};
use connect_context::ConnectContext;
use discover::{Discovered, discover};
use handshake::handshake;
use live::Live;
use preferences::Preferences;

/// Numbers the sessions of this process.
static NEXT_SESSION: AtomicU64 = AtomicU64::new(1);
/// Time for the ping of a server whose answers stopped arriving.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// How long closing a session waits for pending task cancellations.
const CANCEL_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// The delays before a failed list request is sent again.
const READ_RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(250), Duration::from_millis(500)];
/// The default idle limit of local servers.
const LOCAL_IDLE_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// The default idle limit of remote servers.
const REMOTE_IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// A session with one MCP server.
///
/// A new session does nothing. The first use connects to the server, and a use after the connection ended connects
/// again, after a delay that grows with repeated failures. Concurrent callers share one connection and one attempt to
/// connect.
///
/// `Session` is a handle: clones refer to the same session. When the last one is dropped, the connection is dropped and
/// a local server is killed. Use [`close`](Self::close) to end it gracefully.
///
/// # Examples
///
/// ```no_run
/// use serde_json::json;
/// use wharf_client::{NoHost, Session, SessionOptions, Stdio};
/// use wharf_io::Environment;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let transport = Stdio::new("some-server", ["--stdio"], Environment::default());
/// let session = Session::new("files".parse()?, transport, NoHost, SessionOptions::default());
/// let tools = session.list_tools().await?;
/// let output = session.call("read_file", &json!({ "path": "README.md" }).into()).await?;
/// session.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

/// The state of a [`Session`].
#[derive(Clone, Debug)]
pub enum SessionStatus {
    /// The session has not been used yet.
    Idle,
    /// An attempt to connect is in progress.
    Connecting(Phase),
    /// The session is ready.
    Connected(Arc<ServerInfo>),
    /// Connecting failed, or the connection ended. The next use connects again.
    Failed(ConnectError),
    /// The session was closed. The next use connects again.
    Closed,
}

/// The phase of an attempt to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The transport is being opened: a process starts, or a network connection is made.
    Transport,
    /// The handshake is in progress. A session that the server lost restarts here.
    Handshake,
}

struct Inner {
    name: ServerName,
    transport: Arc<dyn Transport>,
    host: Arc<dyn Host>,
    options: SessionOptions,
    live: ArcSwapOption<Live>,
    start: Mutex<StartState>,
    status: watch::Sender<SessionStatus>,
    counters: Arc<Counters>,
    preferences: Arc<Preferences>,
    /// The server's key in the result cache.
    endpoint: Arc<str>,
    /// A key that is unique to this session, for servers without an identity or audience.
    session_key: Arc<str>,
    /// Cancellations of tasks whose callers are gone.
    pending_cancels: Mutex<JoinSet<()>>,
    /// How many calls poll a task.
    pending_tasks: watch::Sender<usize>,
    /// Serializes calls of `close`.
    closing: Semaphore,
    /// Whether `SessionOptions::resume` has been used.
    resumed: AtomicBool,
}

/// The state of connecting, behind the start lock.
#[derive(Default)]
struct StartState {
    restarts: RestartTracker,
    attempt: Option<Attempt>,
    last_failure: Option<ConnectError>,
    tasks: JoinSet<()>,
    /// Connections whose session the server lost, and whose calls may still be in flight.
    retired: Vec<Weak<Live>>,
    /// Counts calls of `close`. The result of an attempt from before one is discarded.
    close_count: u64,
}

type Attempt = Shared<BoxFuture<'static, Result<Arc<Live>, ConnectError>>>;

impl Session {
    /// Creates a session with the server that `transport` reaches. Does not connect.
    pub fn new(name: ServerName, transport: impl Transport, host: impl Host, options: SessionOptions) -> Self {
        Self::with_shared(name, Arc::new(transport), Arc::new(host), options)
    }

    /// Like [`new`](Self::new), with a transport and a host that are shared with other sessions.
    pub fn with_shared(
        name: ServerName,
        transport: Arc<dyn Transport>,
        host: Arc<dyn Host>,
        options: SessionOptions,
    ) -> Self {
        let session_key: Arc<str> = format!("session {}", NEXT_SESSION.fetch_add(1, Ordering::Relaxed)).into();
        let inner = Inner {
            name,
            endpoint: transport.identity().map_or_else(|| Arc::clone(&session_key), Into::into),
            session_key,
            preferences: Arc::default(),
            transport,
            host,
            options,
            live: ArcSwapOption::empty(),
            start: Mutex::default(),
            status: watch::Sender::new(SessionStatus::Idle),
            counters: Arc::default(),
            pending_cancels: Mutex::default(),
            pending_tasks: watch::Sender::default(),
            closing: Semaphore::new(1),
            resumed: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns the server's configured name.
    pub fn name(&self) -> &ServerName {
        &self.inner.name
    }

    /// Returns a receiver of the session's current status and its changes.
    pub fn status(&self) -> watch::Receiver<SessionStatus> {
        self.inner.status.subscribe()
    }

    /// Returns whether the server is reached over a network instead of as a local process.
    pub fn is_remote(&self) -> bool {
        self.inner.transport.is_remote()
    }

    /// Returns whether a connection exists and its handshake has completed.
    pub fn is_connected(&self) -> bool {
        self.inner.up().is_some()
    }

    /// Returns the session id that a remote server assigned, if it did.
    pub fn session_id(&self) -> Option<String> {
        self.inner.up()?.wire.session_id()
    }

    /// Returns the number of the current connection, or 0 without one.
    ///
    /// Every new connection, and every new session on the server, has a higher number. Lists read in one epoch may be
    /// out of date in the next.
    pub fn epoch(&self) -> u64 {
        self.inner.live.load().as_ref().filter(|live| live.is_up()).map_or(0, |live| live.epoch)
    }

    /// Returns counts of the server's misbehavior.
    pub fn health(&self) -> Health {
        self.inner.counters.snapshot()
    }

    /// Returns the connected server's last output that was not a message: lines on stderr and on stdout.
    pub fn evidence(&self) -> Evidence {
        self.inner.up().map_or_else(Evidence::default, |live| live.wire.evidence())
    }

    /// Connects unless connected, and returns what the server reported about itself.
    ///
    /// Calling this is optional: every request connects on demand.
    pub async fn connect(&self) -> Result<Arc<ServerInfo>, ConnectError> {
        Ok(Arc::clone(&self.inner.ready().await?.info))
    }

    /// Repeats the handshake on the current connection and clears the cached tools, lists and resources.
    pub async fn initialize(&self) -> Result<Arc<ServerInfo>, CallError> {
        let live = self.inner.ready().await?;
        if live.wire.supports_rehandshake() {
            // Over HTTP a handshake starts another session with its own notification stream.
            live.lose();
            return Ok(Arc::clone(&self.inner.ready().await?.info));
        }
        live.cache.clear();
        let host = Arc::clone(&self.inner.host);
        let options = self.inner.options.clone();
        let result = if live.sender.is_modern() {
            match discover(live.wire.handle(), host, options, Arc::clone(&self.inner.preferences)).await {
                Discovered::Modern(info, _) => Ok(info),
                Discovered::Legacy { kind, .. } | Discovered::Disconnected(kind) | Discovered::Fatal(kind) => {
                    // The connection keeps its revision.
                    live.wire.set_stateless(Some(&live.info.revision));
                    Err(kind)
                }
            }
        } else {
            handshake(live.wire.handle(), host, options).await.map_err(|error| error.kind)
        };
        let result = result.map(|info| Arc::new(ServerInfo { epoch: live.epoch, ..info }));
        result.map_err(|kind| self.inner.call_error(&live, CallErrorKind::Connect(kind)))
    }

    /// Runs an idempotent read, and repeats it a few times after transient errors.
    async fn read_with_retries<'a, T>(
        &'a self,
        work: impl Fn(Arc<Live>) -> BoxFuture<'a, Result<T, CallError>> + Send + Sync,
    ) -> Result<T, CallError> {
        let mut delays = READ_RETRY_DELAYS.into_iter();
        let close_count = self.inner.start().close_count;
        loop {
            let error = match self.with_session(&work).await {
                Err(error) if error.is_transient() => error,
                result => return result,
            };
            let Some(delay) = delays.next() else { return Err(error) };
            tokio::time::sleep(jittered(delay)).await;
            // A retry must not reopen a session that was closed meanwhile.
            if self.inner.start().close_count != close_count {
                return Err(error);
            }
        }
    }

    /// Runs `work` on the live connection, and again on a new session if the server lost the old one. Such a request did
    /// not run, so repeating it is safe.
    async fn with_session<'a, T>(
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

    /// Closes the connection gracefully. Calls in flight fail immediately. The next use connects again, and starts fresh:
    /// with a new HTTP client for a remote server.
    pub async fn close(&self) {
        // Concurrent calls also return only when the session is closed.
        let _turn = self.inner.closing.acquire().await;
        let (mut tasks, retired, live) = {
            let mut start = self.inner.start();
            start.attempt = None;
            start.restarts.forget();
            start.close_count += 1;
            // The next use starts fresh. Connections that are still closing keep what they use.
            self.inner.transport.release();
            // Published before waiting: a use of the session meanwhile reopens it, and sets the final status.
            self.inner.status.send_replace(SessionStatus::Closed);
            (std::mem::take(&mut start.tasks), std::mem::take(&mut start.retired), self.inner.live.swap(None))
        };
        tasks.shutdown().await;
        let _ = tokio::time::timeout(CANCEL_FLUSH_TIMEOUT, self.inner.flush_cancels()).await;
        let retired = retired.iter().filter_map(Weak::upgrade);
        join_all(retired.chain(live).map(|live| async move { live.close().await })).await;
    }
}

impl StartState {
    fn retire(&mut self, live: &Arc<Live>) {
        self.retired.retain(|retired| retired.strong_count() > 0 && retired.as_ptr() != Arc::as_ptr(live));
        self.retired.push(Arc::downgrade(live));
    }
}

impl Inner {
    /// Returns the live connection, if it is usable.
    fn up(&self) -> Option<Arc<Live>> {
        self.live.load_full().filter(|live| live.is_up())
    }

    /// Returns whether a call failed because the server lost the session, or changed its protocol revision. If so, marks
    /// the session as lost.
    fn has_lost(&self, live: &Live, error: &CallError) -> bool {
        let lost = matches!(error.kind, CallErrorKind::SessionLost { .. });
        if lost {
            tracing::debug!(server = %self.name, %error, "session lost");
            live.lose();
        }
        lost
    }

    /// Returns the live connection, or connects.
    async fn ready(self: &Arc<Self>) -> Result<Arc<Live>, ConnectError> {
        match self.up() {
            Some(live) if !live.doubtful.load(Ordering::Relaxed) || self.is_alive(&live).await => Ok(live),
            _ => self.attempt()?.await,
        }
    }

    /// Pings a server whose answer stream may be dead. Marks the session as lost if it does not answer.
    async fn is_alive(&self, live: &Live) -> bool {
        let _turn = live.probing.acquire().await;
        // Another caller may have found out meanwhile.
        if live.doubtful.load(Ordering::Relaxed) && !live.lost.load(Ordering::Acquire) {
            let limits = Limits { idle: PING_TIMEOUT, total: Some(PING_TIMEOUT), first_byte: PING_TIMEOUT };
            match live.ping(limits).await {
                // An error answer proves that the stream works.
                Ok(_) | Err(CallErrorKind::Server { .. }) => live.doubtful.store(false, Ordering::Relaxed),
                // The session was closed; the call itself reports that.
                Err(CallErrorKind::Closed | CallErrorKind::Connect(ConnectErrorKind::Closed)) => {}
                Err(_) => live.lose(),
            }
        }
        !live.lost.load(Ordering::Acquire)
    }

    /// Joins the pending attempt to connect, or starts one.
    fn attempt(self: &Arc<Self>) -> Result<Attempt, ConnectError> {
        let mut start = self.start();
        if let Some(live) = self.live.load_full() {
            match live.wire.ending() {
                None if live.lost.load(Ordering::Acquire) => start.retire(&live),
                None => return Ok(std::future::ready(Ok(live)).boxed().shared()),
                // It has just ended, and the reader has not reported it yet.
                Some(ending) => drop(self.ended_locked(&mut start, live.epoch, ending)),
            }
        }
        if let Some(attempt) = start.attempt.as_ref().filter(|attempt| attempt.peek().is_none()) {
            return Ok(attempt.clone());
        }
        let delay = match start.restarts.decide(Instant::now()) {
            Decision::After(delay) => delay,
            Decision::Rest(wait) => {
                let (kind, evidence) = start.last_failure.clone().map_or_else(
                    || (ConnectErrorKind::Closed, Evidence::default()),
                    |failure| (failure.kind, failure.evidence),
                );
                let failures = start.restarts.failures();
                let kind = ConnectErrorKind::Resting { failures, wait, last: Arc::new(kind) };
                return Err(ConnectError { server: self.name.clone(), kind, evidence });
            }
        };
        // After a lost session the transport is still open.
        let only_handshake = self
            .live
            .load()
            .as_ref()
            .is_some_and(|live| live.lost.load(Ordering::Acquire) && live.wire.supports_rehandshake());
        let phase = if only_handshake { Phase::Handshake } else { Phase::Transport };
        self.status.send_replace(SessionStatus::Connecting(phase));
        let closed =
            ConnectError { server: self.name.clone(), kind: ConnectErrorKind::Closed, evidence: Evidence::default() };
        let closed_meanwhile = closed.clone();
        let (sender, receiver) = oneshot::channel();
        while start.tasks.try_join_next().is_some() {}
        let context = self.connect_context();
        let session = Arc::downgrade(self);
        let close_count = start.close_count;
        start.tasks.spawn(async move {
            // A sleep of zero would still wait for the next timer tick.
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            let result = attempt::connect(context).await.map(Arc::new);
            let is_stale = session.upgrade().is_some_and(|session| !session.attempted(&result, close_count));
            // A connection that completes after the session was closed is discarded.
            let _ = sender.send(if is_stale { Err(closed_meanwhile) } else { result });
        });
        let attempt = receiver.map(|result| result.unwrap_or(Err(closed))).boxed().shared();
        start.attempt = Some(attempt.clone());
        Ok(attempt)
    }

    /// Publishes the result of an attempt before its waiters wake. Returns `false` if the session was closed meanwhile.
    fn attempted(&self, result: &Result<Arc<Live>, ConnectError>, close_count: u64) -> bool {
        let mut start = self.start();
        if start.close_count != close_count {
            return false;
        }
        // The waiters have their own handles; ours would keep the result alive.
        start.attempt = None;
        match result {
            Ok(live) => {
                self.live.store(Some(Arc::clone(live)));
                self.status.send_replace(SessionStatus::Connected(Arc::clone(&live.info)));
                // It may have ended before it was published.
                if let Some(ending) = live.wire.ending() {
                    self.ended_locked(&mut start, live.epoch, ending);
                }
            }
            Err(error) => self.failed(&mut start, error, Duration::ZERO),
        }
        true
    }

    /// Records that a connection ended. Returns it, so that the caller can drop it at the right time.
    fn ended(&self, epoch: u64, ending: &Ending) -> Option<Arc<Live>> {
        self.ended_locked(&mut self.start(), epoch, ending)
    }

    fn ended_locked(&self, start: &mut StartState, epoch: u64, ending: &Ending) -> Option<Arc<Live>> {
        let live = self.live.load_full().filter(|live| live.epoch == epoch && !ending.closed)?;
        self.live.store(None);
        if live.lost.load(Ordering::Acquire) {
            // The session was lost before; the status is that of its successor.
            return Some(live);
        }
        let error = ConnectError {
            server: self.name.clone(),
            kind: ConnectErrorKind::Transport(format!("the server {}", ending.reason)),
            evidence: ending.evidence.clone(),
        };
        let lived = if live.wire.was_useful() { Duration::MAX } else { live.connected_at.elapsed() };
        self.failed(start, &error, lived);
        Some(live)
    }

    fn failed(&self, start: &mut StartState, error: &ConnectError, lived: Duration) {
        start.restarts.failed(Instant::now(), lived);
        start.last_failure = Some(error.clone());
        self.status.send_replace(SessionStatus::Failed(error.clone()));
    }

    fn connect_context(self: &Arc<Self>) -> ConnectContext {
        // A saved session is resumed only once; after that, it may have been lost.
        let resumed = self.resumed.swap(true, Ordering::Relaxed);
        ConnectContext {
            name: self.name.clone(),
            transport: Arc::clone(&self.transport),
            host: Arc::clone(&self.host),
            options: self.options.clone(),
            resume: if resumed { None } else { self.options.resume.clone() },
            counters: Arc::clone(&self.counters),
            preferences: Arc::clone(&self.preferences),
            endpoint: Arc::clone(&self.endpoint),
            session: Arc::downgrade(self),
        }
    }

    fn limits(&self, options: &CallOptions<'_>) -> Limits {
        let deadlines = self.options.deadlines;
        let default_idle = if self.transport.is_remote() { REMOTE_IDLE_TIMEOUT } else { LOCAL_IDLE_TIMEOUT };
        let idle = options.idle.or(deadlines.idle).unwrap_or(default_idle);
        Limits { idle, total: options.total.or(deadlines.total), first_byte: deadlines.first_byte }
    }

    fn call_error(&self, live: &Live, kind: CallErrorKind) -> CallError {
        if matches!(kind, CallErrorKind::Timeout { .. }) && live.wire.has_separate_answers() {
            live.doubtful.store(true, Ordering::Relaxed);
        }
        CallError { server: self.name.clone(), kind, evidence: live.wire.evidence() }
    }

    fn pending_cancels(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.pending_cancels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no call polls a task and every cancellation has been sent.
    async fn flush_cancels(&self) {
        let _ = self.pending_tasks.subscribe().wait_for(|pending| *pending == 0).await;
        let mut cancels = std::mem::take(&mut *self.pending_cancels());
        while cancels.join_next().await.is_some() {}
    }

    /// Waits until the session is closed once more than `close_count` times.
    async fn wait_for_close(&self, close_count: u64) {
        let mut status = self.status.subscribe();
        while self.start().close_count == close_count && status.changed().await.is_ok() {}
    }

    fn start(&self) -> MutexGuard<'_, StartState> {
        self.start.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
