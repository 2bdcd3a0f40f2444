//! The task that reads a connection. It owns the table of waiting callers and reports the end of the connection.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::Instant;
use wharf_protocol::{Fields, Json};

use super::host_request::HostRequest;
use super::out::Out;
use super::{Ending, Failure, ReaderCommand, Setup, Shared, Suspicion, Waiter, evidence};
use crate::health::Counters;
use crate::jsonrpc::{self, FoundId, Message, RpcError, find_id, our_id, write_answer};
use crate::transport::{Frame, Incoming, PeerHandle, PostError};
use crate::{LogLevel, Notification, Progress};

/// The capacity of the host's notification queue. More are dropped and reported as [`Notification::Lagged`].
pub(super) const MAX_QUEUED_NOTIFICATIONS: usize = 1024;
/// The maximum number of the server's requests that the host answers at once. More are refused.
const MAX_HOST_REQUESTS: usize = 32;
/// Time for a proper answer after the server sent a message that may have been one.
const SUSPECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the rest of the input is read after the far end has terminated or the output has failed.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// How often commands are processed while no input arrives.
///
/// This timer also makes calls cheaper: without a pending timer, the runtime must be woken for every deadline that a
/// call sets, and those are almost always later than this one.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(30);
/// The `_meta` field of a notification that names its subscription.
const SUBSCRIPTION_ID_KEY: &str = "io.modelcontextprotocol/subscriptionId";
/// The number of frames after which other work gets a turn.
const FRAMES_PER_TURN: u32 = 256;

/// The queue of notifications for the host.
pub(super) struct NotificationQueue {
    pub(super) sender: mpsc::Sender<Notification>,
    /// Completes when the host has received all of them.
    pub(super) delivered: oneshot::Receiver<()>,
}

pub(super) struct Reader {
    shared: Arc<Shared>,
    peer: Arc<dyn PeerHandle>,
    setup: Setup,
    /// `None` after the connection ended.
    notifications: Option<NotificationQueue>,
    /// Notifications dropped since the last one was queued.
    dropped_notifications: u64,
    waiting: HashMap<u64, Waiter>,
    host_requests: JoinSet<()>,
    host_request_ids: HashMap<tokio::task::Id, (Json, AbortHandle)>,
    /// When the first suspected call fails.
    next_suspect_timeout: Option<Instant>,
    /// What is known about an overlong line that has not ended yet.
    long_line: Option<FoundId>,
    frames: u32,
}

impl Reader {
    pub(super) fn new(
        shared: Arc<Shared>,
        peer: Arc<dyn PeerHandle>,
        notifications: NotificationQueue,
        setup: Setup,
    ) -> Self {
        Self {
            shared,
            peer,
            setup,
            notifications: Some(notifications),
            dropped_notifications: 0,
            waiting: HashMap::new(),
            host_requests: JoinSet::new(),
            host_request_ids: HashMap::new(),
            next_suspect_timeout: None,
            long_line: None,
            frames: 0,
        }
    }

    pub(super) async fn run(mut self, incoming: Incoming) {
        let reason = self.read(incoming).await;
        let _live = self.end(reason);
        // The host receives everything that was sent before the end.
        if let Some(NotificationQueue { sender, delivered }) = self.notifications.take() {
            drop(sender);
            let _ = tokio::time::timeout(DRAIN_TIMEOUT, delivered).await;
        }
    }

    /// Reads until the connection ends. Returns the reason as a predicate of "the server".
    async fn read(&mut self, mut incoming: Incoming) -> String {
        let shared = Arc::clone(&self.shared);
        let peer = Arc::clone(&self.peer);
        let mut far_end = peer.ended();
        let mut far_end_gone = far_end.is_none();
        let mut last_read: Option<Instant> = None;
        let mut housekeeping = tokio::time::interval(HOUSEKEEPING_INTERVAL);
        let stream_end = loop {
            // A server that never pauses must not starve the other branches.
            let yields = self.frames >= FRAMES_PER_TURN;
            if yields {
                self.frames = 0;
                tokio::task::consume_budget().await;
            }
            let suspect_timeout = self.next_suspect_timeout;
            tokio::select! {
                biased;
                frame = incoming.next(), if !yields => match frame {
                    Some(Ok(frame)) => self.on_frame(frame),
                    Some(Err(error)) => break Some(format!("broke the connection ({error})")),
                    None => break Some("closed the connection".to_owned()),
                },
                () = wait_for_end(&mut far_end), if !far_end_gone => {
                    far_end_gone = true;
                    last_read = Some(Instant::now() + DRAIN_TIMEOUT);
                }
                () = shared.wake_reader.notified() => {
                    self.take_commands();
                    if shared.closing.get().is_some() {
                        self.release(|| Failure::Closed);
                        if !self.host_requests.is_empty() {
                            self.host_requests.abort_all();
                            self.peer.hurry();
                        }
                    }
                    if shared.out.failure().is_some() {
                        last_read.get_or_insert(Instant::now() + DRAIN_TIMEOUT);
                    }
                }
                _ = housekeeping.tick() => self.take_commands(),
                () = until(last_read), if last_read.is_some() => break None,
                () = until(suspect_timeout), if suspect_timeout.is_some() => self.expire_suspects(),
                Some(done) = self.host_requests.join_next_with_id(), if !self.host_requests.is_empty() => {
                    self.on_host_request_done(done);
                }
                () = std::future::ready(()), if yields => {}
            }
        };
        // The streams of a process often end just before the process, whose exit status is the better reason.
        if !far_end_gone {
            let _ = tokio::time::timeout(DRAIN_TIMEOUT, wait_for_end(&mut far_end)).await;
        }
        let exit_info = peer.exit_info();
        let stream_end = if exit_info.reason.is_none() { stream_end } else { None };
        match (exit_info.exit, stream_end, shared.out.failure()) {
            (Some(exit), _, _) => exit.to_string(),
            (None, Some(end), _) => end,
            (None, None, Some(failure)) => failure.to_owned(),
            (None, None, None) => exit_info.reason.unwrap_or_else(|| "closed the connection".to_owned()),
        }
    }

    /// Reports the end, first to the session, so that woken callers see its new state.
    fn end(&mut self, reason: String) -> Option<Arc<dyn Send + Sync>> {
        let closed = self.shared.closing.get().is_some();
        let shared = Arc::clone(&self.shared);
        let mut first = false;
        let ending = shared.ending.get_or_init(|| {
            first = true;
            Ending { reason, closed, evidence: evidence(&*self.peer, &shared.counters) }
        });
        if !first {
            return None;
        }
        // A far end that closed its streams but still runs is useless.
        if !closed {
            self.peer.abandon();
        }
        let on_end = std::mem::replace(&mut self.setup.on_end, Box::new(|_| None));
        let live = on_end(ending);
        // Either we see a caller's command now, or the caller sees the ending that was just set.
        fence(Ordering::SeqCst);
        self.take_commands();
        self.release(|| Failure::Ended);
        live
    }

    /// Fails all calls in flight.
    fn release(&mut self, failure: impl Fn() -> Failure) {
        for (_, waiter) in self.waiting.drain() {
            let _ = waiter.answer.send(Err(failure()));
        }
    }

    fn take_commands(&mut self) {
        if matches!(self.shared.out, Out::Requests(_)) {
            self.waiting.extend(self.shared.unregistered().drain());
        }
        while let Some(command) = self.shared.commands.pop() {
            match command {
                ReaderCommand::Expect(id, waiter) => self.waiting.insert(id, waiter),
                ReaderCommand::Forget(id) => self.waiting.remove(&id),
            };
        }
    }

    fn on_frame(&mut self, frame: Frame) {
        self.frames += 1;
        let text = match frame {
            Frame::Message(text) => text,
            Frame::AnswerTo(id, text) => return self.on_answer_to(id, text),
            Frame::Unreadable { head, tail, reason, ended } => {
                return self.on_unreadable(&head, &tail, reason, ended);
            }
        };
        let frame = jsonrpc::read(text);
        if let Some(noise) = frame.noise {
            self.shared.counters.record_noise(&noise);
        }
        frame.messages.into_iter().for_each(|message| self.on_message(message));
        for (text, reason) in frame.broken {
            self.on_unreadable(text.as_bytes(), b"", reason, true);
        }
    }

    /// Handles a frame that can only be the answer to this request, whatever id it has.
    fn on_answer_to(&mut self, id: u64, text: String) {
        let frame = jsonrpc::read(text);
        let ours = |message: &Message| matches!(message, Message::Answer { id: Some(given), .. } if *given == id);
        let addressed = frame.messages.iter().any(ours);
        for message in frame.messages {
            match message {
                // If a batch contains the answer with the right id, its other answers belong to other requests.
                Message::Answer { id: given, well_typed, answer } if addressed && given != Some(id) => {
                    self.on_answer(given, well_typed, answer);
                }
                Message::Answer { id: given, well_typed, answer } => {
                    if given != Some(id) || !well_typed {
                        Counters::add(&self.shared.counters.violations);
                    }
                    self.settle(id, answer.map_err(Failure::Rpc));
                }
                Message::Invalid { reason, .. } => {
                    Counters::add(&self.shared.counters.violations);
                    self.settle(id, Err(Failure::Malformed(reason)));
                }
                other => self.on_message(other),
            }
        }
        for (_, reason) in frame.broken {
            Counters::add(&self.shared.counters.violations);
            self.settle(id, Err(Failure::Malformed(reason)));
        }
    }

    /// Handles input that cannot be parsed. An overlong line arrives twice: when it passes the limit, and when it ends.
    /// Its call fails as soon as the id is found; only at the end of the line is it certain that it has none.
    fn on_unreadable(&mut self, head: &[u8], tail: &[u8], reason: String, ended: bool) {
        let before = self.long_line.take();
        let beginning = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head).trim_ascii_start();
        if !beginning.starts_with(b"{") && !beginning.starts_with(b"[") {
            if before.is_none() {
                self.shared.counters.record_noise(&String::from_utf8_lossy(head));
            }
            self.long_line = (!ended).then_some(FoundId::NotAnAnswer);
            return;
        }
        if before.is_none() {
            Counters::add(&self.shared.counters.violations);
        }
        let found = if let Some(settled @ (FoundId::AnswerTo(_) | FoundId::NotAnAnswer)) = before {
            settled
        } else {
            let found = find_id(head, tail);
            match found {
                FoundId::AnswerTo(id) => self.settle(id, Err(Failure::Malformed(reason))),
                FoundId::Unknown if ended => self.suspect(&format!("a line that cannot be read ({reason})")),
                FoundId::Unknown | FoundId::NotAnAnswer => {}
            }
            found
        };
        self.long_line = (!ended).then_some(found);
    }

    fn on_message(&mut self, message: Message) {
        match message {
            Message::Answer { id, well_typed, answer } => self.on_answer(id, well_typed, answer),
            Message::Invalid { id, reason } => {
                Counters::add(&self.shared.counters.violations);
                match id {
                    Some(id) => self.settle(id, Err(Failure::Malformed(reason))),
                    None => self.suspect(&format!("a message without an id ({reason})")),
                }
            }
            Message::Request { id, method, params } => self.on_request(id, &method, params),
            Message::Notification { method, params } => self.handle_notification(method, params),
        }
    }

    fn on_answer(&mut self, id: Option<u64>, well_typed: bool, answer: Result<Json, RpcError>) {
        if !well_typed {
            Counters::add(&self.shared.counters.violations);
        }
        match (id, answer) {
            (Some(id), answer) => self.settle(id, answer.map_err(Failure::Rpc)),
            (None, Err(error)) => self.suspect(&format!("error {}: {}", error.code, error.message)),
            (None, Ok(_)) => self.suspect("a result without an id"),
        }
    }

    fn settle(&mut self, id: u64, answer: Result<Json, Failure>) {
        if !self.waiting.contains_key(&id) {
            self.take_commands();
        }
        // If the caller has just stopped waiting, the answer counts as stray too.
        let settled = self.waiting.remove(&id).is_some_and(|waiter| waiter.answer.send(answer).is_ok());
        if !settled {
            Counters::add(&self.shared.counters.stray_answers);
        }
    }

    /// Handles a message without a usable id, which may have been the answer to any call in flight. Servers also send such
    /// errors for other reasons, so the calls get some time: an answer or progress clears the suspicion.
    fn suspect(&mut self, reason: &str) {
        self.take_commands();
        let suspicion = Suspicion { until: Instant::now() + SUSPECT_TIMEOUT, reason: reason.into() };
        for waiter in self.waiting.values_mut().filter(|waiter| waiter.suspected.is_none()) {
            waiter.suspected = Some(suspicion.clone());
            self.next_suspect_timeout.get_or_insert(suspicion.until);
        }
    }

    fn expire_suspects(&mut self) {
        let now = Instant::now();
        let expired = |waiter: &Waiter| waiter.suspected.as_ref().is_some_and(|suspicion| suspicion.until <= now);
        for (_, waiter) in self.waiting.extract_if(|_, waiter| expired(waiter)) {
            let reason = waiter.suspected.map(|suspicion| suspicion.reason.to_string()).unwrap_or_default();
            let _ = waiter.answer.send(Err(Failure::Unanswered(reason)));
        }
        let suspicions = self.waiting.values().filter_map(|waiter| waiter.suspected.as_ref());
        self.next_suspect_timeout = suspicions.map(|suspicion| suspicion.until).min();
    }

    fn on_request(&mut self, id: Json, method: &str, params: Option<Json>) {
        if self.shared.stateless.load(Ordering::Relaxed) {
            // Modern servers request input in their results, and must not send requests.
            return Counters::add(&self.shared.counters.violations);
        }
        if self.shared.closing.get().is_some() {
            // No answer can be sent any more, and a server that waits for one does not exit.
            return self.peer.hurry();
        }
        let refused = |code, message: &str| Err(RpcError { code, message: message.to_owned(), data: None });
        if method == "ping" {
            return self.reply(&id, Ok(Json::from(serde_json::json!({}))));
        }
        let Some(host_request) = HostRequest::read(method, params, self.setup.host.capabilities()) else {
            return self.reply(&id, refused(-32601, "this client does not support the method"));
        };
        while let Some(done) = self.host_requests.try_join_next_with_id() {
            self.on_host_request_done(done);
        }
        if self.host_requests.len() >= MAX_HOST_REQUESTS {
            return self.reply(&id, refused(-32000, "too many requests in flight"));
        }
        let shared = Arc::clone(&self.shared);
        let host = Arc::clone(&self.setup.host);
        let limit = self.setup.answer_limit;
        let request_id = id.clone();
        let task = self.host_requests.spawn(async move {
            let answer = {
                let _paused = shared.clock.pause();
                tokio::time::timeout(limit, host_request.answer_with(&*host)).await
            };
            let timeout =
                || RpcError { code: -32000, message: "the host did not answer in time".to_owned(), data: None };
            let _ = shared.out.answer(write_answer(&id, answer.unwrap_or_else(|_| Err(timeout()))));
        });
        self.host_request_ids.insert(task.id(), (request_id, task));
    }

    /// Removes an answered request. If the host panicked, the server gets an error instead of waiting forever.
    fn on_host_request_done(&mut self, done: Result<(tokio::task::Id, ()), JoinError>) {
        let task = done.as_ref().map_or_else(JoinError::id, |(task, ())| *task);
        let Some((id, _)) = self.host_request_ids.remove(&task) else { return };
        if done.is_err_and(|error| error.is_panic()) {
            self.reply(
                &id,
                Err(RpcError { code: -32603, message: "internal error of the client".to_owned(), data: None }),
            );
        }
    }

    fn reply(&self, id: &Json, answer: Result<Json, RpcError>) {
        let _ = self.shared.out.answer(write_answer(id, answer));
    }

    fn handle_notification(&mut self, method: String, params: Option<Json>) {
        match method.as_str() {
            "notifications/progress" if self.on_progress(params.as_ref()) => return,
            // A modern server sends no requests, so that it can only mean one of ours: a `subscriptions/listen`.
            "notifications/cancelled" if self.shared.stateless.load(Ordering::Relaxed) => {
                let id = params.as_ref().and_then(|params| our_id(Fields::of(params).ok()?.raw("requestId")?.get()).0);
                let lost = || Failure::Send(PostError::Lost("canceled the request".to_owned()));
                return id.map_or((), |id| self.settle(id, Err(lost())));
            }
            "notifications/cancelled" => {
                let id = params.as_ref().and_then(|params| Fields::of(params).ok()?.json("requestId"));
                let canceled = self.host_request_ids.values().find(|(request, _)| Some(request) == id.as_ref());
                if let Some((_, task)) = canceled {
                    task.abort();
                }
                return;
            }
            _ => {}
        }
        let request = params.as_ref().and_then(subscription);
        for notification in (self.setup.on_notification)(read_notification(method, params), request) {
            self.queue_notification(notification);
        }
    }

    fn queue_notification(&mut self, notification: Notification) {
        // The queue is throttled. A call after this must not use the old list.
        if matches!(notification, Notification::ToolsChanged) {
            self.setup.host.tools_changed();
        }
        let Some(NotificationQueue { sender, .. }) = &self.notifications else { return };
        if self.dropped_notifications > 0 && sender.try_send(Notification::Lagged(self.dropped_notifications)).is_ok() {
            self.dropped_notifications = 0;
        }
        if self.dropped_notifications > 0 || sender.try_send(notification).is_err() {
            self.dropped_notifications += 1;
            Counters::add(&self.shared.counters.lost_notices);
        }
    }

    /// Passes progress to its call. Returns `false` if no call in flight has its token.
    fn on_progress(&mut self, params: Option<&Json>) -> bool {
        let Some(fields) = params.and_then(|params| Fields::of(params).ok()) else { return false };
        let Some(id) = fields.raw("progressToken").and_then(|token| our_id(token.get()).0) else { return false };
        if !self.waiting.contains_key(&id) {
            self.take_commands();
        }
        let Some(waiter) = self.waiting.get_mut(&id) else { return false };
        waiter.activity.last_at.store(self.shared.running_time(), Ordering::Relaxed);
        waiter.activity.progressed.store(true, Ordering::Relaxed);
        waiter.suspected = None;
        if waiter.wants_progress {
            let report = Progress {
                progress: fields.number("progress").ok().flatten().unwrap_or_default(),
                total: fields.number("total").ok().flatten(),
                message: fields.text("message").ok().flatten(),
            };
            if !waiter.activity.progress.add(report) {
                Counters::add(&self.shared.counters.lost_notices);
            }
        }
        true
    }
}

/// A reader dropped with its runtime or its connection still reports the end.
impl Drop for Reader {
    fn drop(&mut self) {
        self.end("was disconnected".to_owned());
    }
}

/// Returns the `subscriptions/listen` request that a notification belongs to.
fn subscription(params: &Json) -> Option<u64> {
    if !params.as_str().contains(SUBSCRIPTION_ID_KEY) {
        return None;
    }
    let meta = Fields::of(params).ok()?.object("_meta").ok()??;
    our_id(Fields::of(&meta).ok()?.raw(SUBSCRIPTION_ID_KEY)?.get()).0
}

fn read_notification(method: String, params: Option<Json>) -> Notification {
    let fields = params.as_ref().and_then(|params| Fields::of(params).ok());
    let text = |key: &str| fields.as_ref().and_then(|fields| fields.text(key).ok().flatten());
    match method.as_str() {
        "notifications/message" => Notification::Log {
            level: fields.as_ref().and_then(|fields| fields.json("level")?.decode::<LogLevel>().ok()),
            logger: text("logger"),
            data: fields
                .as_ref()
                .and_then(|fields| fields.json("data"))
                .unwrap_or_else(|| serde_json::Value::Null.into()),
        },
        "notifications/tools/list_changed" => Notification::ToolsChanged,
        "notifications/prompts/list_changed" => Notification::PromptsChanged,
        "notifications/resources/list_changed" => Notification::ResourcesChanged,
        "notifications/resources/updated" => match text("uri") {
            Some(uri) => Notification::ResourceUpdated { uri },
            None => Notification::Other { method, params },
        },
        _ => Notification::Other { method, params },
    }
}

async fn wait_for_end(end: &mut Option<futures_util::future::BoxFuture<'_, ()>>) {
    match end {
        Some(end) => end.await,
        None => std::future::pending().await,
    }
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
