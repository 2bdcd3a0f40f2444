//! Completes requests that take several rounds: when a result asks for input, the host answers and the request is sent
//! again with the answers.

use std::time::Duration;

use serde::Serialize;
use wharf_protocol::{Fields, Json};

use super::budget::Budget;
use super::object::Object;
use super::round::{InputRequest, ResultKind, Round};
use super::sender::Request;
use super::tasks::created_task;
use super::{Live, Session};
use crate::wire::HostRequest;
use crate::{CallErrorKind, InputFailure};

/// The most rounds one request may take.
const MAX_ROUNDS: u32 = 10;
/// The delay before the next round of a server that needs only time. It doubles up to the maximum.
const FIRST_ROUND_DELAY: Duration = Duration::from_millis(50);
const MAX_ROUND_DELAY: Duration = Duration::from_millis(800);

impl Session {
    /// Sends a request, answers the server's requests for input, and returns the result.
    pub(super) fn complete<'a, P: Serialize + Sync>(
        &'a self,
        live: &'a Live,
        request: &'a mut Request<'_, P>,
        budget: &'a Budget,
    ) -> impl Future<Output = Result<Json, CallErrorKind>> {
        self.complete_from(live, request, budget, None)
    }

    /// Like [`complete`](Self::complete), starting with `round`.
    pub(super) async fn complete_from<P: Serialize + Sync>(
        &self,
        live: &Live,
        request: &mut Request<'_, P>,
        budget: &Budget,
        mut round: Option<Box<Round>>,
    ) -> Result<Json, CallErrorKind> {
        let mut rounds = RoundCounter::default();
        loop {
            request.limits = budget.left()?;
            let begun = request.begun;
            let sent = live.sender.send(request, round.as_deref()).await.map_err(|kind| budget.exceeded(kind));
            let result = sent.map_err(|kind| if begun { kind.once_begun() } else { kind })?;
            if !live.sender.is_modern() {
                // A server may answer at once although a task was requested.
                let task = if request.expects_task { created_task(&result) } else { None };
                let Some(task) = task else { return Ok(result) };
                request.begun = true;
                let following = Box::pin(self.follow_task(live, &task, request, budget));
                return self.until_closed(following).await;
            }
            let kind = ResultKind::read(&result);
            let kind = kind.map_err(|reason| CallErrorKind::Malformed(format!("the result {reason}")))?;
            request.begun |= !matches!(kind, ResultKind::Complete);
            match kind {
                ResultKind::Complete => return Ok(result),
                // Boxed because few calls take these paths, and every call's future would be as large as theirs.
                ResultKind::InputRequired(input) => {
                    round = Some(Box::new(self.until_closed(Box::pin(rounds.next(self, live, input))).await?));
                }
                ResultKind::Task => {
                    let following = Box::pin(self.follow_task(live, &result, request, budget));
                    return self.until_closed(following).await;
                }
            }
        }
    }

    /// Runs `work`, or fails when the session is closed.
    async fn until_closed<T>(&self, work: impl Future<Output = Result<T, CallErrorKind>>) -> Result<T, CallErrorKind> {
        let close_count = self.inner.start().close_count;
        tokio::select! {
            result = work => result,
            () = self.inner.wait_for_close(close_count) => Err(CallErrorKind::Closed),
        }
    }

    /// Passes a server's input requests to the host, one after the other, while the deadlines are paused.
    pub(super) async fn answer_inputs(&self, live: &Live, requests: Object) -> Result<Object, CallErrorKind> {
        let host = &*self.inner.host;
        let mut answers = Vec::with_capacity(requests.0.len());
        for (key, request) in requests.0 {
            let (method, params) = read_input_request(&request)
                .map_err(|reason| CallErrorKind::Malformed(format!("the input request `{key}` {reason}")))?;
            let refused = |reason| CallErrorKind::Input { method: method.clone(), reason };
            let request = HostRequest::read(&method, params, host.capabilities())
                .ok_or_else(|| refused(InputFailure::Unsupported))?;
            let _paused = live.wire.pause();
            let answer = tokio::time::timeout(self.inner.options.deadlines.answer, request.answer_with(host)).await;
            let answer = answer.map_err(|_| refused(InputFailure::TimedOut))?;
            answers.push((key, answer.map_err(|error| refused(InputFailure::Refused(error.message)))?));
        }
        Ok(Object(answers))
    }
}

fn read_input_request(request: &Json) -> Result<(String, Option<Json>), String> {
    let fields = Fields::of(request)?;
    Ok((fields.required_text("method")?, fields.object("params")?))
}

/// Counts the rounds of one request.
#[derive(Default)]
struct RoundCounter {
    rounds: u32,
    /// Consecutive rounds that needed only time.
    idle: u32,
}

impl RoundCounter {
    async fn next(&mut self, session: &Session, live: &Live, input: InputRequest) -> Result<Round, CallErrorKind> {
        self.rounds += 1;
        if self.rounds > MAX_ROUNDS {
            return Err(CallErrorKind::Rounds(MAX_ROUNDS));
        }
        if input.requests.0.is_empty() {
            let delay = FIRST_ROUND_DELAY.saturating_mul(2_u32.saturating_pow(self.idle)).min(MAX_ROUND_DELAY);
            self.idle += 1;
            tokio::time::sleep(delay).await;
            return Ok(Round { responses: None, state: input.state });
        }
        self.idle = 0;
        Ok(Round { responses: Some(session.answer_inputs(live, input.requests).await?), state: input.state })
    }
}
