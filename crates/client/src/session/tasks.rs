//! Calls that a server answers with a task: it is asked how the task is doing until there is a result.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use http::HeaderMap;
use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;
use wharf_protocol::{Fields, Json};

use super::manner::{Object, Request, Speaker, Welcome};
use super::rounds::{Budget, Needed};
use super::{Inner, Live, Session};
use crate::wire::Limits;
use crate::{CallErrorKind, ConnectErrorKind, Deadline, Progress};
use wharf_io::jittered;

/// How often a task is asked after if its server does not say.
const USUAL_POLL: Duration = Duration::from_secs(1);
/// The bounds of what a server may say about that.
const POLLS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(60));
/// How long a task is followed if the call has no limit of its own.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// The pauses after which a server that cannot be reached is asked once more: the task does not depend on our connection.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
/// How long word that a task is no longer wanted may take.
const CANCEL_LIMIT: Duration = Duration::from_secs(10);

/// How a task is doing.
struct Task {
    id: String,
    status: String,
    message: Option<String>,
    poll: Duration,
    raw: Json,
}

impl Task {
    fn read(raw: &Json) -> Result<Self, String> {
        let fields = Fields::of(raw)?;
        let poll = fields.number("pollIntervalMs").ok().flatten().filter(|poll| poll.is_finite() && *poll >= 0.0);
        let poll = poll.map_or(USUAL_POLL, |poll| Duration::from_secs_f64((poll / 1000.0).min(POLLS.1.as_secs_f64())));
        Ok(Self {
            id: fields.required_text("taskId")?,
            status: fields.required_text("status")?,
            message: fields.text("statusMessage").ok().flatten(),
            poll: poll.clamp(POLLS.0, POLLS.1),
            raw: raw.clone(),
        })
    }

    /// The result of a task that has one.
    fn result(&self) -> Result<Json, CallErrorKind> {
        let fields = Fields::of(&self.raw).map_err(CallErrorKind::Malformed)?;
        fields.json("result").ok_or_else(|| CallErrorKind::Malformed("the task is completed and has no result".into()))
    }

    /// Why it failed.
    fn error(&self) -> CallErrorKind {
        let error = Fields::of(&self.raw).ok().and_then(|fields| fields.object("error").ok()?);
        let fields = error.as_ref().and_then(|error| Fields::of(error).ok());
        #[expect(clippy::cast_possible_truncation, reason = "codes are small; an absurd one is only shown")]
        let code = fields.as_ref().and_then(|fields| fields.number("code").ok()?).unwrap_or(0.0) as i64;
        let message = fields.as_ref().and_then(|fields| fields.text("message").ok()?);
        let message = message.or_else(|| self.message.clone()).unwrap_or_else(|| "the task failed".to_owned());
        CallErrorKind::Server { code, message, data: fields.and_then(|fields| fields.json("data")) }
    }

    fn needed(&self) -> Result<Needed, CallErrorKind> {
        let malformed = |reason| CallErrorKind::Malformed(format!("the task {reason}"));
        Needed::read(&Fields::of(&self.raw).map_err(malformed)?).map_err(malformed)
    }
}

impl Session {
    /// Follows the task that `created` announces. If nobody waits for it any more, the server is told.
    pub(super) async fn follow_task<P>(
        &self,
        live: &Live,
        created: &Json,
        request: &mut Request<'_, P>,
        budget: &Budget,
    ) -> Result<Json, CallErrorKind> {
        let malformed = |reason| CallErrorKind::Malformed(format!("the task {reason}"));
        let mut task = Task::read(created).map_err(malformed)?;
        let (id, began) = (task.id.clone(), Instant::now());
        let mut unwanted = Unwanted::new(self, live, &id, request.headers.clone());
        let (mut answered, mut told) = (HashSet::new(), None);
        loop {
            if task.message.is_some() && task.message != told {
                told.clone_from(&task.message);
                if let Welcome::Heard(listener) = &mut request.progress {
                    listener(Progress { progress: 0.0, total: None, message: told.clone() });
                }
            }
            match task.status.as_str() {
                "working" => {}
                "input_required" => {
                    let mut needed = task.needed()?;
                    needed.requests.0.retain(|(key, _)| !answered.contains(key));
                    answered.extend(needed.requests.0.iter().map(|(key, _)| key.clone()));
                    if !needed.requests.0.is_empty() {
                        let answers = self.answer(live, needed.requests).await?;
                        let about = About { id: &id, headers: request.headers.as_ref() };
                        self.update_task(about, answers, budget).await?;
                    }
                }
                "completed" => return task.result().inspect(|_| unwanted.is_over()),
                "failed" => {
                    unwanted.is_over();
                    return Err(task.error());
                }
                "cancelled" => {
                    unwanted.is_over();
                    return Err(CallErrorKind::TaskCancelled(task.message.unwrap_or_default()));
                }
                other => return Err(malformed(format!("has the unknown status `{other}`"))),
            }
            let left = budget.left()?.total.unwrap_or_else(|| LONGEST.saturating_sub(began.elapsed()));
            if left.is_zero() {
                return Err(CallErrorKind::Timeout { deadline: Deadline::Total, after: LONGEST });
            }
            tokio::time::sleep(jittered(task.poll).min(left)).await;
            let (params, about) = (json!({ "taskId": id }), About { id: &id, headers: request.headers.as_ref() });
            let asked = self.ask_about_task("tasks/get", about, &params, budget.left()?);
            let polled = budget.within(asked).await?.map_err(|kind| budget.exceeded(kind).once_begun())?;
            task = Task::read(&polled).map_err(malformed)?;
        }
    }

    async fn update_task(&self, about: About<'_>, answers: Object, budget: &Budget) -> Result<(), CallErrorKind> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a> {
            task_id: &'a str,
            input_responses: Object,
        }
        let params = Params { task_id: about.id, input_responses: answers };
        let told = budget.within(self.ask_about_task("tasks/update", about, &params, budget.left()?)).await?;
        told.map(drop).map_err(|kind| budget.exceeded(kind).once_begun())
    }

    /// Asks something about a task, a few times where the server cannot be reached: asking twice does no harm.
    async fn ask_about_task<P: Serialize + Sync>(
        &self,
        method: &'static str,
        about: About<'_>,
        params: &P,
        limits: Limits,
    ) -> Result<Json, CallErrorKind> {
        let mut pauses = PAUSES.into_iter();
        loop {
            let asked = self.in_session(|live| {
                async move {
                    let mut request = Request::new(method, params, limits).about(about.id);
                    request.headers = about.headers.cloned();
                    let answer = live.speaker.send(&mut request, None).await;
                    answer.map_err(|kind| self.inner.call_error(&live, kind))
                }
                .boxed()
            });
            let error = match asked.await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let away = matches!(
                &error.kind,
                CallErrorKind::Connect(ConnectErrorKind::Transport(_) | ConnectErrorKind::Http(_))
            );
            match pauses.next().filter(|_| away || error.may_pass()) {
                Some(pause) => tokio::time::sleep(jittered(pause)).await,
                None => return Err(error.kind),
            }
        }
    }
}

/// A task, and the headers of the call it was made of: who it belongs to.
#[derive(Clone, Copy)]
struct About<'a> {
    id: &'a str,
    headers: Option<&'a Arc<HeaderMap>>,
}

/// Tells the server, when it is dropped, that a task is no longer wanted.
struct Unwanted {
    session: Weak<Inner>,
    speaker: Speaker,
    headers: Option<Arc<HeaderMap>>,
    id: Option<String>,
}

impl Unwanted {
    fn new(session: &Session, live: &Live, id: &str, headers: Option<Arc<HeaderMap>>) -> Self {
        session.inner.awaited.send_modify(|awaited| *awaited += 1);
        let (session, speaker) = (Arc::downgrade(&session.inner), live.speaker.clone());
        Self { session, speaker, headers, id: Some(id.to_owned()) }
    }

    fn is_over(&mut self) {
        self.id = None;
    }
}

impl Drop for Unwanted {
    fn drop(&mut self) {
        let Some(session) = self.session.upgrade() else { return };
        if let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current()) {
            self.cancel(&session, id, &runtime);
        }
        session.awaited.send_modify(|awaited| *awaited -= 1);
    }
}

impl Unwanted {
    fn cancel(&mut self, session: &Inner, id: String, runtime: &tokio::runtime::Handle) {
        // The task does not depend on the connection it was made on.
        let speaker = session.up().map_or_else(|| self.speaker.clone(), |live| live.speaker.clone());
        let headers = self.headers.take();
        let cancelling = async move {
            let limits = Limits { idle: CANCEL_LIMIT, total: Some(CANCEL_LIMIT), first_byte: CANCEL_LIMIT };
            let params = json!({ "taskId": id });
            let mut request = Request::new("tasks/cancel", &params, limits).about(&id);
            request.headers = headers;
            let _ = speaker.send(&mut request, None).await;
        };
        let mut farewells = session.farewells();
        while farewells.try_join_next().is_some() {}
        farewells.spawn_on(cancelling, runtime);
    }
}
