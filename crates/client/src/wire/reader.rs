//! The one task that reads a connection: it owns the table of who waits for what, and tells everybody of the end.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::Instant;
use wharf_protocol::{Fields, Json};

use super::find_id::{Found, find_id};
use super::message::{self, Message, RpcError, our_id, write_answer};
use super::out::Out;
use super::{Ending, Failure, Post, Setup, Shared, Waiter, evidence, questions};
use crate::health::Counters;
use crate::transport::{Frame, Incoming, PeerHandle, PostError};
use crate::{LogLevel, Notification, Progress};

/// Notices that may wait for the host; more are dropped, and the host is told how many.
pub(super) const NOTICES: usize = 1024;
/// Questions of the server that may be open at once; further ones are refused.
const QUESTIONS: usize = 32;
/// How long calls may still be answered after the server sent something that may have been their answer.
const SUSPENSE: Duration = Duration::from_secs(5);
/// How long the rest of a connection is read once the far end is known to be gone, or to be broken.
const REST: Duration = Duration::from_secs(1);
/// How often the posts are looked at when nothing comes in.
///
/// The timer also makes calls cheaper: a runtime without any timer has to be woken for every deadline that is set, and
/// the deadlines of calls are almost always later than this.
const HOUSEKEEPING: Duration = Duration::from_secs(30);
/// Where a notification says which request it came of.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// Frames after which everything else gets a turn.
const FRAMES: u32 = 256;

pub(super) struct Reader {
    shared: Arc<Shared>,
    keeper: Arc<dyn PeerHandle>,
    setup: Setup,
    /// Where notices go, and word that all of them have been heard. `None` at the end.
    notices: Option<(mpsc::Sender<Notification>, oneshot::Receiver<()>)>,
    lost_notices: u64,
    waiting: HashMap<u64, Waiter>,
    questions: JoinSet<()>,
    open_questions: HashMap<tokio::task::Id, (Json, AbortHandle)>,
    /// When the first of the calls that are under suspicion is given up.
    suspense: Option<Instant>,
    /// What is known of a line that is too long and has not ended yet.
    long_line: Option<Found>,
    frames: u32,
}

impl Reader {
    pub(super) fn new(
        shared: Arc<Shared>,
        keeper: Arc<dyn PeerHandle>,
        notices: (mpsc::Sender<Notification>, oneshot::Receiver<()>),
        setup: Setup,
    ) -> Self {
        Self {
            shared,
            keeper,
            setup,
            notices: Some(notices),
            lost_notices: 0,
            waiting: HashMap::new(),
            questions: JoinSet::new(),
            open_questions: HashMap::new(),
            suspense: None,
            long_line: None,
            frames: 0,
        }
    }

    pub(super) async fn run(mut self, incoming: Incoming) {
        let reason = self.read(incoming).await;
        let _live = self.end(reason);
        // What was sent before the end is heard before the end.
        if let Some((sender, heard)) = self.notices.take() {
            drop(sender);
            let _ = tokio::time::timeout(REST, heard).await;
        }
    }

    /// Reads until the connection is over and says how it ended.
    async fn read(&mut self, mut incoming: Incoming) -> String {
        let (shared, keeper) = (Arc::clone(&self.shared), Arc::clone(&self.keeper));
        let mut far_end = keeper.ended();
        let mut far_end_gone = far_end.is_none();
        let mut last_read: Option<Instant> = None;
        let mut housekeeping = tokio::time::interval(HOUSEKEEPING);
        let streams_end = loop {
            // A server that never pauses must not keep us from everything else.
            let mut reading = true;
            if self.frames >= FRAMES {
                self.frames = 0;
                reading = false;
                tokio::task::consume_budget().await;
            }
            let suspense = self.suspense;
            tokio::select! {
                biased;
                frame = incoming.next(), if reading => match frame {
                    Some(Ok(frame)) => self.on_frame(frame),
                    Some(Err(error)) => break Some(format!("broke the connection ({error})")),
                    None => break Some("closed the connection".to_owned()),
                },
                () = at(&mut far_end), if !far_end_gone => {
                    far_end_gone = true;
                    last_read = Some(Instant::now() + REST);
                }
                () = shared.nudge.notified() => {
                    self.take_posts();
                    if shared.closing.get().is_some() {
                        self.release(|| Failure::Closed);
                    }
                    if shared.out.failure().is_some() {
                        last_read.get_or_insert(Instant::now() + REST);
                    }
                }
                _ = housekeeping.tick() => self.take_posts(),
                () = until(last_read), if last_read.is_some() => break None,
                () = until(suspense), if suspense.is_some() => self.end_suspense(),
                Some(asked) = self.questions.join_next_with_id(), if !self.questions.is_empty() => self.on_asked(asked),
                () = std::future::ready(()), if !reading => {}
            }
        };
        // The streams of a process often end a moment before the process: its status says more than its silence.
        if !far_end_gone {
            let _ = tokio::time::timeout(REST, at(&mut far_end)).await;
        }
        let words = keeper.last_words();
        match (words.exit, streams_end.filter(|_| words.reason.is_none()), shared.out.failure()) {
            (Some(exit), _, _) => exit.to_string(),
            (None, Some(end), _) => end,
            (None, None, Some(failure)) => failure.to_owned(),
            (None, None, None) => words.reason.unwrap_or_else(|| "closed the connection".to_owned()),
        }
    }

    /// Tells everybody of the end: the session first, so that whoever is woken finds it as it is now.
    fn end(&mut self, reason: String) -> Option<Arc<dyn Send + Sync>> {
        let closed = self.shared.closing.get().is_some();
        let shared = Arc::clone(&self.shared);
        let mut first = false;
        let ending = shared.ending.get_or_init(|| {
            first = true;
            Ending { reason, closed, evidence: evidence(&*self.keeper, &shared.counters) }
        });
        if !first {
            return None;
        }
        // A far end that closed its streams and lives on is of no use to anybody.
        if !closed {
            self.keeper.abandon();
        }
        let on_end = std::mem::replace(&mut self.setup.on_end, Box::new(|_| None));
        let live = on_end(ending);
        // Either we find a caller's post now, or the caller finds the ending we have just set.
        fence(Ordering::SeqCst);
        self.take_posts();
        self.release(|| Failure::Ended);
        live
    }

    /// Ends all calls under way.
    fn release(&mut self, failure: impl Fn() -> Failure) {
        for (_, waiter) in self.waiting.drain() {
            let _ = waiter.answer.send(Err(failure()));
        }
    }

    fn take_posts(&mut self) {
        if matches!(self.shared.out, Out::Posts(_)) {
            self.waiting.extend(self.shared.fresh().drain());
        }
        while let Some(post) = self.shared.posts.pop() {
            match post {
                Post::Expect(id, waiter) => self.waiting.insert(id, waiter),
                Post::Forget(id) => self.waiting.remove(&id),
            };
        }
    }

    fn on_frame(&mut self, frame: Frame) {
        self.frames += 1;
        let text = match frame {
            Frame::Message(text) => text,
            Frame::AnswerTo(id, text) => return self.on_answer_to(id, text),
            Frame::Unreadable { head, tail, reason, ended } => {
                return self.on_unreadable((&head, &tail), reason, ended);
            }
        };
        let reading = message::read(text);
        if let Some(noise) = reading.noise {
            self.shared.counters.heard_noise(&noise);
        }
        reading.messages.into_iter().for_each(|message| self.on_message(message));
        for (text, reason) in reading.broken {
            self.on_unreadable((text.as_bytes(), b""), reason, true);
        }
    }

    /// An answer that came where only the answer to this request can come: whatever it calls itself, that is what it is.
    fn on_answer_to(&mut self, id: u64, text: String) {
        let reading = message::read(text);
        let ours = |message: &Message| matches!(message, Message::Answer { id: Some(given), .. } if *given == id);
        let addressed = reading.messages.iter().any(ours);
        for message in reading.messages {
            match message {
                // In a batch with our answer in it, the others are not ours.
                Message::Answer { id: given, well_typed, answer } if addressed && given != Some(id) => {
                    self.on_answer(given, well_typed, answer);
                }
                Message::Answer { id: given, well_typed, answer } => {
                    if given != Some(id) || !well_typed {
                        Counters::add(&self.shared.counters.violations);
                    }
                    self.settle(id, answer.map_err(Failure::Rpc));
                }
                Message::Nonsense { reason, .. } => {
                    Counters::add(&self.shared.counters.violations);
                    self.settle(id, Err(Failure::Malformed(reason)));
                }
                other => self.on_message(other),
            }
        }
        for (_, reason) in reading.broken {
            Counters::add(&self.shared.counters.violations);
            self.settle(id, Err(Failure::Malformed(reason)));
        }
    }

    /// A line that is too long comes here twice: when it passes the bound, and when it ends. Its call fails as soon as
    /// it can be told; only when the line has ended is it certain that nobody can tell.
    fn on_unreadable(&mut self, (head, tail): (&[u8], &[u8]), reason: String, ended: bool) {
        let before = self.long_line.take();
        let beginning = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head).trim_ascii_start();
        if !beginning.starts_with(b"{") && !beginning.starts_with(b"[") {
            if before.is_none() {
                self.shared.counters.heard_noise(&String::from_utf8_lossy(head));
            }
            self.long_line = (!ended).then_some(Found::NoAnswer);
            return;
        }
        if before.is_none() {
            Counters::add(&self.shared.counters.violations);
        }
        let found = if let Some(settled @ (Found::AnswerTo(_) | Found::NoAnswer)) = before {
            settled
        } else {
            let found = find_id(head, tail);
            match found {
                Found::AnswerTo(id) => self.settle(id, Err(Failure::Malformed(reason))),
                Found::Unknown if ended => self.suspect(&format!("a line that cannot be read ({reason})")),
                Found::Unknown | Found::NoAnswer => {}
            }
            found
        };
        self.long_line = (!ended).then_some(found);
    }

    fn on_message(&mut self, message: Message) {
        match message {
            Message::Answer { id, well_typed, answer } => self.on_answer(id, well_typed, answer),
            Message::Nonsense { id, reason } => {
                Counters::add(&self.shared.counters.violations);
                match id {
                    Some(id) => self.settle(id, Err(Failure::Malformed(reason))),
                    None => self.suspect(&format!("a message without an id ({reason})")),
                }
            }
            Message::Request { id, method, params } => self.on_request(id, &method, params),
            Message::Notification { method, params } => self.on_notification(method, params),
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
            self.take_posts();
        }
        // The caller may have gone away just now; its answer is as stray as a repeated one.
        let settled = self.waiting.remove(&id).is_some_and(|waiter| waiter.answer.send(answer).is_ok());
        if !settled {
            Counters::add(&self.shared.counters.stray_answers);
        }
    }

    /// Nobody can tell whom this was for. Servers also complain without an id about things nobody waits for, so the
    /// calls under way get some time; if their answers come, or word of their progress, all is well.
    fn suspect(&mut self, reason: &str) {
        self.take_posts();
        let (until, reason) = (Instant::now() + SUSPENSE, Arc::<str>::from(reason));
        for waiter in self.waiting.values_mut().filter(|waiter| waiter.suspected.is_none()) {
            waiter.suspected = Some((until, Arc::clone(&reason)));
            self.suspense.get_or_insert(until);
        }
    }

    fn end_suspense(&mut self) {
        let now = Instant::now();
        let given_up = |waiter: &Waiter| waiter.suspected.as_ref().is_some_and(|(until, _)| *until <= now);
        for (_, waiter) in self.waiting.extract_if(|_, waiter| given_up(waiter)) {
            let reason = waiter.suspected.map(|(_, reason)| reason.to_string()).unwrap_or_default();
            let _ = waiter.answer.send(Err(Failure::Unanswered(reason)));
        }
        self.suspense = self.waiting.values().filter_map(|waiter| Some(waiter.suspected.as_ref()?.0)).min();
    }

    fn on_request(&mut self, id: Json, method: &str, params: Option<Json>) {
        if self.shared.stateless.load(Ordering::Relaxed) {
            // Such servers ask in their results; and nobody may answer this.
            return Counters::add(&self.shared.counters.violations);
        }
        let refused = |code, message: &str| Err(RpcError { code, message: message.to_owned(), data: None });
        if method == "ping" {
            return self.reply(&id, Ok(Json::from(serde_json::json!({}))));
        }
        let Some(question) = questions::Question::read(method, params, self.setup.host.abilities()) else {
            return self.reply(&id, refused(-32601, "this client does not answer such requests"));
        };
        while let Some(asked) = self.questions.try_join_next_with_id() {
            self.on_asked(asked);
        }
        if self.questions.len() >= QUESTIONS {
            return self.reply(&id, refused(-32000, "too many requests are open"));
        }
        let (shared, host) = (Arc::clone(&self.shared), Arc::clone(&self.setup.host));
        let (limit, asked_id) = (self.setup.answer_limit, id.clone());
        let asked = self.questions.spawn(async move {
            let answer = {
                let _paused = shared.clock.pause();
                tokio::time::timeout(limit, question.put_to(&*host)).await
            };
            let late = || Err(RpcError { code: -32000, message: "no answer in time".to_owned(), data: None });
            let _ = shared.out.answer(write_answer(&id, answer.unwrap_or_else(|_| late())));
        });
        self.open_questions.insert(asked.id(), (asked_id, asked));
    }

    /// A question has been answered. If the host broke down over it, the server must not wait for ever.
    fn on_asked(&mut self, asked: Result<(tokio::task::Id, ()), JoinError>) {
        let task = asked.as_ref().map_or_else(JoinError::id, |(task, ())| *task);
        let Some((id, _)) = self.open_questions.remove(&task) else { return };
        if asked.is_err_and(|error| error.is_panic()) {
            self.reply(&id, Err(RpcError { code: -32603, message: "the client failed".to_owned(), data: None }));
        }
    }

    fn reply(&self, id: &Json, answer: Result<Json, RpcError>) {
        let _ = self.shared.out.answer(write_answer(id, answer));
    }

    fn on_notification(&mut self, method: String, params: Option<Json>) {
        match method.as_str() {
            "notifications/progress" if self.on_progress(params.as_ref()) => return,
            // Where the server asks nothing, only something of ours can be meant: it is no longer listened to.
            "notifications/cancelled" if self.shared.stateless.load(Ordering::Relaxed) => {
                let id = params.as_ref().and_then(|params| our_id(Fields::of(params).ok()?.raw("requestId")?.get()).0);
                let lost = || Failure::Post(PostError::Lost("cancelled the request".to_owned()));
                return id.map_or((), |id| self.settle(id, Err(lost())));
            }
            "notifications/cancelled" => {
                let id = params.as_ref().and_then(|params| Fields::of(params).ok()?.json("requestId"));
                let taken_back = self.open_questions.values().find(|(question, _)| Some(question) == id.as_ref());
                if let Some((_, question)) = taken_back {
                    question.abort();
                }
                return;
            }
            _ => {}
        }
        let request = params.as_ref().and_then(subscription);
        for notice in (self.setup.on_notice)(read_notice(method, params), request) {
            self.pass_on(notice);
        }
    }

    fn pass_on(&mut self, notice: Notification) {
        let Some((notices, _)) = &self.notices else { return };
        if self.lost_notices > 0 && notices.try_send(Notification::Lagged(self.lost_notices)).is_ok() {
            self.lost_notices = 0;
        }
        if self.lost_notices > 0 || notices.try_send(notice).is_err() {
            self.lost_notices += 1;
            Counters::add(&self.shared.counters.lost_notices);
        }
    }

    /// Progress goes to the call whose token it bears; `false` if there is none.
    fn on_progress(&mut self, params: Option<&Json>) -> bool {
        let Some(fields) = params.and_then(|params| Fields::of(params).ok()) else { return false };
        let Some(id) = fields.raw("progressToken").and_then(|token| our_id(token.get()).0) else { return false };
        if !self.waiting.contains_key(&id) {
            self.take_posts();
        }
        let Some(waiter) = self.waiting.get_mut(&id) else { return false };
        waiter.heard.at.store(self.shared.running_time(), Ordering::Relaxed);
        waiter.heard.progressed.store(true, Ordering::Relaxed);
        waiter.suspected = None;
        if waiter.follows {
            let step = Progress {
                progress: fields.number("progress").ok().flatten().unwrap_or_default(),
                total: fields.number("total").ok().flatten(),
                message: fields.text("message").ok().flatten(),
            };
            if !waiter.heard.steps.add(step) {
                Counters::add(&self.shared.counters.lost_notices);
            }
        }
        true
    }
}

/// A reader that is dropped, because its runtime ends or its connection is given up, still tells everybody.
impl Drop for Reader {
    fn drop(&mut self) {
        self.end("is no longer being listened to".to_owned());
    }
}

/// The request by which the server is listened to, in what comes of it.
fn subscription(params: &Json) -> Option<u64> {
    if !params.as_str().contains(SUBSCRIPTION) {
        return None;
    }
    let meta = Fields::of(params).ok()?.object("_meta").ok()??;
    our_id(Fields::of(&meta).ok()?.raw(SUBSCRIPTION)?.get()).0
}

fn read_notice(method: String, params: Option<Json>) -> Notification {
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

async fn at(end: &mut Option<futures_util::future::BoxFuture<'_, ()>>) {
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
