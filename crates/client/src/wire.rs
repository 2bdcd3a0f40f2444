//! One connection: sends requests, matches answers, delivers notifications in order, and reports the end.
//!
//! A request over a pipe takes this path: the caller registers itself with the reader ([`ReaderCommand`]), writes its
//! message itself ([`outbox::Outbox`]), and waits. The reader, one task, owns the table of waiting callers; it parses
//! the answer and wakes the caller. Callers never wait for a lock or for another task. Over HTTP the caller sends its
//! request and reads the answer itself; the reader handles only the other messages.

mod answer_wait;
mod clock;
mod host_request;
mod notifications;
mod out;
mod outbox;
mod queue;
mod reader;

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
use crate::jsonrpc::{RpcError, write};
use crate::transport::{Link, OutgoingRequest, PeerHandle, PostError, RequestActivity, session_loss};
use crate::{CallErrorKind, ConnectErrorKind, Evidence, Host, Notification, Progress};
use answer_wait::{AnswerWait, ReceivedAnswer};
pub use clock::{PausableClock, Paused};
pub(crate) use host_request::HostRequest;
use out::Out;
use queue::Queue;
use reader::{NotificationQueue, Reader};

/// The maximum number of requests in flight on a pipe. Others wait.
const MAX_IN_FLIGHT: usize = 1024;
/// The maximum number of requests in flight over HTTP, where each needs its own connection.
const MAX_CONNECTIONS: usize = 256;
/// The capacity of the reader's command queue: enough to register and remove all requests twice.
const COMMAND_CAPACITY: usize = 4 * MAX_IN_FLIGHT;
/// The same over HTTP, where few requests involve the reader.
const HTTP_COMMAND_CAPACITY: usize = 4 * MAX_CONNECTIONS;
/// Time for the reader to notice the end of a connection that is being closed.
const READER_END_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for a transport to close its far end.
const PEER_CLOSE_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Longer than any meaningful deadline, and short enough to add to any point in time.
pub(crate) const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Receives the progress of one call in the caller's task.
pub(crate) type OnProgress<'a> = &'a mut (dyn FnMut(Progress) + Send);

/// Called when the connection ends. The returned value is dropped after all waiting callers were woken.
pub(crate) type OnEnd = Box<dyn FnOnce(&Ending) -> Option<Arc<dyn Send + Sync>> + Send>;

/// What a connection needs of its session.
pub(crate) struct Setup {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) counters: Arc<Counters>,
    /// Filters notifications before the host receives them. The second argument is the subscription that a notification
    /// names.
    pub(crate) on_notification: Box<dyn Fn(Notification, Option<u64>) -> Vec<Notification> + Send>,
    pub(crate) on_end: OnEnd,
    /// How long a pipe may stay full.
    pub(crate) write_limit: Duration,
    /// How long the host may take to answer the server.
    pub(crate) answer_limit: Duration,
}

/// The time limits of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) idle: Duration,
    pub(crate) total: Option<Duration>,
    /// For the first byte of the answer, over transports that can tell.
    pub(crate) first_byte: Duration,
}

/// A request as the session sends it.
pub(crate) struct WireRequest<'a> {
    pub(crate) method: &'static str,
    pub(crate) limits: Limits,
    /// Extra headers for this request, if the transport has headers.
    pub(crate) headers: Option<Arc<http::HeaderMap>>,
    pub(crate) on_progress: Option<OnProgress<'a>>,
}

impl WireRequest<'_> {
    pub(crate) fn new(method: &'static str, limits: Limits) -> Self {
        Self { method, limits, headers: None, on_progress: None }
    }
}

/// How a connection ended.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    /// What happened, as a predicate of "the server".
    pub(crate) reason: String,
    /// Whether the client closed it.
    pub(crate) closed: bool,
    pub(crate) evidence: Evidence,
}

/// A connection, open or ended. Dropping it abandons the far end.
pub(crate) struct Wire {
    handle: WireHandle,
    peer: Arc<dyn PeerHandle>,
    tasks: Mutex<JoinSet<()>>,
}

/// A handle for sending requests that does not keep the connection alive.
#[derive(Clone)]
pub(crate) struct WireHandle {
    shared: Arc<Shared>,
}

/// The state that callers and the reader share.
struct Shared {
    next_id: AtomicU64,
    /// Limits the requests in flight.
    permits: Semaphore,
    commands: Queue<ReaderCommand>,
    /// Waiting callers that the reader does not know yet. Over HTTP callers read most answers themselves, so that the
    /// reader need not know them.
    unregistered: Mutex<HashMap<u64, Waiter>>,
    /// Wakes the reader for work other than reading.
    wake_reader: Notify,
    out: Out,
    clock: PausableClock,
    /// Set when the client closes the connection.
    closing: OnceLock<()>,
    ending: OnceLock<Ending>,
    /// Whether a request other than the handshake was answered.
    useful: AtomicBool,
    /// Whether requests are self-contained. Then the server sends no requests, and over HTTP a request is canceled by
    /// disconnecting.
    stateless: AtomicBool,
    counters: Arc<Counters>,
    started: Instant,
}

/// A caller's command to the reader. It is queued before the request is written, so that the reader sees it in time.
enum ReaderCommand {
    Expect(u64, Waiter),
    Forget(u64),
}

/// A caller that waits for an answer.
struct Waiter {
    answer: oneshot::Sender<Result<Json, Failure>>,
    /// Whether the caller receives progress.
    wants_progress: bool,
    activity: Arc<RequestActivity>,
    /// Set when the server sent a message that may have been the answer.
    suspected: Option<Suspicion>,
}

/// A message without a usable id that may have been the answer.
#[derive(Clone)]
struct Suspicion {
    /// When the call fails unless a proper answer arrives.
    until: Instant,
    /// What the server sent.
    reason: Arc<str>,
}

/// Why a request has no result.
enum Failure {
    Rpc(RpcError),
    Malformed(String),
    /// The server sent a message that may have been the answer, and nothing after it.
    Unanswered(String),
    Send(PostError),
    Closed,
    Ended,
}

impl Wire {
    /// Starts the tasks of an open connection.
    pub(crate) fn start(link: Link, setup: Setup) -> Self {
        let (out, queued_posts) = Out::new(link.outward);
        let (max_in_flight, command_capacity) = match out {
            Out::Pipe(_) => (MAX_IN_FLIGHT, COMMAND_CAPACITY),
            Out::Requests(_) => (MAX_CONNECTIONS, HTTP_COMMAND_CAPACITY),
        };
        let shared = Arc::new(Shared {
            next_id: AtomicU64::new(1),
            permits: Semaphore::new(max_in_flight),
            commands: Queue::new(command_capacity),
            unregistered: Mutex::default(),
            wake_reader: Notify::new(),
            out,
            clock: PausableClock::default(),
            closing: OnceLock::new(),
            ending: OnceLock::new(),
            useful: AtomicBool::new(false),
            stateless: AtomicBool::new(false),
            counters: Arc::clone(&setup.counters),
            started: Instant::now(),
        });
        let peer = link.peer;
        let mut tasks = JoinSet::new();
        let pump = Arc::clone(&shared);
        let limit = setup.write_limit;
        tasks.spawn(async move {
            pump.out.run(queued_posts, limit).await;
            pump.wake_reader.notify_one();
        });
        let (sender, receiver) = mpsc::channel(reader::MAX_QUEUED_NOTIFICATIONS);
        let (all_delivered, delivered) = oneshot::channel();
        tasks.spawn(notifications::deliver(receiver, Arc::clone(&setup.host), all_delivered));
        let notifications = NotificationQueue { sender, delivered };
        let reader = Reader::new(Arc::clone(&shared), Arc::clone(&peer), notifications, setup);
        tasks.spawn(reader.run(link.incoming));
        Self { handle: WireHandle { shared }, peer, tasks: Mutex::new(tasks) }
    }

    /// Returns a handle that does not keep the connection alive.
    pub(crate) fn handle(&self) -> WireHandle {
        self.handle.clone()
    }

    /// Stops using the server's session, which it has lost. Calls in flight may still be answered.
    pub(crate) fn retire(&self) {
        self.peer.abandon();
    }

    /// Returns the server's last output, to include in errors.
    pub(crate) fn evidence(&self) -> Evidence {
        match self.ending() {
            Some(ending) => ending.evidence.clone(),
            None => evidence(&*self.peer, &self.shared.counters),
        }
    }

    /// Resumes a session on the server. Returns `false` if the transport has no sessions.
    pub(crate) fn resume(&self, session: &str, revision: &str) -> bool {
        matches!(&self.shared.out, Out::Requests(queues) if queues.resume(session, revision))
    }

    /// Returns the session id that a remote server assigned.
    pub(crate) fn session_id(&self) -> Option<String> {
        self.peer.session_id()
    }

    /// Closes the connection gracefully and waits until all its tasks have ended.
    pub(crate) async fn close(&self) {
        let _ = self.shared.closing.set(());
        self.shared.out.close();
        // The reader fails the calls in flight now, and continues reading so that the server can finish writing.
        self.shared.wake_reader.notify_one();
        let _ = tokio::time::timeout(PEER_CLOSE_TIMEOUT, self.peer.close()).await;
        self.shared.wake_reader.notify_one();
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        let ended = async { while self.shared.ending.get().is_none() && tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(READER_END_TIMEOUT, ended).await;
        tasks.shutdown().await;
    }
}

impl Deref for Wire {
    type Target = WireHandle;

    fn deref(&self) -> &WireHandle {
        &self.handle
    }
}

impl WireHandle {
    /// Sends a request and waits for its answer. Dropping the future cancels the request.
    ///
    /// `params` receives the request's id, which is also its progress token.
    pub(crate) fn request<'a, P: Serialize>(
        &'a self,
        request: WireRequest<'a>,
        params: impl FnOnce(u64) -> P,
    ) -> impl Future<Output = Result<Json, CallErrorKind>> {
        // Destructured outside the future, which would otherwise store both the struct and its fields.
        let WireRequest { method, mut limits, headers, on_progress } = request;
        async move {
            let shared = &*self.shared;
            let _permit = if let Ok(permit) = shared.permits.try_acquire() {
                permit
            } else {
                let queued_at = Instant::now();
                let permit = tokio::time::timeout(limits.shortest(), shared.permits.acquire()).await;
                // The time in the queue counts toward the total limit.
                limits.total = limits.total.map(|total| total.saturating_sub(queued_at.elapsed()));
                permit.ok().and_then(Result::ok).ok_or(CallErrorKind::Busy)?
            };
            if shared.ending.get().is_some() || shared.closing.get().is_some() {
                return Err(CallErrorKind::Connect(self.send_error()));
            }
            let id = shared.next_id.fetch_add(1, Ordering::Relaxed);
            let (answer, receiver) = oneshot::channel();
            let activity = Arc::new(RequestActivity::starting_at(shared.running_time()));
            let waiter = Waiter {
                answer,
                wants_progress: on_progress.is_some(),
                activity: Arc::clone(&activity),
                suspected: None,
            };
            match &shared.out {
                Out::Pipe(_) => {
                    shared.commands.push(ReaderCommand::Expect(id, waiter)).map_err(|_| CallErrorKind::Busy)?;
                }
                Out::Requests(_) => drop(shared.unregistered().insert(id, waiter)),
            }
            // From here on the request is in flight: dropping the future cancels it on the server.
            let is_initialize = method == "initialize";
            let is_handshake = is_initialize || method == "server/discover";
            let cancels_by_disconnect = self.supports_headers() && shared.stateless.load(Ordering::Relaxed);
            let mut in_flight = InFlight {
                shared,
                id,
                removed_by_reader: false,
                answered: false,
                sends_cancel: !is_handshake && !cancels_by_disconnect,
            };
            let message = write(Some(id), method, Some(params(id)));
            let sending = match &shared.out {
                Out::Pipe(outbox) => {
                    outbox.post(message).map_err(|_| CallErrorKind::Busy)?;
                    None
                }
                Out::Requests(queues) => {
                    let activity = Arc::clone(&activity);
                    Some(queues.request(OutgoingRequest { id, method, message, is_initialize, headers, activity }))
                }
            };
            // Either the ending reader sees our command, or we see its ending here.
            fence(Ordering::SeqCst);
            // A handshake, and a request that the server has started to work on, cannot fail because of a lost session.
            let mut started = is_handshake;
            let answer = if shared.ending.get().is_some() {
                Err(Failure::Ended)
            } else if shared.closing.get().is_some() {
                Err(Failure::Closed)
            } else {
                let mut waiting = AnswerWait::new(shared, receiver, activity, limits, sending);
                let ReceivedAnswer { answer, by_reader, progressed } = waiting.answer(on_progress).await?;
                in_flight.removed_by_reader = by_reader;
                started = is_handshake || progressed;
                answer
            };
            in_flight.answered = !matches!(answer, Err(Failure::Unanswered(_) | Failure::Send(PostError::Lost(_))));
            if answer.is_ok() && !is_handshake {
                shared.useful.store(true, Ordering::Relaxed);
            }
            answer.map_err(|failure| self.call_error_kind(failure, started))
        }
    }

    /// Returns whether a request other than the handshake was answered.
    pub(crate) fn was_useful(&self) -> bool {
        self.shared.useful.load(Ordering::Relaxed)
    }

    /// Sends a notification. Over HTTP, waits until the server has accepted it. On a pipe it is only queued, and lost if
    /// the connection ends before it is written.
    pub(crate) async fn notify(&self, method: &str, params: Option<&Json>) -> Result<(), CallErrorKind> {
        let message = write(None, method, params);
        match &self.shared.out {
            Out::Requests(_) if self.shared.closing.get().is_some() => Err(CallErrorKind::Connect(self.send_error())),
            Out::Requests(queues) => {
                let sent = queues.notify(method, message).await;
                sent.map_err(|error| match self.shared.closing.get() {
                    // Errors of a session that the client is closing are expected.
                    Some(()) => CallErrorKind::Closed,
                    None => post_error_kind(error),
                })
            }
            Out::Pipe(outbox) => {
                let _ = outbox.post(message);
                Ok(())
            }
        }
    }

    /// Sets the protocol revision of the session, after the handshake.
    pub(crate) fn set_revision(&self, revision: &str) {
        if let Out::Requests(queues) = &self.shared.out {
            queues.set_revision(revision);
        }
    }

    /// Makes all further requests self-contained, in this revision. `None` reverts that.
    pub(crate) fn set_stateless(&self, revision: Option<&str>) {
        self.shared.stateless.store(revision.is_some(), Ordering::Relaxed);
        if let Out::Requests(queues) = &self.shared.out {
            queues.set_stateless(revision);
        }
    }

    /// Returns whether requests can carry headers.
    pub(crate) fn supports_headers(&self) -> bool {
        self.supports_rehandshake()
    }

    /// Returns the time since the connection started, without the time in which the host answered requests.
    pub(crate) fn running_time(&self) -> Duration {
        Duration::from_millis(self.shared.running_time())
    }

    /// Stops the running time until the returned guard is dropped.
    pub(crate) fn pause(&self) -> Paused<'_> {
        self.shared.clock.pause()
    }

    /// Opens the notification stream, after the handshake.
    pub(crate) fn start_listening(&self) {
        if let Out::Requests(queues) = &self.shared.out {
            queues.start_listening();
        }
    }

    /// Returns whether a handshake on this connection starts a new session.
    pub(crate) fn supports_rehandshake(&self) -> bool {
        matches!(&self.shared.out, Out::Requests(queues) if queues.supports_rehandshake())
    }

    /// Returns whether answers arrive on another stream than requests leave on, so that one can be dead alone.
    pub(crate) fn has_separate_answers(&self) -> bool {
        matches!(&self.shared.out, Out::Requests(queues) if !queues.supports_rehandshake())
    }

    /// Returns how the connection ended, if it has.
    pub(crate) fn ending(&self) -> Option<&Ending> {
        self.shared.ending.get()
    }

    fn call_error_kind(&self, failure: Failure, started: bool) -> CallErrorKind {
        match failure {
            Failure::Rpc(error) if !started && self.has_lost(&error) => {
                CallErrorKind::SessionLost { code: error.code, message: error.message }
            }
            Failure::Rpc(RpcError { code, message, data }) => CallErrorKind::Server { code, message, data },
            Failure::Send(error) => post_error_kind(error),
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

    /// Returns whether an error means that the server lost the session or no longer supports its revision. A server
    /// behind a pipe cannot lose the session while the pipe is open.
    fn has_lost(&self, error: &RpcError) -> bool {
        let stateless = self.supports_headers() && self.shared.stateless.load(Ordering::Relaxed);
        let session = self.shared.out.has_session() || stateless;
        // Servers may use the code for their own errors, but not with a list of supported revisions.
        let unsupported = error.code == UNSUPPORTED_VERSION && error.data.as_ref().and_then(supported).is_some();
        unsupported || (session && session_loss(error.code, &error.message))
    }

    fn send_error(&self) -> ConnectErrorKind {
        match self.shared.ending.get() {
            Some(ending) if ending.closed => ConnectErrorKind::Closed,
            Some(ending) => ConnectErrorKind::Transport(format!("the server {}", ending.reason)),
            None => ConnectErrorKind::Closed,
        }
    }
}

fn post_error_kind(error: PostError) -> CallErrorKind {
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
        self.peer.abandon();
    }
}

impl Shared {
    fn unregistered(&self) -> MutexGuard<'_, HashMap<u64, Waiter>> {
        self.unregistered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the running time in milliseconds.
    fn running_time(&self) -> u64 {
        let running = self.started.elapsed().saturating_sub(self.clock.paused());
        u64::try_from(running.as_millis()).unwrap_or(u64::MAX)
    }
}

impl Limits {
    fn shortest(self) -> Duration {
        self.total.map_or(self.idle, |total| total.min(self.idle)).min(NEVER)
    }

    /// Returns the first-byte limit, which a longer total limit raises.
    fn first_byte(self) -> Duration {
        self.first_byte.max(self.total.unwrap_or_default())
    }
}

/// A request in flight. Dropping it before it was answered removes it from the reader's table and cancels it.
struct InFlight<'a> {
    shared: &'a Shared,
    id: u64,
    /// Whether the reader has already removed it from its table.
    removed_by_reader: bool,
    answered: bool,
    /// Whether dropping sends a cancellation. Handshakes must not be canceled; self-contained HTTP requests are canceled
    /// by disconnecting.
    sends_cancel: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        // The reader need not remove what was never registered.
        if !self.removed_by_reader && self.shared.unregistered().remove(&self.id).is_none() {
            let _ = self.shared.commands.push(ReaderCommand::Forget(self.id));
            self.shared.wake_reader.notify_one();
        }
        if self.sends_cancel && !self.answered {
            let params = serde_json::json!({ "requestId": self.id, "reason": "the caller no longer waits" });
            let _ = self.shared.out.post(write(None, "notifications/cancelled", Some(params)));
        }
    }
}

fn evidence(peer: &dyn PeerHandle, counters: &Counters) -> Evidence {
    let info = peer.exit_info();
    Evidence {
        exit: info.exit,
        stderr: info.stderr,
        noise: counters.last_noise().map(Into::into),
        missing_variables: (!info.missing_variables.is_empty()).then(|| Arc::new(info.missing_variables)),
    }
}
