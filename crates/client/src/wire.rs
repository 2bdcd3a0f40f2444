//! One connection: requests out, answers in, notifications in their order, and an end that everybody hears of.
//!
//! The path of a request: the caller posts whom to wake ([`Post`]), writes its line itself ([`Outbox`]), and waits. The
//! reader, one task, owns the table of who waits; it reads the answer and wakes the caller. No lock is waited for and
//! no task stands between.

mod clock;
mod find_id;
mod message;
mod outbox;
mod questions;
mod reader;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crossbeam_queue::ArrayQueue;
use serde::Serialize;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use wharf_protocol::Json;

use crate::health::Counters;
use crate::transport::{Keeper, Link};
use crate::{CallErrorKind, Deadline, Evidence, Host, Notice, Progress};
use clock::Clock;
use message::{RpcError, write};
use outbox::Outbox;
use reader::Reader;

/// Requests that may be under way on one connection; further ones wait for their turn.
const IN_FLIGHT: usize = 1024;
/// Posts to the reader that may wait; enough for all requests to come and to go.
const POSTS: usize = 4 * IN_FLIGHT;
/// Progress messages that may wait for one caller; more are dropped.
const PROGRESS: usize = 256;
/// How long the reader may take to see the end of a connection that is being closed.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long a transport may take to close its far end.
const CLOSING: Duration = Duration::from_secs(10 * 60);
/// Longer than any deadline that means something, and short enough to be added to any point in time.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Receives the progress of one call, in the caller's own task.
pub(crate) type OnProgress<'a> = &'a mut (dyn FnMut(Progress) + Send);

/// Hears of the end of a connection, and returns what must live until everybody else has heard of it.
pub(crate) type OnEnd = Box<dyn FnOnce(&Ending) -> Option<Arc<dyn Send + Sync>> + Send>;

/// What a connection needs to know of its session.
pub(crate) struct Setup {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) counters: Arc<Counters>,
    /// Sees every notice before the host does.
    pub(crate) on_notice: Box<dyn Fn(&Notice) + Send>,
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

/// One living, or dead, connection.
pub(crate) struct Wire {
    shared: Arc<Shared>,
    keeper: Arc<dyn Keeper>,
    permits: Semaphore,
    tasks: Mutex<JoinSet<()>>,
}

/// What callers and the reader share.
struct Shared {
    next_id: AtomicU64,
    posts: ArrayQueue<Post>,
    /// Wakes the reader when there is something to do besides reading.
    nudge: Notify,
    outbox: Outbox,
    clock: Clock,
    /// Our own wish to end.
    closing: OnceLock<()>,
    ending: OnceLock<Ending>,
    /// Whether any request but the handshake has been answered.
    useful: AtomicBool,
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
    progress: Option<mpsc::Sender<Progress>>,
    /// When progress was last heard of, by the clock that stands still while the host is asked, in milliseconds.
    heard: Arc<AtomicU64>,
    /// Until when it is waited for an answer that may have come already, unrecognised, and as what.
    suspected: Option<(Instant, Arc<str>)>,
}

/// Why there is no result.
enum Failure {
    Rpc(RpcError),
    Malformed(String),
    /// The server sent something that may have been the answer, and then nothing.
    Unanswered(String),
    Closed,
    Ended,
}

impl Wire {
    /// Takes charge of an open connection.
    pub(crate) fn start(link: Link, setup: Setup) -> Self {
        let shared = Arc::new(Shared {
            next_id: AtomicU64::new(1),
            posts: ArrayQueue::new(POSTS),
            nudge: Notify::new(),
            outbox: Outbox::new(link.outgoing, link.written),
            clock: Clock::default(),
            closing: OnceLock::new(),
            ending: OnceLock::new(),
            useful: AtomicBool::new(false),
            counters: Arc::clone(&setup.counters),
            started: Instant::now(),
        });
        let keeper = link.keeper;
        let mut tasks = JoinSet::new();
        let pump = Arc::clone(&shared);
        let limit = setup.write_limit;
        tasks.spawn(async move {
            pump.outbox.pump(limit).await;
            pump.nudge.notify_one();
        });
        let (notices, told) = mpsc::channel(reader::NOTICES);
        let (all_told, heard_all) = oneshot::channel();
        tasks.spawn(tell(told, Arc::clone(&setup.host), all_told));
        let reader = Reader::new(Arc::clone(&shared), Arc::clone(&keeper), (notices, heard_all), setup);
        tasks.spawn(reader.run(link.incoming));
        Self { shared, keeper, permits: Semaphore::new(IN_FLIGHT), tasks: Mutex::new(tasks) }
    }

    /// Sends a request and waits for its answer. Dropping the future cancels the request on the wire.
    ///
    /// `params` is given the request's id, which is also its progress token.
    pub(crate) async fn request<P: Serialize>(
        &self,
        method: &'static str,
        params: impl FnOnce(u64) -> P,
        limits: Limits,
        on_progress: Option<OnProgress<'_>>,
    ) -> Result<Json, CallErrorKind> {
        let (shared, mut limits) = (&*self.shared, limits);
        let _permit = if let Ok(permit) = self.permits.try_acquire() {
            permit
        } else {
            let asked = Instant::now();
            let permit = tokio::time::timeout(limits.shortest(), self.permits.acquire()).await;
            // Waiting for one's turn is part of the whole.
            limits.total = limits.total.map(|total| total.saturating_sub(asked.elapsed()));
            permit.ok().and_then(Result::ok).ok_or(CallErrorKind::Busy)?
        };
        if shared.ending.get().is_some() || shared.closing.get().is_some() {
            return Err(CallErrorKind::Connect(self.not_sent()));
        }
        let id = shared.next_id.fetch_add(1, Ordering::Relaxed);
        let (answer, receiver) = oneshot::channel();
        let heard = Arc::new(AtomicU64::new(shared.running_time()));
        let (progress, on_progress) = match on_progress {
            Some(on_progress) => {
                let (sender, receiver) = mpsc::channel(PROGRESS);
                (Some(sender), Some((receiver, on_progress)))
            }
            None => (None, None),
        };
        let waiter = Waiter { answer, progress, heard: Arc::clone(&heard), suspected: None };
        shared.posts.push(Post::Expect(id, waiter)).map_err(|_| CallErrorKind::Busy)?;
        // From here on the request counts as under way: if we are dropped, the server is told.
        let handshake = method == "initialize";
        let mut in_flight = InFlight { shared, id, answered: false, cancels: !handshake };
        shared.outbox.post(write(Some(id), method, Some(params(id)))).map_err(|_| CallErrorKind::Busy)?;
        // Either the reader finds our post when it ends, or we find its ending here.
        fence(Ordering::SeqCst);
        let answer = if shared.ending.get().is_some() {
            Err(Failure::Ended)
        } else if shared.closing.get().is_some() {
            Err(Failure::Closed)
        } else {
            Waiting { shared, receiver, heard, limits }.answer(on_progress).await?
        };
        in_flight.answered = !matches!(answer, Err(Failure::Unanswered(_)));
        if answer.is_ok() && !handshake {
            shared.useful.store(true, Ordering::Relaxed);
        }
        answer.map_err(|failure| self.no_result(failure))
    }

    /// Whether the connection has been of any use beyond its handshake.
    pub(crate) fn was_useful(&self) -> bool {
        self.shared.useful.load(Ordering::Relaxed)
    }

    /// Sends a notification; one that cannot leave is lost with its connection.
    pub(crate) fn notify(&self, method: &str, params: Option<&Json>) {
        let _ = self.shared.outbox.post(write(None, method, params));
    }

    /// How the connection ended, if it has.
    pub(crate) fn ending(&self) -> Option<&Ending> {
        self.shared.ending.get()
    }

    /// What the server has said, for an error about it.
    pub(crate) fn evidence(&self) -> Evidence {
        match self.ending() {
            Some(ending) => ending.evidence.clone(),
            None => evidence(&*self.keeper, &self.shared.counters),
        }
    }

    /// The id under which a remote server keeps our session.
    pub(crate) fn session_id(&self) -> Option<String> {
        self.keeper.session_id()
    }

    /// Ends the connection in good order and waits until nothing of it is left.
    pub(crate) async fn close(&self) {
        let _ = self.shared.closing.set(());
        self.shared.outbox.close();
        // The reader ends the calls under way now, and goes on reading so that the server can finish what it writes.
        self.shared.nudge.notify_one();
        let _ = tokio::time::timeout(CLOSING, self.keeper.close()).await;
        self.shared.nudge.notify_one();
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        let ended = async { while self.shared.ending.get().is_none() && tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(FAREWELL, ended).await;
        tasks.shutdown().await;
    }

    fn no_result(&self, failure: Failure) -> CallErrorKind {
        match failure {
            Failure::Rpc(RpcError { code, message, data }) => CallErrorKind::Server { code, message, data },
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

    fn not_sent(&self) -> crate::ConnectErrorKind {
        match self.shared.ending.get() {
            Some(ending) if ending.closed => crate::ConnectErrorKind::Closed,
            Some(ending) => crate::ConnectErrorKind::Transport(format!("the server {}", ending.reason)),
            None => crate::ConnectErrorKind::Closed,
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.keeper.abandon();
    }
}

impl Shared {
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
}

/// A request under way. Dropping it before it was answered makes the reader forget it and cancels it on the wire.
struct InFlight<'a> {
    shared: &'a Shared,
    id: u64,
    answered: bool,
    /// The handshake is the one request that must not be cancelled.
    cancels: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let _ = self.shared.posts.push(Post::Forget(self.id));
        self.shared.nudge.notify_one();
        if self.cancels {
            let params = serde_json::json!({ "requestId": self.id, "reason": "the caller no longer waits" });
            let _ = self.shared.outbox.post(write(None, "notifications/cancelled", Some(params)));
        }
    }
}

/// Waits for one answer.
struct Waiting<'a> {
    shared: &'a Shared,
    receiver: oneshot::Receiver<Result<Json, Failure>>,
    heard: Arc<AtomicU64>,
    limits: Limits,
}

impl Waiting<'_> {
    async fn answer(
        mut self,
        mut on_progress: Option<(mpsc::Receiver<Progress>, OnProgress<'_>)>,
    ) -> Result<Result<Json, Failure>, CallErrorKind> {
        let began = Duration::from_millis(self.heard.load(Ordering::Relaxed));
        let alarm = tokio::time::sleep(self.limits.shortest());
        tokio::pin!(alarm);
        loop {
            tokio::select! {
                biased;
                answer = &mut self.receiver => {
                    if let Some((progress, on_progress)) = &mut on_progress {
                        while let Ok(step) = progress.try_recv() {
                            on_progress(step);
                        }
                    }
                    return Ok(answer.unwrap_or(Err(Failure::Ended)));
                }
                () = async { alarm.as_mut().await; self.shared.clock.running().await } => {
                    let (left, missed) = self.left(began);
                    if left.is_zero() {
                        return Err(missed);
                    }
                    alarm.as_mut().reset(Instant::now() + left);
                }
                Some(step) = next(&mut on_progress) => {
                    if let Some((_, on_progress)) = &mut on_progress {
                        on_progress(step);
                    }
                }
            }
        }
    }

    /// How long waiting goes on, and what is to be said when it ends. All by the clock that stands still while the host
    /// is being asked; progress moves the idle deadline, never the total one.
    fn left(&self, began: Duration) -> (Duration, CallErrorKind) {
        let now = Duration::from_millis(self.shared.running_time());
        let heard = Duration::from_millis(self.heard.load(Ordering::Relaxed));
        let until = |from: Duration, limit: Duration| (from + limit.min(NEVER)).saturating_sub(now);
        let missed = |deadline, after| CallErrorKind::Timeout { deadline, after };
        let idle_left = until(began.max(heard), self.limits.idle);
        match self.limits.total.map(|total| (until(began, total), total)) {
            Some((left, total)) if left <= idle_left => (left, missed(Deadline::Total, total)),
            _ => (idle_left, missed(Deadline::Idle, self.limits.idle)),
        }
    }
}

async fn next(on_progress: &mut Option<(mpsc::Receiver<Progress>, OnProgress<'_>)>) -> Option<Progress> {
    match on_progress {
        Some((receiver, _)) => receiver.recv().await,
        None => None,
    }
}

/// Hands notices to the host, one after the other, and says when there will be no more.
async fn tell(mut notices: mpsc::Receiver<Notice>, host: Arc<dyn Host>, all_told: oneshot::Sender<()>) {
    while let Some(notice) = notices.recv().await {
        host.notice(notice);
    }
    let _ = all_told.send(());
}

fn evidence(keeper: &dyn Keeper, counters: &Counters) -> Evidence {
    let words = keeper.last_words();
    Evidence { exit: words.exit, stderr: words.stderr, noise: counters.last_noise() }
}
