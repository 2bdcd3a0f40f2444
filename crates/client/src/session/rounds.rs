//! Requests that take several rounds: a server that needs something of the host says so in its result, and is asked again
//! with the answer.

use std::time::Duration;

use memchr::memmem;
use serde::Serialize;
use wharf_protocol::{Fields, Json};

use super::manner::{Object, Request};
use super::{Live, Session};
use crate::wire::{Limits, Line, Question};
use crate::{CallErrorKind, Deadline};

/// The most rounds one request may take.
const MOST_ROUNDS: u32 = 10;
/// The pause before a server is asked again that needs nothing but time; it doubles, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(800);
/// Results up to this size are looked at whole; in larger ones only the words that matter are looked for.
const SMALL: usize = 16 * 1024;

/// What a request says in its second round and after.
#[derive(Debug, Default, Serialize)]
pub(super) struct Round {
    #[serde(rename = "inputResponses", skip_serializing_if = "Option::is_none")]
    responses: Option<Object>,
    /// The server's own note to itself, which goes back as it came.
    #[serde(rename = "requestState", skip_serializing_if = "Option::is_none")]
    state: Option<Json>,
}

impl Round {
    /// The round that a caller who takes them itself has come to.
    pub(super) fn taken_from(params: &mut Object) -> Self {
        let responses = params.take("inputResponses").and_then(|given| Object::read(&given).ok());
        Self { responses, state: params.take("requestState") }
    }
}

/// What a result is.
pub(super) enum Came {
    /// The result itself.
    Complete,
    /// A wish.
    InputRequired(Needed),
    /// The promise of a result.
    Task,
}

/// What a server needs to go on.
pub(super) struct Needed {
    pub(super) requests: Object,
    state: Option<Json>,
}

impl Came {
    /// Reads a result's type.
    pub(super) fn read(result: &Json) -> Result<Self, String> {
        let text = result.as_str().as_bytes();
        let names = |word: &str| memmem::find(text, word.as_bytes()).is_some();
        if text.len() > SMALL && !names("\"input_required\"") && !names("\"task\"") {
            return Ok(Self::Complete);
        }
        let Ok(fields) = Fields::of(result) else { return Ok(Self::Complete) };
        match fields.text("resultType")?.as_deref() {
            None | Some("complete") => Ok(Self::Complete),
            Some("input_required") => match Needed::read(&fields)? {
                // Asked again as it was, it would begin again.
                needed if needed.requests.0.is_empty() && needed.state.is_none() => {
                    Err("needs something and does not say what".to_owned())
                }
                needed => Ok(Self::InputRequired(needed)),
            },
            Some("task") => Ok(Self::Task),
            Some(other) => Err(format!("is of the unknown type `{other}`")),
        }
    }
}

impl Needed {
    pub(super) fn read(fields: &Fields<'_>) -> Result<Self, String> {
        let requests = fields.object("inputRequests")?.map_or(Ok(Object::default()), |given| Object::read(&given))?;
        Ok(Self { requests, state: fields.json("requestState") })
    }
}

impl Session {
    /// Sends a request, answers what the server needs on the way, and returns the result.
    pub(super) fn complete<'a, P: Serialize + Sync>(
        &'a self,
        live: &'a Live,
        request: &'a mut Request<'_, P>,
        budget: &'a Budget,
    ) -> impl Future<Output = Result<Json, CallErrorKind>> {
        self.complete_from(live, request, budget, None)
    }

    /// The same, beginning with this round.
    pub(super) async fn complete_from<P: Serialize + Sync>(
        &self,
        live: &Live,
        request: &mut Request<'_, P>,
        budget: &Budget,
        mut round: Option<Box<Round>>,
    ) -> Result<Json, CallErrorKind> {
        let mut rounds = Rounds::default();
        loop {
            request.limits = budget.left()?;
            let begun = request.begun;
            let sent = live.speaker.send(request, round.as_deref()).await.map_err(|kind| budget.exceeded(kind));
            let result = sent.map_err(|kind| if begun { kind.once_begun() } else { kind })?;
            if !live.speaker.is_modern() {
                return Ok(result);
            }
            let came = Came::read(&result);
            let came = came.map_err(|reason| CallErrorKind::Malformed(format!("the result {reason}")))?;
            request.begun |= !matches!(came, Came::Complete);
            match came {
                Came::Complete => return Ok(result),
                // Hardly any call comes here, and none should be as large as those that do.
                Came::InputRequired(needed) => {
                    round = Some(Box::new(self.unless_closed(Box::pin(rounds.next(self, live, needed))).await?));
                }
                Came::Task => {
                    let following = Box::pin(self.follow_task(live, &result, request, budget));
                    return self.unless_closed(following).await;
                }
            }
        }
    }

    /// Does something that ends when the session is closed.
    async fn unless_closed<T>(&self, work: impl Future<Output = Result<T, CallErrorKind>>) -> Result<T, CallErrorKind> {
        let closings = self.inner.start().closings;
        tokio::select! {
            result = work => result,
            () = self.inner.closed_after(closings) => Err(CallErrorKind::Closed),
        }
    }

    /// Puts what a server needs to the host, one thing after the other, while the clocks stand still.
    pub(super) async fn answer(&self, live: &Live, requests: Object) -> Result<Object, CallErrorKind> {
        let (host, limit) = (&*self.inner.host, self.inner.options.deadlines.answer);
        let mut answers = Vec::with_capacity(requests.0.len());
        for (key, request) in requests.0 {
            let (method, params) = wanted(&request).map_err(|reason| {
                CallErrorKind::Malformed(format!("the result needs something (`{key}`) that {reason}"))
            })?;
            let refused = |reason: &str| CallErrorKind::Input { method: method.clone(), reason: reason.to_owned() };
            let question = Question::read(&method, params, host.abilities())
                .ok_or_else(|| refused("this host does not answer such requests"))?;
            let _paused = live.wire.pause();
            let answer = tokio::time::timeout(limit, question.put_to(host)).await;
            let answer = answer.map_err(|_| refused("there was no answer in time"))?;
            answers.push((key, answer.map_err(|error| refused(&error.message))?));
        }
        Ok(Object(answers))
    }
}

fn wanted(request: &Json) -> Result<(String, Option<Json>), String> {
    let fields = Fields::of(request)?;
    Ok((fields.required_text("method")?, fields.object("params")?))
}

/// Counts the rounds of one request.
#[derive(Default)]
pub(super) struct Rounds {
    taken: u32,
    /// How many in a row needed nothing but time.
    idle: u32,
}

impl Rounds {
    pub(super) async fn next(
        &mut self,
        session: &Session,
        live: &Live,
        needed: Needed,
    ) -> Result<Round, CallErrorKind> {
        self.taken += 1;
        if self.taken > MOST_ROUNDS {
            return Err(CallErrorKind::Rounds(MOST_ROUNDS));
        }
        if needed.requests.0.is_empty() {
            let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(self.idle)).min(LONGEST_PAUSE);
            self.idle += 1;
            tokio::time::sleep(pause).await;
            return Ok(Round { responses: None, state: needed.state });
        }
        self.idle = 0;
        Ok(Round { responses: Some(session.answer(live, needed.requests).await?), state: needed.state })
    }
}

/// The time of a whole request, over all its rounds.
pub(super) struct Budget {
    line: Line,
    limits: Limits,
    began: Duration,
}

impl Budget {
    pub(super) fn new(live: &Live, limits: Limits) -> Self {
        Self { line: live.wire.line(), limits, began: live.wire.running_time() }
    }

    /// The whole of it was too short, whichever part of it was the last.
    pub(super) fn exceeded(&self, kind: CallErrorKind) -> CallErrorKind {
        match (kind, self.limits.total) {
            (CallErrorKind::Timeout { deadline: deadline @ Deadline::Total, .. }, Some(after)) => {
                CallErrorKind::Timeout { deadline, after }
            }
            (kind, _) => kind,
        }
    }

    /// Does something within what is left.
    pub(super) async fn within<T>(&self, work: impl Future<Output = T>) -> Result<T, CallErrorKind> {
        let Some(left) = self.left()?.total else { return Ok(work.await) };
        let after = self.limits.total.unwrap_or(left);
        let late = |_| CallErrorKind::Timeout { deadline: Deadline::Total, after };
        tokio::time::timeout(left, work).await.map_err(late)
    }

    /// The limits of the next round.
    pub(super) fn left(&self) -> Result<Limits, CallErrorKind> {
        let Some(total) = self.limits.total else { return Ok(self.limits) };
        let left = total.saturating_sub(self.line.running_time().saturating_sub(self.began));
        if left.is_zero() {
            return Err(CallErrorKind::Timeout { deadline: Deadline::Total, after: total });
        }
        Ok(Limits { total: Some(left), ..self.limits })
    }
}
