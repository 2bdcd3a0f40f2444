//! A caller's wait for one answer: it drives its own request over HTTP, and watches the reader, progress and the
//! deadlines. The deadlines use a clock that stops while the host answers a request of the server.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::time::Instant;
use wharf_protocol::Json;

use super::{Counters, Failure, Limits, NEVER, OnProgress, Shared};
use crate::transport::{PostError, Reply, RequestActivity};
use crate::{CallErrorKind, Deadline};

/// Time for the answer after an HTTP request was accepted without one.
const ACCEPTED_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A request that its caller drives.
pub(super) type SendFuture<'a> = BoxFuture<'a, Result<Reply, PostError>>;

/// Waits for one answer.
pub(super) struct AnswerWait<'a> {
    shared: &'a Shared,
    receiver: oneshot::Receiver<Result<Json, Failure>>,
    activity: Arc<RequestActivity>,
    limits: Limits,
    sending: Option<SendFuture<'a>>,
    /// The status and the running time at which the request was accepted without an answer.
    accepted: Option<(u16, Duration)>,
    /// Whether the transport reports when an answer starts.
    reports_first_byte: bool,
}

/// An answer or failure, and where it came from.
pub(super) struct ReceivedAnswer {
    pub(super) answer: Result<Json, Failure>,
    pub(super) by_reader: bool,
    /// Whether the server reported progress before.
    pub(super) progressed: bool,
}

impl<'a> AnswerWait<'a> {
    pub(super) fn new(
        shared: &'a Shared,
        receiver: oneshot::Receiver<Result<Json, Failure>>,
        activity: Arc<RequestActivity>,
        limits: Limits,
        sending: Option<SendFuture<'a>>,
    ) -> Self {
        let reports_first_byte = sending.is_some();
        Self { shared, receiver, activity, limits, sending, accepted: None, reports_first_byte }
    }

    pub(super) async fn answer(
        &mut self,
        mut on_progress: Option<OnProgress<'_>>,
    ) -> Result<ReceivedAnswer, CallErrorKind> {
        let started_at = Duration::from_millis(self.activity.last_at.load(Ordering::Relaxed));
        let timer = tokio::time::sleep(self.next_deadline(started_at).0);
        tokio::pin!(timer);
        loop {
            let received = tokio::select! {
                biased;
                answer = &mut self.receiver => Some((answer.unwrap_or(Err(Failure::Ended)), true)),
                reply = sent(&mut self.sending), if self.sending.is_some() => {
                    self.sending = None;
                    let answer = self.on_reply(reply);
                    if answer.is_none() {
                        timer.as_mut().reset(Instant::now() + self.next_deadline(started_at).0);
                    }
                    answer.map(|answer| (answer, false))
                }
                () = async { timer.as_mut().await; self.shared.clock.wait_until_running().await } => {
                    let (left, timeout) = self.next_deadline(started_at);
                    if left.is_zero() {
                        return Err(timeout);
                    }
                    timer.as_mut().reset(Instant::now() + left);
                    None
                }
                report = self.activity.progress.next(), if on_progress.is_some() => {
                    if let Some(on_progress) = &mut on_progress {
                        on_progress(report);
                    }
                    None
                }
            };
            if let Some((answer, by_reader)) = received {
                let progressed = self.activity.progressed.load(Ordering::Relaxed);
                if progressed && let Some(on_progress) = &mut on_progress {
                    while let Some(report) = self.activity.progress.take() {
                        on_progress(report);
                    }
                }
                return Ok(ReceivedAnswer { answer, by_reader, progressed });
            }
        }
    }

    /// Returns the answer in a reply, or `None` if the answer is still to come.
    fn on_reply(&mut self, reply: Result<Reply, PostError>) -> Option<Result<Json, Failure>> {
        match reply {
            Ok(Reply::Answer { answer, well_addressed, text: _ }) => {
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
            Err(error) => Some(Err(Failure::Send(error))),
        }
    }

    /// Returns the time until the next deadline, and its error. Progress extends the idle deadline, but not the total.
    fn next_deadline(&self, started_at: Duration) -> (Duration, CallErrorKind) {
        let now = Duration::from_millis(self.shared.running_time());
        let active_at = Duration::from_millis(self.activity.last_at.load(Ordering::Relaxed));
        let until = |from: Duration, limit: Duration| (from + limit.min(NEVER)).saturating_sub(now);
        let timeout = |from, after, deadline| (until(from, after), CallErrorKind::Timeout { deadline, after });

        let mut first = timeout(started_at.max(active_at), self.limits.idle, Deadline::Idle);
        let mut consider = |other: (Duration, CallErrorKind)| {
            if other.0 <= first.0 {
                first = other;
            }
        };
        if self.reports_first_byte && !self.activity.answer_started.load(Ordering::Relaxed) {
            consider(timeout(started_at.max(active_at), self.limits.first_byte(), Deadline::FirstByte));
        }
        if let Some(total) = self.limits.total {
            consider(timeout(started_at, total, Deadline::Total));
        }
        if let Some((status, accepted_at)) = self.accepted {
            let reason = format!("HTTP {status} without an answer");
            let left = until(accepted_at.max(active_at), ACCEPTED_ANSWER_TIMEOUT);
            consider((left, CallErrorKind::Unanswered(reason)));
        }
        first
    }
}

async fn sent(sending: &mut Option<SendFuture<'_>>) -> Result<Reply, PostError> {
    match sending {
        Some(sending) => sending.await,
        None => std::future::pending().await,
    }
}
