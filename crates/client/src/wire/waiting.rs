//! The caller's own waiting for one answer: the request it carries out itself over HTTP, the reader's word, progress, and
//! the deadlines, all by a clock that stands still while the host is being asked.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::time::Instant;
use wharf_protocol::Json;

use super::{Counters, Failure, Limits, NEVER, OnProgress, Shared};
use crate::transport::{Heard, PostError, Reply};
use crate::{CallErrorKind, Deadline};

/// How long an answer may still come after a request was merely accepted.
const AFTERTHOUGHT: Duration = Duration::from_secs(5);

/// A request on its way, where the caller carries it out itself.
pub(super) type Posting<'a> = BoxFuture<'a, Result<Reply, PostError>>;

/// Waits for one answer.
pub(super) struct Waiting<'a> {
    shared: &'a Shared,
    receiver: oneshot::Receiver<Result<Json, Failure>>,
    heard: Arc<Heard>,
    limits: Limits,
    posting: Option<Posting<'a>>,
    /// With which status and when it was accepted without an answer.
    accepted: Option<(u16, Duration)>,
    /// Whether the beginning of an answer can be told from its end.
    begins: bool,
}

/// An answer, or word that there is none, and who brought it.
pub(super) struct Answered {
    pub(super) answer: Result<Json, Failure>,
    pub(super) by_reader: bool,
    /// Whether the server had reported progress before.
    pub(super) progressed: bool,
}

impl<'a> Waiting<'a> {
    pub(super) fn new(
        shared: &'a Shared,
        receiver: oneshot::Receiver<Result<Json, Failure>>,
        heard: Arc<Heard>,
        limits: Limits,
        posting: Option<Posting<'a>>,
    ) -> Self {
        let begins = posting.is_some();
        Self { shared, receiver, heard, limits, posting, accepted: None, begins }
    }

    pub(super) async fn answer(&mut self, mut on_progress: Option<OnProgress<'_>>) -> Result<Answered, CallErrorKind> {
        let began = Duration::from_millis(self.heard.at.load(Ordering::Relaxed));
        let alarm = tokio::time::sleep(self.left(began).0);
        tokio::pin!(alarm);
        loop {
            let answered = tokio::select! {
                biased;
                answer = &mut self.receiver => Some((answer.unwrap_or(Err(Failure::Ended)), true)),
                reply = posted(&mut self.posting), if self.posting.is_some() => {
                    self.posting = None;
                    let answer = self.on_reply(reply);
                    if answer.is_none() {
                        alarm.as_mut().reset(Instant::now() + self.left(began).0);
                    }
                    answer.map(|answer| (answer, false))
                }
                () = async { alarm.as_mut().await; self.shared.clock.running().await } => {
                    let (left, missed) = self.left(began);
                    if left.is_zero() {
                        return Err(missed);
                    }
                    alarm.as_mut().reset(Instant::now() + left);
                    None
                }
                step = self.heard.steps.next(), if on_progress.is_some() => {
                    if let Some(on_progress) = &mut on_progress {
                        on_progress(step);
                    }
                    None
                }
            };
            if let Some((answer, by_reader)) = answered {
                let progressed = self.heard.progressed.load(Ordering::Relaxed);
                if progressed && let Some(on_progress) = &mut on_progress {
                    while let Some(step) = self.heard.steps.take() {
                        on_progress(step);
                    }
                }
                return Ok(Answered { answer, by_reader, progressed });
            }
        }
    }

    /// What a carried-out request means; `None` if its answer is still to come.
    fn on_reply(&mut self, reply: Result<Reply, PostError>) -> Option<Result<Json, Failure>> {
        match reply {
            Ok(Reply::Answer { answer, well_addressed }) => {
                if !well_addressed {
                    Counters::add(&self.shared.counters.violations);
                }
                Some(answer.map_err(Failure::Rpc))
            }
            Ok(Reply::Elsewhere) => None,
            Ok(Reply::Accepted(status)) => {
                Counters::add(&self.shared.counters.violations);
                self.accepted = Some((status, Duration::from_millis(self.shared.running_time())));
                None
            }
            Err(error) => Some(Err(Failure::Post(error))),
        }
    }

    /// How long waiting goes on, and what is to be said when it ends. All by the clock that stands still while the host
    /// is being asked; progress moves the idle deadline, never the total one.
    fn left(&self, began: Duration) -> (Duration, CallErrorKind) {
        let now = Duration::from_millis(self.shared.running_time());
        let heard = Duration::from_millis(self.heard.at.load(Ordering::Relaxed));
        let until = |from: Duration, limit: Duration| (from + limit.min(NEVER)).saturating_sub(now);
        let missed = |from, after, deadline| (until(from, after), CallErrorKind::Timeout { deadline, after });

        let mut first = missed(began.max(heard), self.limits.idle, Deadline::Idle);
        let mut consider = |other: (Duration, CallErrorKind)| {
            if other.0 <= first.0 {
                first = other;
            }
        };
        if self.begins && !self.heard.begun.load(Ordering::Relaxed) {
            consider(missed(began.max(heard), self.limits.first_byte(), Deadline::FirstByte));
        }
        if let Some(total) = self.limits.total {
            consider(missed(began, total, Deadline::Total));
        }
        if let Some((status, at)) = self.accepted {
            let reason = format!("HTTP {status} without an answer");
            consider((until(at.max(heard), AFTERTHOUGHT), CallErrorKind::Unanswered(reason)));
        }
        first
    }
}

async fn posted(posting: &mut Option<Posting<'_>>) -> Result<Reply, PostError> {
    match posting {
        Some(posting) => posting.await,
        None => std::future::pending().await,
    }
}
