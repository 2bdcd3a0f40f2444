//! One connection: requests out, answers in, notifications in their order, and an end that everybody hears of.
//!
//! The path of a request over a pipe: the caller posts whom to wake ([`Post`]), writes its line itself
//! ([`outbox::Outbox`]), and waits. The reader, one task, owns the table of who waits; it reads the answer and wakes the
//! caller. No lock is waited for and no task stands between. Over HTTP the caller sends its request and reads its answer
//! itself; the reader only sees what comes besides answers.

mod clock;
mod find_id;
mod message;
mod notices;
mod out;
mod outbox;
mod questions;
mod queue;
mod reader;
mod steps;
mod waiting;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use wharf_protocol::Json;

use crate::era::{UNSUPPORTED_VERSION, supported};
use crate::health::Counters;
use crate::transport::{Heard, Link, PeerHandle, PostError, Posted, session_loss};
use crate::{CallErrorKind, ConnectErrorKind, Evidence, Host, Notification, Progress};
use clock::{Clock, Paused};
pub(crate) use find_id::{Found, find_id};
use message::write;
pub(crate) use message::{Message, RpcError, read_shared};
use out::Out;
pub(crate) use questions::Question;
use queue::Queue;
use reader::Reader;
pub(crate) use steps::Steps;
use waiting::{Answered, Waiting};

/// Requests that may be under way on one connection; further ones wait for their turn.
const IN_FLIGHT: usize = 1024;
/// The same where every request under way needs a connection of its own.
const CONNECTIONS: usize = 256;
/// Posts to the reader that may wait; enough for all requests to come and to go.
const POSTS: usize = 4 * IN_FLIGHT;
/// The same where only those requests are posted about whose answers the reader brings.
const FEW_POSTS: usize = 4 * CONNECTIONS;
/// How long the reader may take to see the end of a connection that is being closed.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long a server may take to accept what is no request, where it has to say that it does.
pub(crate) const TELL_LIMIT: Duration = Duration::from_secs(30);
/// How long a transport may take to close its far end.
const CLOSING: Duration = Duration::from_secs(10 * 60);
/// Longer than any deadline that means something, and short enough to be added to any point in time.
pub(crate) const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Receives the progress of one call, in the caller's own task.
pub(crate) type OnProgress<'a> = &'a mut (dyn FnMut(Progress) + Send);

/// Hears of the end of a connection, and returns what must live until everybody else has heard of it.
pub(crate) type OnEnd = Box<dyn FnOnce(&Ending) -> Option<Arc<dyn Send + Sync>> + Send>;

/// What a connection needs to know of its session.
pub(crate) struct Setup {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) counters: Arc<Counters>,
    /// Sees every notice before the host does, with the request it came of if it says so, and says what the host is told
    /// instead.
    pub(crate) on_notice: Box<dyn Fn(Notification, Option<u64>) -> Vec<Notification> + Send>,
    pub(crate) on_end: OnEnd,
    /// How long a full pipe is borne.
    pub(crate) write_limit: Duration,
    /// How long the host may take to answer the server.
    pub(crate) answer_limit: Duration,
}

/// How long an answer is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) idle: Duration,
    pub(crate) total: Option<Duration>,
    /// Until an answer begins, where that can be told apart from its end.
    pub(crate) first_byte: Duration,
}

/// A request as the session makes it.
pub(crate) struct Asked<'a> {
    pub(crate) method: &'static str,
    pub(crate) limits: Limits,
    /// Headers for this request alone, where the transport has such a thing.
    pub(crate) headers: Option<Arc<http::HeaderMap>>,
    pub(crate) on_progress: Option<OnProgress<'a>>,
}

impl Asked<'_> {
    pub(crate) fn new(method: &'static str, limits: Limits) -> Self {
        Self { method, limits, headers: None, on_progress: None }
    }
}

/// How a connection ended.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    /// What the server did, to follow the words "the server".
    pub(crate) reason: String,
    /// Whether we closed it ourselves.
    pub(crate) closed: bool,
    pub(crate) evidence: Evidence,
}

/// One living, or dead, connection. When it is dropped the far end is given up.
pub(crate) struct Wire {
    line: Line,
    keeper: Arc<dyn PeerHandle>,
    tasks: Mutex<JoinSet<()>>,
}

/// What requests are made on: a handle that does not keep the connection alive.
#[derive(Clone)]
pub(crate) struct Line {
    shared: Arc<Shared>,
}

/// What callers and the reader share.
struct Shared {
    next_id: AtomicU64,
    /// Requests that may still be made.
    permits: Semaphore,
    posts: Queue<Post>,
    /// Who waits and is not known to the reader yet, where callers bring most answers themselves: then it need never be.
    fresh: Mutex<HashMap<u64, Waiter>>,
    /// Wakes the reader when there is something to do besides reading.
    nudge: Notify,
    out: Out,
    clock: Clock,
    /// Our own wish to end.
    closing: OnceLock<()>,
    ending: OnceLock<Ending>,
    /// Whether any request but the handshake has been answered.
    useful: AtomicBool,
    /// Whether every request stands for itself: then the server asks nothing, and over HTTP a request is cancelled by
    /// hanging up.
    stateless: AtomicBool,
    counters: Arc<Counters>,
    started: Instant,
}

/// What callers tell the reader. A post is always made before its request is written, so the reader finds it in time.
enum Post {
    Expect(u64, Waiter),
    Forget(u64),
}

/// Who waits for an answer.
struct Waiter {
    answer: oneshot::Sender<Result<Json, Failure>>,
    /// Whether anybody wants to hear of progress.
    follows: bool,
    heard: Arc<Heard>,
    /// Until when it is waited for an answer that may have come already, unrecognised, and as what.
    suspected: Option<(Instant, Arc<str>)>,
}

/// Why there is no result.
enum Failure {
    Rpc(RpcError),
    Malformed(String),
    /// The server sent something that may have been the answer, and then nothing.
    Unanswered(String),
    Post(PostError),
    Closed,
    Ended,
}

impl Wire {
    /// Takes charge of an open connection.
    pub(crate) fn start(link: Link, setup: Setup) -> Self {
        let (out, lanes) = Out::new(link.outward);
        let at_once = if matches!(out, Out::Pipe(_)) { IN_FLIGHT } else { CONNECTIONS };
        let shared = Arc::new(Shared {
            next_id: AtomicU64::new(1),
            permits: Semaphore::new(at_once),
            posts: Queue::new(if matches!(out, Out::Pipe(_)) { POSTS } else { FEW_POSTS }),
            fresh: Mutex::default(),
            nudge: Notify::new(),
            out,
            clock: Clock::default(),
            closing: OnceLock::new(),
            ending: OnceLock::new(),
            useful: AtomicBool::new(false),
            stateless: AtomicBool::new(false),
            counters: Arc::clone(&setup.counters),
            started: Instant::now(),
        });
        let keeper = link.keeper;
        let mut tasks = JoinSet::new();
        let pump = Arc::clone(&shared);
        let limit = setup.write_limit;
        tasks.spawn(async move {
            pump.out.run(lanes, limit).await;
            pump.nudge.notify_one();
        });
        let (notices, told) = mpsc::channel(reader::NOTICES);
        let (all_told, heard_all) = oneshot::channel();
        tasks.spawn(notices::tell(told, Arc::clone(&setup.host), all_told));
        let reader = Reader::new(Arc::clone(&shared), Arc::clone(&keeper), (notices, heard_all), setup);
        tasks.spawn(reader.run(link.incoming));
        Self { line: Line { shared }, keeper, tasks: Mutex::new(tasks) }
    }

    /// A handle for who must not keep the connection alive.
    pub(crate) fn line(&self) -> Line {
        self.line.clone()
    }

    /// The server has lost the session this connection carries: nothing more is expected of it, but the calls that are
    /// under way may still be answered.
    pub(crate) fn retire(&self) {
        self.keeper.abandon();
    }

    /// What the server has said, for an error about it.
    pub(crate) fn evidence(&self) -> Evidence {
        match self.ending() {
            Some(ending) => ending.evidence.clone(),
            None => evidence(&*self.keeper, &self.shared.counters),
        }
    }

    /// Goes on with a session that the server keeps for us; `false` where there is no such thing.
    pub(crate) fn resume(&self, session: &str, revision: &str) -> bool {
        matches!(&self.shared.out, Out::Posts(lanes) if lanes.resume(session, revision))
    }

    /// The id under which a remote server keeps our session.
    pub(crate) fn session_id(&self) -> Option<String> {
        self.keeper.session_id()
    }

    /// Ends the connection in good order and waits until nothing of it is left.
    pub(crate) async fn close(&self) {
        let _ = self.shared.closing.set(());
        self.shared.out.close();
        // The reader ends the calls under way now, and goes on reading so that the server can finish what it writes.
        self.shared.nudge.notify_one();
        let _ = tokio::time::timeout(CLOSING, self.keeper.close()).await;
        self.shared.nudge.notify_one();
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        let ended = async { while self.shared.ending.get().is_none() && tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(FAREWELL, ended).await;
        tasks.shutdown().await;
    }
}

impl Deref for Wire {
    type Target = Line;

    fn deref(&self) -> &Line {
        &self.line
    }
}

impl Line {
    /// Sends a request and waits for its answer. Dropping the future cancels the request on the wire.
    ///
    /// `params` is given the request's id, which is also its progress token.
    pub(crate) fn request<'a, P: Serialize>(
        &'a self,
        asked: Asked<'a>,
        params: impl FnOnce(u64) -> P,
    ) -> impl Future<Output = Result<Json, CallErrorKind>> {
        // Taken apart here and not in the future, which would keep both the whole and its parts.
        let Asked { method, mut limits, headers, on_progress } = asked;
        async move {
            let shared = &*self.shared;
            let _permit = if let Ok(permit) = shared.permits.try_acquire() {
                permit
            } else {
                let asked = Instant::now();
                let permit = tokio::time::timeout(limits.shortest(), shared.permits.acquire()).await;
                // Waiting for one's turn is part of the whole.
                limits.total = limits.total.map(|total| total.saturating_sub(asked.elapsed()));
                permit.ok().and_then(Result::ok).ok_or(CallErrorKind::Busy)?
            };
            if shared.ending.get().is_some() || shared.closing.get().is_some() {
                return Err(CallErrorKind::Connect(self.not_sent()));
            }
            let id = shared.next_id.fetch_add(1, Ordering::Relaxed);
            let (answer, receiver) = oneshot::channel();
            let heard = Arc::new(Heard { at: AtomicU64::new(shared.running_time()), ..Heard::default() });
            let waiter = Waiter { answer, follows: on_progress.is_some(), heard: Arc::clone(&heard), suspected: None };
            match &shared.out {
                Out::Pipe(_) => shared.posts.push(Post::Expect(id, waiter)).map_err(|_| CallErrorKind::Busy)?,
                Out::Posts(_) => drop(shared.fresh().insert(id, waiter)),
            }
            // From here on the request counts as under way: if we are dropped, the server is told.
            let handshake = method == "initialize";
            let greeting = handshake || method == "server/discover";
            let hangs_up = self.takes_headers() && shared.stateless.load(Ordering::Relaxed);
            let mut in_flight =
                InFlight { shared, id, forgotten: false, answered: false, cancels: !greeting && !hangs_up };
            let message = write(Some(id), method, Some(params(id)));
            let posting = match &shared.out {
                Out::Pipe(outbox) => {
                    outbox.post(message).map_err(|_| CallErrorKind::Busy)?;
                    None
                }
                Out::Posts(lanes) => {
                    Some(lanes.request(Posted { id, method, message, handshake, headers, heard: Arc::clone(&heard) }))
                }
            };
            // Either the reader finds our post when it ends, or we find its ending here.
            fence(Ordering::SeqCst);
            // Only a request that begins no session, and that the server has not begun to work on, can have met with a lost one.
            let mut begun = greeting;
            let answer = if shared.ending.get().is_some() {
                Err(Failure::Ended)
            } else if shared.closing.get().is_some() {
                Err(Failure::Closed)
            } else {
                let mut waiting = Waiting::new(shared, receiver, heard, limits, posting);
                let Answered { answer, by_reader, progressed } = waiting.answer(on_progress).await?;
                in_flight.forgotten = by_reader;
                // What an old server makes of the question of a modern client is no loss.
                begun = greeting || progressed;
                answer
            };
            in_flight.answered = !matches!(answer, Err(Failure::Unanswered(_) | Failure::Post(PostError::Lost(_))));
            if answer.is_ok() && !greeting {
                shared.useful.store(true, Ordering::Relaxed);
            }
            answer.map_err(|failure| self.no_result(failure, begun))
        }
    }

    /// Whether the connection has been of any use beyond its handshake.
    pub(crate) fn was_useful(&self) -> bool {
        self.shared.useful.load(Ordering::Relaxed)
    }

    /// Sends a notification and, where the transport can tell, waits until the server has taken it. One that cannot
    /// leave a pipe is lost with its connection.
    pub(crate) async fn tell(&self, method: &str, params: Option<&Json>) -> Result<(), CallErrorKind> {
        let message = write(None, method, params);
        match &self.shared.out {
            Out::Posts(_) if self.shared.closing.get().is_some() => Err(CallErrorKind::Connect(self.not_sent())),
            Out::Posts(lanes) => lanes.tell(method, message).await.map_err(|error| match self.shared.closing.get() {
                // What the server makes of a session that we have ended is no news.
                Some(()) => CallErrorKind::Closed,
                None => no_reply(error),
            }),
            Out::Pipe(outbox) => {
                let _ = outbox.post(message);
                Ok(())
            }
        }
    }

    /// The server speaks this revision, in a session.
    pub(crate) fn greeted(&self, revision: &str) {
        if let Out::Posts(lanes) = &self.shared.out {
            lanes.greeted(revision);
        }
    }

    /// From now on every request stands for itself, in this revision; with `None`, no longer.
    pub(crate) fn stand_alone(&self, revision: Option<&str>) {
        self.shared.stateless.store(revision.is_some(), Ordering::Relaxed);
        if let Out::Posts(lanes) = &self.shared.out {
            lanes.stand_alone(revision);
        }
    }

    /// Whether requests have headers.
    pub(crate) fn takes_headers(&self) -> bool {
        self.renews()
    }

    /// The time by which calls are measured: it stands still while the host is being asked.
    pub(crate) fn running_time(&self) -> Duration {
        Duration::from_millis(self.shared.running_time())
    }

    /// Stops that time for as long as what is returned lives.
    pub(crate) fn pause(&self) -> Paused<'_> {
        self.shared.clock.pause()
    }

    /// The handshake is over.
    pub(crate) fn listen(&self) {
        if let Out::Posts(lanes) = &self.shared.out {
            lanes.listen();
        }
    }

    /// Whether a new session needs nothing but a handshake.
    pub(crate) fn renews(&self) -> bool {
        matches!(&self.shared.out, Out::Posts(lanes) if lanes.renews())
    }

    /// Whether requests and answers go separate ways, of which one can be dead while the other works.
    pub(crate) fn answers_apart(&self) -> bool {
        matches!(&self.shared.out, Out::Posts(lanes) if !lanes.renews())
    }

    /// How the connection ended, if it has.
    pub(crate) fn ending(&self) -> Option<&Ending> {
        self.shared.ending.get()
    }

    fn no_result(&self, failure: Failure, begun: bool) -> CallErrorKind {
        match failure {
            Failure::Rpc(error) if !begun && self.has_lost(&error) => {
                CallErrorKind::SessionLost { code: error.code, message: error.message }
            }
            Failure::Rpc(RpcError { code, message, data }) => CallErrorKind::Server { code, message, data },
            Failure::Post(error) => no_reply(error),
            Failure::Malformed(reason) => CallErrorKind::Malformed(reason),
            Failure::Unanswered(reason) => CallErrorKind::Unanswered(reason),
            Failure::Closed => CallErrorKind::Closed,
            Failure::Ended => match self.shared.ending.get() {
                Some(ending) if ending.closed => CallErrorKind::Closed,
                Some(ending) => CallErrorKind::Lost(ending.reason.clone()),
                None => CallErrorKind::Lost("lost the connection".to_owned()),
            },
        }
    }

    /// Whether an error means that the server no longer speaks with us as it did. One behind a pipe has no session of ours
    /// to lose while the pipe lives.
    fn has_lost(&self, error: &RpcError) -> bool {
        let stateless = self.takes_headers() && self.shared.stateless.load(Ordering::Relaxed);
        let session = self.shared.out.has_session() || stateless;
        // The code alone may be the server's own; with the revisions it speaks it can only mean this.
        let outgrown = error.code == UNSUPPORTED_VERSION && error.data.as_ref().and_then(supported).is_some();
        outgrown || (session && session_loss(error.code, &error.message))
    }

    fn not_sent(&self) -> ConnectErrorKind {
        match self.shared.ending.get() {
            Some(ending) if ending.closed => ConnectErrorKind::Closed,
            Some(ending) => ConnectErrorKind::Transport(format!("the server {}", ending.reason)),
            None => ConnectErrorKind::Closed,
        }
    }
}

fn no_reply(error: PostError) -> CallErrorKind {
    match error {
        PostError::NotSent(reason) => CallErrorKind::Connect(ConnectErrorKind::Transport(reason)),
        PostError::Unusable(reason) => CallErrorKind::Connect(ConnectErrorKind::Unusable(reason)),
        PostError::Untrusted(reason) => CallErrorKind::Connect(ConnectErrorKind::Untrusted(reason)),
        PostError::SessionLost { code, message } => CallErrorKind::SessionLost { code, message },
        PostError::Auth(auth) => CallErrorKind::Connect(ConnectErrorKind::Auth(auth)),
        PostError::Status(status) => CallErrorKind::Http(status),
        PostError::Lost(reason) => CallErrorKind::Lost(reason),
        PostError::Malformed(reason) => CallErrorKind::Malformed(reason),
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.keeper.abandon();
    }
}

impl Shared {
    fn fresh(&self) -> MutexGuard<'_, HashMap<u64, Waiter>> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since the connection started, less those in which the host was being asked.
    fn running_time(&self) -> u64 {
        let running = self.started.elapsed().saturating_sub(self.clock.paused());
        u64::try_from(running.as_millis()).unwrap_or(u64::MAX)
    }
}

impl Limits {
    fn shortest(self) -> Duration {
        self.total.map_or(self.idle, |total| total.min(self.idle)).min(NEVER)
    }

    /// A limit for the whole raises the one for its beginning, and never lowers it.
    fn first_byte(self) -> Duration {
        self.first_byte.max(self.total.unwrap_or_default())
    }
}

/// A request under way. Dropping it before it was answered makes the reader forget it and cancels it on the wire.
struct InFlight<'a> {
    shared: &'a Shared,
    id: u64,
    /// Whether the reader knows that it is over.
    forgotten: bool,
    answered: bool,
    /// Greetings are the requests that must not be cancelled, and those that are cancelled by hanging up.
    cancels: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        // Who was never known to the reader need not be forgotten by it.
        if !self.forgotten && self.shared.fresh().remove(&self.id).is_none() {
            let _ = self.shared.posts.push(Post::Forget(self.id));
            self.shared.nudge.notify_one();
        }
        if self.cancels && !self.answered {
            let params = serde_json::json!({ "requestId": self.id, "reason": "the caller no longer waits" });
            let _ = self.shared.out.post(write(None, "notifications/cancelled", Some(params)));
        }
    }
}

fn evidence(keeper: &dyn PeerHandle, counters: &Counters) -> Evidence {
    let words = keeper.last_words();
    Evidence { exit: words.exit, stderr: words.stderr, noise: counters.last_noise() }
}
