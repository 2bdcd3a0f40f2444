//! Calls that a server answers with a task: the task is polled until it has a result.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use http::HeaderMap;
use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;
use wharf_io::jittered;
use wharf_protocol::{Fields, Json};

use super::budget::Budget;
use super::object::Object;
use super::round::InputRequest;
use super::sender::{ProgressMode, Request, RequestSender};
use super::{Inner, Live, Session};
use crate::wire::Limits;
use crate::{CallErrorKind, ConnectErrorKind, Deadline, Progress};

/// The poll interval of servers that do not set one.
const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest poll interval that a server can set.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The longest poll interval that a server can set.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(60);
/// How long a task is polled if the call has no total limit.
const MAX_TASK_DURATION: Duration = Duration::from_secs(24 * 60 * 60);
/// The delays before the next try when the server is unreachable. The task continues without our connection.
const RETRY_DELAYS: [Duration; 4] =
    [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
/// Time for canceling a task.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// How a task delivers its result, and the requests that it has meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Delivery {
    /// In the state of the task, with its input requests: since 2026-07-28.
    InState,
    /// As the answer to `tasks/result`. Until then the server sends its requests like any other: 2025-11-25.
    OnRequest,
}

/// The state of a task, as the server last reported it.
struct Task {
    id: String,
    status: String,
    message: Option<String>,
    poll_interval: Duration,
    raw: Json,
}

impl Task {
    fn read(raw: &Json) -> Result<Self, String> {
        let fields = Fields::of(raw)?;
        let poll = ["pollIntervalMs", "pollInterval"].into_iter().find_map(|key| fields.number(key).ok().flatten());
        let poll = poll.filter(|poll| poll.is_finite() && *poll >= 0.0);
        let poll_interval = poll.map_or(DEFAULT_POLL_INTERVAL, |poll| {
            Duration::from_secs_f64((poll / 1000.0).min(MAX_POLL_INTERVAL.as_secs_f64()))
        });
        Ok(Self {
            id: fields.required_text("taskId")?,
            status: fields.required_text("status")?,
            message: fields.text("statusMessage").ok().flatten(),
            poll_interval: poll_interval.clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL),
            raw: raw.clone(),
        })
    }

    /// Returns the result of a completed task.
    fn result(&self) -> Result<Json, CallErrorKind> {
        let fields = Fields::of(&self.raw).map_err(CallErrorKind::Malformed)?;
        fields.json("result").ok_or_else(|| CallErrorKind::Malformed("the completed task has no result".into()))
    }

    /// Returns the error of a failed task.
    fn error(&self) -> CallErrorKind {
        let error = Fields::of(&self.raw).ok().and_then(|fields| fields.object("error").ok()?);
        let fields = error.as_ref().and_then(|error| Fields::of(error).ok());
        #[expect(clippy::cast_possible_truncation, reason = "codes are small; an absurd one is only displayed")]
        let code = fields.as_ref().and_then(|fields| fields.number("code").ok()?).unwrap_or(0.0) as i64;
        let message = fields.as_ref().and_then(|fields| fields.text("message").ok()?);
        let message = message.or_else(|| self.message.clone()).unwrap_or_else(|| "the task failed".to_owned());
        CallErrorKind::Server { code, message, data: fields.and_then(|fields| fields.json("data")) }
    }

    fn input(&self) -> Result<InputRequest, CallErrorKind> {
        let malformed = |reason| CallErrorKind::Malformed(format!("the task {reason}"));
        InputRequest::read(&Fields::of(&self.raw).map_err(malformed)?).map_err(malformed)
    }
}

impl Session {
    /// Polls the task that `created` announces until it ends. Dropping the future cancels the task.
    pub(super) async fn follow_task<P>(
        &self,
        live: &Live,
        created: &Json,
        request: &mut Request<'_, P>,
        budget: &Budget,
    ) -> Result<Json, CallErrorKind> {
        let malformed = |reason| CallErrorKind::Malformed(format!("the task {reason}"));
        let delivery = if live.sender.is_modern() { Delivery::InState } else { Delivery::OnRequest };
        let mut task = Task::read(created).map_err(malformed)?;
        let id = task.id.clone();
        let started_at = Instant::now();
        let mut cancel = CancelTaskOnDrop::new(self, live, &id, request.headers.clone());
        let mut answered = HashSet::new();
        let mut reported = None;
        loop {
            if task.message.is_some() && task.message != reported {
                reported.clone_from(&task.message);
                if let ProgressMode::Report(listener) = &mut request.progress {
                    listener(Progress { progress: 0.0, total: None, message: reported.clone() });
                }
            }
            let task_ref = TaskRef { id: &id, headers: request.headers.as_ref() };
            match task.status.as_str() {
                "working" => {}
                "input_required" | "completed" | "failed" if delivery == Delivery::OnRequest => {
                    let params = json!({ "taskId": id });
                    // Not within the budget, whose clock does not stop while the host answers; the limits' does.
                    let result = self.task_request("tasks/result", task_ref, &params, budget.left()?).await;
                    let ended = result.map_err(|kind| budget.exceeded(kind).once_begun());
                    let is_waiting = matches!(
                        &ended,
                        Err(CallErrorKind::Timeout { deadline: Deadline::FirstByte | Deadline::Idle, .. })
                    );
                    // After the input the task continues, and may take as long as one without input.
                    if task.status != "input_required" || !is_waiting {
                        if matches!(&ended, Ok(_) | Err(CallErrorKind::Server { .. })) {
                            cancel.disarm();
                        }
                        return ended;
                    }
                }
                "input_required" => {
                    let mut input = task.input()?;
                    input.requests.0.retain(|(key, _)| !answered.contains(key));
                    answered.extend(input.requests.0.iter().map(|(key, _)| key.clone()));
                    if !input.requests.0.is_empty() {
                        let answers = self.answer_inputs(live, input.requests).await?;
                        self.update_task(task_ref, answers, budget).await?;
                    }
                }
                "completed" => return task.result().inspect(|_| cancel.disarm()),
                "failed" => {
                    cancel.disarm();
                    return Err(task.error());
                }
                "cancelled" => {
                    cancel.disarm();
                    return Err(CallErrorKind::TaskCancelled(task.message.unwrap_or_default()));
                }
                other => return Err(malformed(format!("has the unknown status `{other}`"))),
            }
            let left = budget.left()?.total.unwrap_or_else(|| MAX_TASK_DURATION.saturating_sub(started_at.elapsed()));
            if left.is_zero() {
                return Err(CallErrorKind::Timeout { deadline: Deadline::Total, after: MAX_TASK_DURATION });
            }
            tokio::time::sleep(jittered(task.poll_interval).min(left)).await;
            let params = json!({ "taskId": id });
            let polling = self.task_request("tasks/get", task_ref, &params, budget.left()?);
            let polled = budget.within(polling).await?.map_err(|kind| budget.exceeded(kind).once_begun())?;
            task = Task::read(&polled).map_err(malformed)?;
        }
    }

    async fn update_task(&self, task: TaskRef<'_>, answers: Object, budget: &Budget) -> Result<(), CallErrorKind> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a> {
            task_id: &'a str,
            input_responses: Object,
        }
        let params = Params { task_id: task.id, input_responses: answers };
        let updated = budget.within(self.task_request("tasks/update", task, &params, budget.left()?)).await?;
        updated.map(drop).map_err(|kind| budget.exceeded(kind).once_begun())
    }

    /// Sends a request about a task, several times if the server is unreachable: these requests are idempotent.
    async fn task_request<P: Serialize + Sync>(
        &self,
        method: &'static str,
        task: TaskRef<'_>,
        params: &P,
        limits: Limits,
    ) -> Result<Json, CallErrorKind> {
        let mut delays = RETRY_DELAYS.into_iter();
        loop {
            let sending = self.with_session(|live| {
                async move {
                    let mut request = Request::new(method, params, limits).about(task.id);
                    request.headers = task.headers.cloned();
                    let answer = live.sender.send(&mut request, None).await;
                    answer.map_err(|kind| self.inner.call_error(&live, kind))
                }
                .boxed()
            });
            let error = match sending.await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let is_unreachable = matches!(
                &error.kind,
                CallErrorKind::Connect(ConnectErrorKind::Transport(_) | ConnectErrorKind::Http(_))
            );
            let delay = if is_unreachable || error.is_transient() { delays.next() } else { None };
            match delay {
                Some(delay) => tokio::time::sleep(jittered(delay)).await,
                None => return Err(error.kind),
            }
        }
    }
}

/// Returns the task in a result of 2025-11-25. In later revisions the task is the result.
pub(super) fn created_task(result: &Json) -> Option<Json> {
    Fields::of(result).ok()?.object("task").ok()?
}

/// A task, and the headers of the call that created it, which authorize access to it.
#[derive(Clone, Copy)]
struct TaskRef<'a> {
    id: &'a str,
    headers: Option<&'a Arc<HeaderMap>>,
}

/// Cancels a task on the server when dropped, unless it has been disarmed.
struct CancelTaskOnDrop {
    session: Weak<Inner>,
    sender: RequestSender,
    headers: Option<Arc<HeaderMap>>,
    id: Option<String>,
}

impl CancelTaskOnDrop {
    fn new(session: &Session, live: &Live, id: &str, headers: Option<Arc<HeaderMap>>) -> Self {
        session.inner.pending_tasks.send_modify(|pending| *pending += 1);
        Self { session: Arc::downgrade(&session.inner), sender: live.sender.clone(), headers, id: Some(id.to_owned()) }
    }

    /// Records that the task has ended.
    fn disarm(&mut self) {
        self.id = None;
    }

    fn cancel(&mut self, session: &Inner, id: String, runtime: &tokio::runtime::Handle) {
        // The task does not depend on the connection that created it.
        let sender = session.up().map_or_else(|| self.sender.clone(), |live| live.sender.clone());
        let headers = self.headers.take();
        let canceling = async move {
            let limits = Limits { idle: CANCEL_TIMEOUT, total: Some(CANCEL_TIMEOUT), first_byte: CANCEL_TIMEOUT };
            let params = json!({ "taskId": id });
            let mut request = Request::new("tasks/cancel", &params, limits).about(&id);
            request.headers = headers;
            let _ = sender.send(&mut request, None).await;
        };
        let mut cancels = session.pending_cancels();
        while cancels.try_join_next().is_some() {}
        cancels.spawn_on(canceling, runtime);
    }
}

impl Drop for CancelTaskOnDrop {
    fn drop(&mut self) {
        let Some(session) = self.session.upgrade() else { return };
        if let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current()) {
            self.cancel(&session, id, &runtime);
        }
        session.pending_tasks.send_modify(|pending| *pending -= 1);
    }
}
