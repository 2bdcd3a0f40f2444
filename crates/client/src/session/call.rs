//! Tool calls: check the arguments, send, wait, read the result, check it, and retry what is safe to retry.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::HeaderMap;
use serde::Serialize;
use tokio::time::Instant;
use wharf_protocol::{Fields, Hints, Json, Listed, ServerName, Tool, ToolOutput, ToolResult};

use super::budget::Budget;
use super::param_headers::ParamHeaders;
use super::sender::{ProgressMode, Request, shared_headers};
use super::tools::NotAdmitted;
use super::{Live, Session};
use crate::era::HEADER_MISMATCH;
use crate::remote::parse_headers;
use crate::wire::NEVER;
use crate::{
    CallError, CallErrorKind, ConnectErrorKind, Deadline, Evidence, Outcome, Progress, SchemaViolation, TraceContext,
};

/// How long a call or its result waits for the tool list that it is checked against; after that it goes on unchecked.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a call is sent again because of a lost connection.
const CONNECTION_RETRIES: u32 = 1;

/// Options of one call.
#[derive(Default)]
pub struct CallOptions<'a> {
    /// The total timeout of the call, retries included.
    pub total: Option<Duration>,
    /// The idle timeout; progress restarts it.
    pub idle: Option<Duration>,
    /// HTTP headers for this call only, for example a user's token or a trace id. Other transports ignore them.
    pub headers: Vec<(String, String)>,
    /// The parent of the call in a distributed trace.
    pub trace: Option<TraceContext>,
    /// Receives progress in order, in the caller's task, and never after the call has returned.
    pub progress: Option<&'a mut (dyn FnMut(Progress) + Send)>,
    /// Whether the caller has already checked and repaired the arguments.
    pub admitted: bool,
    /// What to do if the session is gone.
    pub on_loss: OnLoss,
    /// Binds the call to the [epoch](Session::epoch) whose tools the caller has seen. On any other session it
    /// fails with [`CallErrorKind::SessionReplaced`].
    pub epoch: Option<u64>,
}

/// What to do with a call that did not run because its session or its connection was gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// Send it again on a new session.
    #[default]
    Recover,
    /// Return the error, so that the caller can look at the tools of the new session first.
    Report,
}

/// A call that may be sent more than once.
struct Call<'a, 'o> {
    tool: &'a str,
    arguments: &'a Json,
    options: &'a mut CallOptions<'o>,
    /// All attempts share the total timeout.
    deadline: Option<Instant>,
}

/// What is left of a call's retries after its first failure.
struct Retries {
    /// Retries on a new session after the server lost the old one.
    session: u32,
    /// Retries after a lost connection.
    connection: u32,
    /// The last error of an attempt that may have run.
    may_have_run: Option<CallError>,
}

#[derive(Serialize)]
struct CallParams<'a> {
    name: &'a str,
    arguments: &'a Json,
    /// Requests a task instead of a result, for tools of 2025-11-25 that work no other way.
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<TaskParams>,
}

/// What a client says about the task that it requests: nothing.
#[derive(Clone, Copy, Serialize)]
struct TaskParams {}

impl Session {
    /// Calls a tool. A tool that fails returns an output; an error means that no response arrived.
    pub async fn call(&self, tool: &str, arguments: &Json) -> Result<ToolOutput, CallError> {
        self.call_with(tool, arguments, CallOptions::default()).await
    }

    /// Calls a tool with options. Dropping the future cancels the call on the wire.
    ///
    /// Retries go by [`CallError::retry_safety`]: a call that may have run is sent again, once, only if its tool declares
    /// itself read-only or idempotent.
    pub async fn call_with(
        &self,
        tool: &str,
        arguments: &Json,
        mut options: CallOptions<'_>,
    ) -> Result<ToolOutput, CallError> {
        let mut live = self.connection(options.epoch).await?;
        let deadline = self.inner.limits(&options).total.map(|total| Instant::now() + total.min(NEVER));
        let repaired = if options.admitted {
            None
        } else {
            let admitted = before(deadline, admit(&self.inner.name, &live, tool, arguments)).await;
            admitted
                .unwrap_or_else(|| Err(CallErrorKind::CheckTimedOut { tool: tool.to_owned() }))
                .map_err(|kind| self.inner.call_error(&live, kind))?
        };
        let arguments = repaired.as_ref().unwrap_or(arguments);
        let mut call = Call { tool, arguments, options: &mut options, deadline };
        let mut retries = None;
        loop {
            let error = match self.attempt(&live, &mut call).await {
                Ok(output) => return Ok(output),
                Err(error) => error,
            };
            // Few calls fail. What only they need is boxed, which keeps the future of all others small.
            live = Box::pin(self.before_retry(&live, &mut call, &mut retries, error)).await?;
        }
    }

    /// Returns the connection for the next attempt of a call that failed with `error`, or the error to return.
    async fn before_retry(
        &self,
        live: &Live,
        call: &mut Call<'_, '_>,
        retries: &mut Option<Box<Retries>>,
        error: CallError,
    ) -> Result<Arc<Live>, CallError> {
        let retries = retries.get_or_insert_with(|| {
            let session = self.inner.options.session_retries;
            Box::new(Retries { session, connection: CONNECTION_RETRIES, may_have_run: None })
        });
        let session_lost = self.inner.has_lost(live, &error);
        let left = if session_lost { &mut retries.session } else { &mut retries.connection };
        // On a connection that still works, a request that could not be sent would fail the same way.
        let is_pointless = matches!(error.kind, CallErrorKind::Connect(_)) && live.wire.ending().is_none();
        let is_reported = call.options.on_loss == OnLoss::Report && error.outcome() == Outcome::NotRun;
        let may_retry = error.retry_safety(live.hints(call.tool)).allows_retry() && !is_pointless && !is_reported;
        if !may_retry || *left == 0 || call.time_left().is_some_and(|left| left.is_zero()) {
            return Err(retries.result(error));
        }
        *left -= 1;
        tracing::debug!(server = %self.inner.name, tool = call.tool, %error, "retrying a call");
        if error.outcome() == Outcome::Unknown {
            retries.may_have_run = Some(error);
        }
        let live = self.connection(call.options.epoch).await.map_err(|error| retries.result(error))?;
        call.options.total = call.time_left();
        Ok(live)
    }

    /// Returns the connection for a call: the current one, or only that of one epoch. A call that is bound to a
    /// epoch never opens a connection, least of all on a session that was closed in the meantime.
    async fn connection(&self, epoch: Option<u64>) -> Result<Arc<Live>, CallError> {
        let matches = |live: &Arc<Live>| epoch.is_none_or(|epoch| live.epoch == epoch);
        match self.inner.up().filter(matches) {
            Some(live) if !live.doubtful.load(Ordering::Relaxed) => Ok(live),
            _ => Box::pin(self.checked_connection(epoch)).await,
        }
    }

    async fn checked_connection(&self, epoch: Option<u64>) -> Result<Arc<Live>, CallError> {
        let Some(epoch) = epoch else { return Ok(self.inner.ready().await?) };
        if let Some(live) = self.inner.up()
            && live.epoch == epoch
            && (!live.doubtful.load(Ordering::Relaxed) || self.inner.is_alive(&live).await)
        {
            return Ok(live);
        }
        let server = self.inner.name.clone();
        Err(CallError { server, kind: CallErrorKind::SessionReplaced, evidence: Evidence::default() })
    }

    /// Calls a tool for a model. Failures become results that can be shown to it.
    pub async fn use_tool(&self, tool_use_id: &str, tool: &str, arguments: &Json) -> ToolResult {
        match self.call(tool, arguments).await {
            Ok(output) => ToolResult::from_output(tool_use_id, &output),
            // Without the server's stderr, which may contain what no model should see.
            Err(error) => ToolResult::error(tool_use_id, format!("{}: {}", error.server, error.kind)),
        }
    }

    /// Sends a call once, reads its result and checks it against the output schema.
    async fn attempt(&self, live: &Live, call: &mut Call<'_, '_>) -> Result<ToolOutput, CallError> {
        let fail = |kind| self.inner.call_error(live, kind);
        let Call { tool, arguments, options, deadline } = call;
        let result = {
            let mut limits = self.inner.limits(options);
            let total = limits.total;
            // Few servers have tasks, and every call passes here.
            let is_task = if live.has_task_calls {
                let requires = before(*deadline, Box::pin(self.requires_task(live, tool))).await;
                let timeout = ConnectErrorKind::Timeout(limits.total.unwrap_or_default());
                let requires = requires.ok_or_else(|| fail(CallErrorKind::Connect(timeout)))?;
                // The list may have taken some of the call's time.
                limits.total = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
                requires
            } else {
                false
            };
            let task = is_task.then_some(TaskParams {});
            let params = CallParams { name: tool, arguments, task };
            let budget = Budget::new(live, limits);
            let age = live.cache.tools.age();
            let mut request = Request::new("tools/call", &params, limits).about(tool);
            request.headers = with_own(&options.headers, live.headers_for(tool, arguments)).map_err(fail)?;
            request.progress = options
                .progress
                .as_mut()
                .map_or(ProgressMode::KeepAlive, |progress| ProgressMode::Report(&mut **progress));
            request.trace = options.trace.as_ref();
            request.expects_task = task.is_some();
            // Boxed, because callers often have to box this whole future: two small boxes are cheaper than a large one.
            let result = Box::pin(self.complete(live, &mut request, &budget)).await;
            let mismatch = matches!(&result, Err(CallErrorKind::Server { code: HEADER_MISMATCH, .. }));
            let result = if mismatch && live.sender.is_modern() && !request.begun {
                // The tool has changed since it was listed, and the call did not run: send it with the new headers.
                let resent = async {
                    let listing = self.headers_from_new_list(live, tool, arguments, age);
                    let headers = budget.within(listing).await?.map_err(|error| error.kind)?;
                    request.headers = with_own(&options.headers, headers)?;
                    self.complete(live, &mut request, &budget).await
                };
                Box::pin(resent).await
            } else {
                result
            };
            // The error quotes the timeout as it was set.
            result.map_err(|kind| match (kind, total) {
                (CallErrorKind::Timeout { deadline: Deadline::Total, .. }, Some(after)) => {
                    CallErrorKind::Timeout { deadline: Deadline::Total, after }
                }
                (kind, _) => kind,
            })
        };
        let output = ToolOutput::from_json(&result.map_err(fail)?)
            .map_err(|reason| fail(CallErrorKind::Malformed(format!("the result {reason}"))))?;
        if !output.is_error
            && let Err(fault) = self.check_output(*deadline, live, tool, &output).await
        {
            let tool = (*tool).to_owned();
            return Err(fail(CallErrorKind::Output { tool, fault, output: Box::new(output) }));
        }
        Ok(output)
    }

    /// Returns the headers of a call by a tool list newer than `age`. Concurrent calls share one list request.
    async fn headers_from_new_list(
        &self,
        live: &Live,
        tool: &str,
        arguments: &Json,
        age: u64,
    ) -> Result<HeaderMap, CallError> {
        let _turn = live.cache.tools.one_at_a_time().await;
        if live.cache.tools.age() == age {
            live.cache.forget_tools();
        }
        let listed = self.list_tools_of(live).await?;
        let found = listed.items.iter().find(|listed| *listed.name == *tool);
        Ok(found
            .map(|tool| ParamHeaders::read(&tool.input_schema).unwrap_or_default().headers(arguments))
            .unwrap_or_default())
    }

    /// Whether a tool of a legacy session works only as a task. Later revisions let the server decide.
    async fn requires_task(&self, live: &Live, tool: &str) -> bool {
        // A list that was invalidated while it was read is not stored.
        let listed = self.ensure_listed(live).await;
        let listed = listed.iter().flat_map(|listed| &listed.items).find(|listed| *listed.name == *tool);
        let known = live.cache.tools.get();
        let known = known.as_ref().and_then(|known| known.get(tool)).map(|known| &known.tool);
        known.or(listed).is_some_and(|tool| requires_task(tool))
    }

    /// Lists the tools, unless they are known or could not be listed before. Returns a new list.
    async fn ensure_listed(&self, live: &Live) -> Option<Listed<Tool>> {
        if live.cache.tools.get().is_some() {
            return None;
        }
        // One caller lists for all, and a list that failed is not requested again.
        let _turn = live.cache.tools.one_at_a_time().await;
        if live.cache.tools.get().is_some() || !live.cache.tools.may_be_listed() {
            return None;
        }
        let listed = tokio::time::timeout(LIST_TIMEOUT, Box::pin(self.list_tools_of(live))).await;
        let listed = listed.ok().and_then(Result::ok);
        if listed.is_none() {
            tracing::warn!(server = %self.inner.name, "cannot list the tools, so results are not checked");
            live.cache.tools.cannot_be_listed();
        }
        listed
    }

    /// Checks a result against the tool's output schema. Lists the tools first if there is structured content and they
    /// have not been listed. If they cannot be listed, or if the check takes until the deadline, the result stays
    /// unchecked: it has arrived and is not lost for that.
    async fn check_output(
        &self,
        deadline: Option<Instant>,
        live: &Live,
        tool: &str,
        output: &ToolOutput,
    ) -> Result<(), SchemaViolation> {
        let structured = output.structured.as_ref();
        if structured.is_some() {
            self.ensure_listed(live).await;
        }
        let tools = live.cache.tools.get();
        let Some(known) = tools.as_ref().and_then(|tools| tools.get(tool)) else { return Ok(()) };
        before(deadline, known.check_output(&self.inner.name, structured)).await.unwrap_or_else(|| {
            tracing::warn!(server = %self.inner.name, tool, "a result is not checked: that took until the deadline");
            Ok(())
        })
    }
}

impl Call<'_, '_> {
    fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }
}

impl Retries {
    /// Returns the error of the whole call: that of an attempt that may have run, if the last one did not run.
    fn result(&mut self, last: CallError) -> CallError {
        match self.may_have_run.take() {
            Some(error) if last.outcome() == Outcome::NotRun => error,
            _ => last,
        }
    }
}

/// Whether a tool can be called only as a task (2025-11-25).
fn requires_task(tool: &Tool) -> bool {
    let execution = Fields::of(&tool.raw).ok().and_then(|fields| fields.object("execution").ok().flatten());
    let support = execution.and_then(|execution| Fields::of(&execution).ok()?.text("taskSupport").ok().flatten());
    support.as_deref() == Some("required")
}

/// Joins the caller's headers and those that the tool needs.
fn with_own(own: &[(String, String)], needed: HeaderMap) -> Result<Option<Arc<HeaderMap>>, CallErrorKind> {
    if own.is_empty() {
        return Ok(shared_headers(needed));
    }
    let mut headers = parse_headers(own).map_err(CallErrorKind::Headers)?;
    headers.extend(needed);
    Ok(shared_headers(headers))
}

impl Live {
    /// Returns the headers that a call needs, as far as its tool is known.
    pub(super) fn headers_for(&self, tool: &str, arguments: &Json) -> HeaderMap {
        if !(self.sender.is_modern() && self.wire.supports_headers()) {
            return HeaderMap::new();
        }
        let tools = self.cache.tools.get();
        tools.and_then(|tools| Some(tools.get(tool)?.headers(arguments))).unwrap_or_default()
    }

    fn hints(&self, tool: &str) -> Option<Hints> {
        let tools = self.cache.tools.get()?;
        Some(tools.get(tool)?.tool.hints)
    }
}

/// Runs work until a deadline; `None` after it.
async fn before<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, work).await.ok(),
        None => Some(work.await),
    }
}

/// Checks and repairs arguments by the cached schema of the tool, without a request.
async fn admit(server: &ServerName, live: &Live, tool: &str, arguments: &Json) -> Result<Option<Json>, CallErrorKind> {
    let fault = |fault| CallErrorKind::Arguments { tool: tool.to_owned(), fault };
    if !arguments.is_object() {
        let message = "the arguments must be an object".to_owned();
        return Err(fault(SchemaViolation::of_whole(message)));
    }
    match live.cache.tools.get().as_ref().and_then(|tools| tools.get(tool)) {
        Some(known) => known.admit(server, arguments).await.map_err(|refused| match refused {
            NotAdmitted::Violation(violation) => fault(violation),
            NotAdmitted::TimedOut => CallErrorKind::CheckTimedOut { tool: tool.to_owned() },
        }),
        None => SchemaViolation::in_text(arguments).map(|_| None).map_err(fault),
    }
}
