//! The one task that reads a connection: it owns the table of who waits for what, and tells everybody of the end.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use wharf_protocol::{Fields, Json};

use super::find_id::find_id;
use super::message::{self, Message, Reading, RpcError, our_id, write_answer};
use super::{Ending, Failure, Post, Setup, Shared, Waiter, evidence, questions};
use crate::health::Counters;
use crate::transport::{Frame, Incoming, Keeper};
use crate::{LogLevel, Notice, Progress};

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
/// Frames after which the posts are looked at even if all answers find their callers.
const FRAMES: u32 = 256;

pub(super) struct Reader {
    shared: Arc<Shared>,
    keeper: Arc<dyn Keeper>,
    setup: Setup,
    notices: mpsc::Sender<Notice>,
    lost_notices: u64,
    waiting: HashMap<u64, Waiter>,
    questions: JoinSet<()>,
    open_questions: HashMap<String, AbortHandle>,
    suspense: Option<Suspense>,
    frames: u32,
}

/// The server sent something nobody can make sense of. Whoever waited at that time and gets no answer soon never will.
struct Suspense {
    until: Instant,
    calls: Vec<u64>,
    reason: String,
}

impl Reader {
    pub(super) fn new(
        shared: Arc<Shared>,
        keeper: Arc<dyn Keeper>,
        notices: mpsc::Sender<Notice>,
        setup: Setup,
    ) -> Self {
        Self {
            shared,
            keeper,
            setup,
            notices,
            lost_notices: 0,
            waiting: HashMap::new(),
            questions: JoinSet::new(),
            open_questions: HashMap::new(),
            suspense: None,
            frames: 0,
        }
    }

    pub(super) async fn run(mut self, incoming: Incoming) {
        let reason = self.read(incoming).await;
        self.end(reason);
    }

    /// Reads until the connection is over and says how it ended.
    async fn read(&mut self, mut incoming: Incoming) -> String {
        let (shared, keeper) = (Arc::clone(&self.shared), Arc::clone(&self.keeper));
        let mut far_end = keeper.ended();
        let mut far_end_gone = far_end.is_none();
        let mut last_read: Option<Instant> = None;
        let mut housekeeping = tokio::time::interval(HOUSEKEEPING);
        let streams_end = loop {
            let suspense = self.suspense.as_ref().map(|suspense| suspense.until);
            tokio::select! {
                biased;
                frame = incoming.next() => match frame {
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
                    if shared.closing.get().is_some() || shared.outbox.failure().is_some() {
                        last_read.get_or_insert(Instant::now() + REST);
                    }
                }
                _ = housekeeping.tick() => self.take_posts(),
                () = until(last_read), if last_read.is_some() => break None,
                () = until(suspense), if suspense.is_some() => self.end_suspense(),
                Some(_) = self.questions.join_next(), if !self.questions.is_empty() => {}
            }
        };
        // The streams of a process often end a moment before the process: its status says more than its silence.
        if !far_end_gone {
            let _ = tokio::time::timeout(REST, at(&mut far_end)).await;
        }
        match (keeper.last_words().exit, shared.outbox.failure(), streams_end) {
            (Some(exit), _, _) => exit.to_string(),
            (None, Some(failure), _) => failure.to_owned(),
            (None, None, Some(end)) => end,
            (None, None, None) => "closed the connection".to_owned(),
        }
    }

    fn end(mut self, reason: String) {
        let closed = self.shared.closing.get().is_some();
        let ending = Ending { reason, closed, evidence: evidence(&*self.keeper, &self.shared.counters) };
        let shared = Arc::clone(&self.shared);
        let ending = shared.ending.get_or_init(|| ending);
        // Either we find a caller's post now, or the caller finds the ending we have just set.
        fence(Ordering::SeqCst);
        self.take_posts();
        for (_, waiter) in self.waiting.drain() {
            let _ = waiter.answer.send(Err(Failure::Ended));
        }
        (self.setup.on_end)(ending);
    }

    fn take_posts(&mut self) {
        while let Some(post) = self.shared.posts.pop() {
            match post {
                Post::Expect(id, waiter) => self.waiting.insert(id, waiter),
                Post::Forget(id) => self.waiting.remove(&id),
            };
        }
    }

    fn on_frame(&mut self, frame: Frame) {
        self.frames += 1;
        if self.frames.is_multiple_of(FRAMES) {
            self.take_posts();
        }
        let text = match frame {
            Frame::Message(text) => text,
            Frame::Unreadable { head, tail, reason } => return self.on_broken(&head, &tail, reason),
        };
        match message::read(text) {
            Reading::Blank => {}
            Reading::Noise(line) => self.shared.counters.heard_noise(&line),
            Reading::Messages(messages) => messages.into_iter().for_each(|message| self.on_message(message)),
            Reading::Broken { text, reason } => self.on_broken(text.as_bytes(), b"", reason),
        }
    }

    fn on_message(&mut self, message: Message) {
        match message {
            Message::Answer { id, well_typed, answer } => self.on_answer(id, well_typed, answer),
            Message::Nonsense { id, reason } => {
                Counters::add(&self.shared.counters.violations);
                self.fail(id, reason);
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
            (None, Err(error)) => self.suspect(format!("error {}: {}", error.code, error.message)),
            (None, Ok(_)) => self.suspect("a result without an id".to_owned()),
        }
    }

    fn on_broken(&mut self, head: &[u8], tail: &[u8], reason: String) {
        Counters::add(&self.shared.counters.violations);
        self.fail(find_id(head, tail), reason);
    }

    fn fail(&mut self, id: Option<u64>, reason: String) {
        match id {
            Some(id) => self.settle(id, Err(Failure::Malformed(reason))),
            None => self.suspect(reason),
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
    /// calls under way get some time; if their answers come, all is well.
    fn suspect(&mut self, reason: String) {
        self.take_posts();
        if self.suspense.is_none() && !self.waiting.is_empty() {
            let calls = self.waiting.keys().copied().collect();
            self.suspense = Some(Suspense { until: Instant::now() + SUSPENSE, calls, reason });
        }
    }

    fn end_suspense(&mut self) {
        if let Some(Suspense { calls, reason, .. }) = self.suspense.take() {
            for waiter in calls.iter().filter_map(|id| self.waiting.remove(id)) {
                let reason = format!("without naming a request the server sent {reason}, and then nothing");
                let _ = waiter.answer.send(Err(Failure::Malformed(reason)));
            }
        }
    }

    fn on_request(&mut self, id: Json, method: &str, params: Option<Json>) {
        let refused = |code, message: &str| Err(RpcError { code, message: message.to_owned(), data: None });
        if method == "ping" {
            return self.reply(&id, Ok(Json::from(serde_json::json!({}))));
        }
        let Some(question) = questions::Question::read(method, params, self.setup.host.abilities()) else {
            return self.reply(&id, refused(-32601, "this client does not answer such requests"));
        };
        if self.questions.len() >= QUESTIONS {
            return self.reply(&id, refused(-32000, "too many requests are open"));
        }
        let (shared, host) = (Arc::clone(&self.shared), Arc::clone(&self.setup.host));
        let (limit, key) = (self.setup.answer_limit, id.to_string());
        let asked = self.questions.spawn(async move {
            let answer = {
                let _paused = shared.clock.pause();
                tokio::time::timeout(limit, question.put_to(&*host)).await
            };
            let late = || Err(RpcError { code: -32000, message: "no answer in time".to_owned(), data: None });
            let _ = shared.outbox.post(write_answer(&id, answer.unwrap_or_else(|_| late())));
        });
        self.open_questions.retain(|_, question| !question.is_finished());
        self.open_questions.insert(key, asked);
    }

    fn reply(&self, id: &Json, answer: Result<Json, RpcError>) {
        let _ = self.shared.outbox.post(write_answer(id, answer));
    }

    fn on_notification(&mut self, method: String, params: Option<Json>) {
        match method.as_str() {
            "notifications/progress" if self.on_progress(params.as_ref()) => return,
            "notifications/cancelled" => {
                let id = params.as_ref().and_then(|params| Fields::of(params).ok()?.json("requestId"));
                if let Some(question) = id.and_then(|id| self.open_questions.remove(id.as_str())) {
                    question.abort();
                }
                return;
            }
            _ => {}
        }
        let notice = read_notice(method, params);
        (self.setup.on_notice)(&notice);
        self.pass_on(notice);
    }

    fn pass_on(&mut self, notice: Notice) {
        if self.lost_notices > 0 && self.notices.try_send(Notice::Lagged(self.lost_notices)).is_ok() {
            self.lost_notices = 0;
        }
        if self.lost_notices > 0 || self.notices.try_send(notice).is_err() {
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
        let Some(waiter) = self.waiting.get(&id) else { return false };
        waiter.heard.store(self.shared.now(), Ordering::Relaxed);
        if let Some(progress) = &waiter.progress {
            let step = Progress {
                progress: fields.number("progress").ok().flatten().unwrap_or_default(),
                total: fields.number("total").ok().flatten(),
                message: fields.text("message").ok().flatten(),
            };
            if progress.try_send(step).is_err() {
                Counters::add(&self.shared.counters.lost_notices);
            }
        }
        true
    }
}

fn read_notice(method: String, params: Option<Json>) -> Notice {
    let fields = params.as_ref().and_then(|params| Fields::of(params).ok());
    let text = |key: &str| fields.as_ref().and_then(|fields| fields.text(key).ok().flatten());
    match method.as_str() {
        "notifications/message" => Notice::Log {
            level: fields.as_ref().and_then(|fields| fields.json("level")?.decode::<LogLevel>().ok()),
            logger: text("logger"),
            data: fields
                .as_ref()
                .and_then(|fields| fields.json("data"))
                .unwrap_or_else(|| serde_json::Value::Null.into()),
        },
        "notifications/tools/list_changed" => Notice::ToolsChanged,
        "notifications/prompts/list_changed" => Notice::PromptsChanged,
        "notifications/resources/list_changed" => Notice::ResourcesChanged,
        "notifications/resources/updated" => match text("uri") {
            Some(uri) => Notice::ResourceUpdated { uri },
            None => Notice::Other { method, params },
        },
        _ => Notice::Other { method, params },
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
