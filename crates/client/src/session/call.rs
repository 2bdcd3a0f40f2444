//! The life of a tool call: check, send, wait, read, check again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::HeaderMap;
use serde::Serialize;
use tokio::time::Instant;
use wharf_protocol::{Hints, Json, ToolOutput, ToolResult};

use super::budget::Budget;
use super::param_headers::ParamHeaders;
use super::sender::{ProgressMode, Request, shared_headers};
use super::{Live, Session};
use crate::era::HEADER_MISMATCH;
use crate::remote::parse_headers;
use crate::wire::NEVER;
use crate::{CallError, CallErrorKind, ConnectErrorKind, Evidence, Outcome, Progress, SchemaViolation, TraceContext};

/// How long a result waits for the list that it is checked against; then it is passed on unchecked.
const LIST_LIMIT: Duration = Duration::from_secs(30);

/// What is particular about one call.
#[derive(Default)]
pub struct CallOptions<'a> {
    /// The limit for the whole call.
    pub total: Option<Duration>,
    /// The limit for silence; progress starts it anew.
    pub idle: Option<Duration>,
    /// Headers for this call alone, over HTTP: a user's token, an id for tracing. Other transports have no place for them.
    pub headers: Vec<(String, String)>,
    /// Where the call belongs in a trace.
    pub trace: Option<TraceContext>,
    /// Hears of progress, in order, in the caller's own task, and never after the call has returned.
    pub progress: Option<&'a mut (dyn FnMut(Progress) + Send)>,
    /// The arguments have been checked, and mended, already.
    pub admitted: bool,
    /// What to do where the session that the call was meant for is gone.
    pub on_loss: OnLoss,
    /// The [epoch](Session::epoch) whose tools the caller has seen. The call is made on no other: it fails as one
    /// whose session was lost.
    pub epoch: Option<u64>,
}

/// What becomes of a call that did not run because its session, or its connection, was gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// It is sent again on a new session.
    #[default]
    Recover,
    /// It fails, and did not run. Whoever made it can look at the tools of the new session first.
    Report,
}

/// A call that may have to be sent more than once.
struct Call<'a, 'o> {
    tool: &'a str,
    arguments: &'a Json,
    options: &'a mut CallOptions<'o>,
}

#[derive(Serialize)]
struct CallParams<'a> {
    name: &'a str,
    arguments: &'a Json,
}

impl Session {
    /// Calls a tool. A tool that fails is an output; an error means there is no answer.
    pub async fn call(&self, tool: &str, arguments: &Json) -> Result<ToolOutput, CallError> {
        self.call_with(tool, arguments, CallOptions::default()).await
    }

    /// Calls a tool with options. Dropping the future cancels the call on the wire.
    ///
    /// A call that may have run is sent again, once, only if the tool says that doing it twice does no harm.
    pub async fn call_with(
        &self,
        tool: &str,
        arguments: &Json,
        mut options: CallOptions<'_>,
    ) -> Result<ToolOutput, CallError> {
        self.call_with_options(tool, arguments, &mut options).await
    }

    /// The same for one who may have to call again, and keeps the options: their total is what is left of it.
    pub async fn call_with_options(
        &self,
        tool: &str,
        arguments: &Json,
        options: &mut CallOptions<'_>,
    ) -> Result<ToolOutput, CallError> {
        let live = self.on(options.epoch).await?;
        let ends = self.inner.limits(options).total.map(|total| Instant::now() + total.min(NEVER));
        let mended = if options.admitted {
            None
        } else {
            admit(&live, tool, arguments).map_err(|kind| self.inner.call_error(&live, kind))?
        };
        let mut call = Call { tool, arguments: mended.as_ref().unwrap_or(arguments), options };
        let error = match self.call_once(&live, &mut call).await {
            Ok(output) => return Ok(output),
            Err(error) => error,
        };
        // Hardly any call comes here, and none should be as large as those that do.
        Box::pin(self.call_again(live, &mut call, ends, error)).await
    }

    /// Sends a call that has failed with `error` again, as often as it may be.
    async fn call_again(
        &self,
        mut live: Arc<Live>,
        call: &mut Call<'_, '_>,
        ends: Option<Instant>,
        mut error: CallError,
    ) -> Result<ToolOutput, CallError> {
        let tool = call.tool;
        // A lost session and a lost connection are different things, and each has its own allowance.
        let (mut sessions, mut repetitions) = (self.inner.options.session_retries, 1_u32);
        let mut unknown = None;
        loop {
            let lost = self.inner.has_lost(&live, &error);
            let again = if call.options.on_loss == OnLoss::Report && error.outcome() == Outcome::NotRun {
                None
            } else if lost {
                sessions.checked_sub(1).inspect(|left| sessions = *left)
            } else if may_repeat(&live, tool, &error) {
                repetitions.checked_sub(1).inspect(|left| repetitions = *left)
            } else {
                None
            };
            // All attempts together have the time of one.
            let left = ends.map(|ends| ends.saturating_duration_since(Instant::now()));
            if again.is_none() || left.is_some_and(|left| left.is_zero()) {
                return Err(first_unknown(unknown, error));
            }
            tracing::debug!(server = %self.inner.name, tool, %error, "calling once more");
            if error.outcome() == Outcome::Unknown {
                unknown = Some(error);
            }
            live = match self.on(call.options.epoch).await {
                Ok(live) => live,
                Err(error) => return Err(first_unknown(unknown, error)),
            };
            call.options.total = ends.map(|ends| ends.saturating_duration_since(Instant::now()));
            error = match self.call_once(&live, call).await {
                Ok(output) => return Ok(output),
                Err(error) => error,
            };
        }
    }

    /// The connection a call is made on: any, or only that of one epoch. Whoever wants that one does not want another
    /// to be opened, least of all on a session that was closed meanwhile.
    async fn on(&self, epoch: Option<u64>) -> Result<Arc<Live>, CallError> {
        let fits = |live: &Arc<Live>| epoch.is_none_or(|epoch| live.epoch == epoch);
        match self.inner.up().filter(fits) {
            Some(live) if !live.doubtful.load(Ordering::Relaxed) => Ok(live),
            _ => Box::pin(self.found(epoch)).await,
        }
    }

    async fn found(&self, epoch: Option<u64>) -> Result<Arc<Live>, CallError> {
        let Some(epoch) = epoch else { return Ok(self.inner.ready().await?) };
        let is_it = |live: &Arc<Live>| live.epoch == epoch;
        if let Some(live) = self.inner.up().filter(is_it)
            && (!live.doubtful.load(Ordering::Relaxed) || self.inner.is_alive(&live).await)
        {
            return Ok(live);
        }
        let (server, kind) = (self.inner.name.clone(), CallErrorKind::replaced());
        Err(CallError { server, kind, evidence: Evidence::default() })
    }

    /// Calls a tool for a model: whatever happens, there is a result that can be shown to it.
    pub async fn use_tool(&self, tool_use_id: &str, tool: &str, arguments: &Json) -> ToolResult {
        match self.call(tool, arguments).await {
            Ok(output) => ToolResult::from_output(tool_use_id, &output),
            // Without the server's stderr, which may hold what no model should see.
            Err(error) => ToolResult::error(tool_use_id, format!("{}: {}", error.server, error.kind)),
        }
    }

    async fn call_once(&self, live: &Live, call: &mut Call<'_, '_>) -> Result<ToolOutput, CallError> {
        let fail = |kind| self.inner.call_error(live, kind);
        let result = self.send_call(live, call).await.map_err(fail)?;

        let output = ToolOutput::from_json(&result)
            .map_err(|reason| fail(CallErrorKind::Malformed(format!("the result {reason}"))))?;
        if !output.is_error
            && let Err(fault) = self.check_output(live, call.tool, &output).await
        {
            let (tool, output) = (call.tool.to_owned(), Box::new(output));
            return Err(fail(CallErrorKind::Output { tool, fault, output }));
        }
        Ok(output)
    }

    async fn send_call(&self, live: &Live, call: &mut Call<'_, '_>) -> Result<Json, CallErrorKind> {
        let Call { tool, arguments, options } = call;
        let (params, limits) = (CallParams { name: tool, arguments }, self.inner.limits(options));
        let budget = Budget::new(live, limits);
        let age = live.cache.tools.age();
        let mut request = Request::new("tools/call", &params, limits).about(tool);
        request.headers = with_own(&options.headers, live.headers_for(tool, arguments))?;
        request.progress =
            options.progress.as_mut().map_or(ProgressMode::KeepAlive, |progress| ProgressMode::Report(&mut **progress));
        request.trace = options.trace.as_ref();
        // In a box, as a caller often has to put this whole future into one: two small ones are cheaper than a large one.
        let result = Box::pin(self.complete(live, &mut request, &budget)).await;
        let mismatch = matches!(&result, Err(CallErrorKind::Server { code: HEADER_MISMATCH, .. }));
        if !(mismatch && live.sender.is_modern() && !request.begun) {
            return result;
        }
        // The tool has become another one since it was listed; the call did not run.
        Box::pin(async {
            let listing = self.headers_afresh(live, (tool, arguments), age);
            let afresh = budget.within(listing).await?.map_err(|error| error.kind)?;
            request.headers = with_own(&options.headers, afresh)?;
            self.complete(live, &mut request, &budget).await
        })
        .await
    }

    /// The headers that a call needs by a list that is newer than what was known before: one is fetched for all who need it.
    async fn headers_afresh(
        &self,
        live: &Live,
        (tool, arguments): (&str, &Json),
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

    /// Checks a result against the tool's output schema. If there is structured content and the tools have not been
    /// listed yet, they are now; a list that cannot be had leaves the result unchecked, not unusable.
    async fn check_output(&self, live: &Live, tool: &str, output: &ToolOutput) -> Result<(), SchemaViolation> {
        let structured = output.structured.as_ref();
        if structured.is_some() && live.cache.tools.get().is_none() {
            // One caller asks for all of them, and asks only once where no list is to be had.
            let _turn = live.cache.tools.one_at_a_time().await;
            if live.cache.tools.get().is_none() && live.cache.tools.may_be_listed() {
                let listed = tokio::time::timeout(LIST_LIMIT, Box::pin(self.list_tools_of(live))).await;
                if !matches!(listed, Ok(Ok(_))) {
                    tracing::warn!(server = %self.inner.name, tool, "results are not checked: the tools cannot be listed");
                    live.cache.tools.cannot_be_listed();
                }
            }
        }
        match live.cache.tools.get().as_ref().and_then(|tools| tools.get(tool)) {
            Some(known) => known.check_output(structured),
            None => Ok(()),
        }
    }
}

/// The headers of a call: the caller's own, and those that the tool needs.
fn with_own(own: &[(String, String)], needed: HeaderMap) -> Result<Option<Arc<HeaderMap>>, CallErrorKind> {
    if own.is_empty() {
        return Ok(shared_headers(needed));
    }
    let mut headers = parse_headers(own).map_err(CallErrorKind::Headers)?;
    headers.extend(needed);
    Ok(shared_headers(headers))
}

impl Live {
    /// The headers that a call needs, as far as its tool is known.
    pub(super) fn headers_for(&self, tool: &str, arguments: &Json) -> HeaderMap {
        if !(self.sender.is_modern() && self.wire.supports_headers()) {
            return HeaderMap::new();
        }
        let tools = self.cache.tools.get();
        tools.and_then(|tools| Some(tools.get(tool)?.headers(arguments))).unwrap_or_default()
    }
}

/// What is to be said when the last attempt did not run, but one before it may have.
fn first_unknown(unknown: Option<CallError>, last: CallError) -> CallError {
    unknown.filter(|_| last.outcome() == Outcome::NotRun).unwrap_or(last)
}

/// Whether a failed call may be sent once more.
fn may_repeat(live: &Live, tool: &str, error: &CallError) -> bool {
    let harmless = || {
        let hints = live.cache.tools.get().and_then(|tools| Some(tools.get(tool)?.tool.hints));
        hints.is_some_and(Hints::safe_to_repeat)
    };
    match &error.kind {
        // It was never sent: the connection had ended before.
        CallErrorKind::Connect(kind) => live.wire.ending().is_some() && !matches!(kind, ConnectErrorKind::Closed),
        CallErrorKind::Lost(_) => harmless(),
        CallErrorKind::Http(status) => matches!(status.status, 502 | 504) && harmless(),
        _ => false,
    }
}

/// Checks arguments against what is known of the tool, without asking the server.
fn admit(live: &Live, tool: &str, arguments: &Json) -> Result<Option<Json>, CallErrorKind> {
    let fault = |fault| CallErrorKind::Arguments { tool: tool.to_owned(), fault };
    if !arguments.is_object() {
        let message = "the arguments must be an object".to_owned();
        return Err(fault(SchemaViolation { path: String::new(), message }));
    }
    match live.cache.tools.get().and_then(|tools| Some(tools.get(tool)?.admit(arguments))) {
        Some(admitted) => admitted.map_err(fault),
        None => Ok(None),
    }
}
