//! The life of a tool call: check, send, wait, read, check again.

use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;
use wharf_protocol::{Hints, Json, ToolOutput, ToolResult};

use super::{Live, Session};
use crate::{CallError, CallErrorKind, Fault, Outcome, Progress};

/// How long a result waits for the list that it is checked against; then it is passed on unchecked.
const LIST_LIMIT: Duration = Duration::from_secs(30);

/// What is particular about one call.
#[derive(Default)]
pub struct CallOptions<'a> {
    /// The limit for the whole call.
    pub total: Option<Duration>,
    /// The limit for silence; progress starts it anew.
    pub idle: Option<Duration>,
    /// Hears of progress, in order, in the caller's own task, and never after the call has returned.
    pub progress: Option<&'a mut (dyn FnMut(Progress) + Send)>,
}

#[derive(Serialize)]
struct CallParams<'a> {
    name: &'a str,
    arguments: &'a Json,
    #[serde(rename = "_meta")]
    meta: Meta,
}

#[derive(Serialize)]
struct Meta {
    #[serde(rename = "progressToken")]
    progress_token: u64,
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
        let live = self.inner.ready().await?;
        let began = Instant::now();
        let admitted = admit(&live, tool, arguments).map_err(|kind| self.inner.call_error(&live, kind))?;
        let arguments = admitted.as_ref().unwrap_or(arguments);
        let error = match self.call_once(&live, tool, arguments, &mut options).await {
            Err(error) if may_repeat(&live, tool, &error) => error,
            result => return result,
        };
        tracing::debug!(server = %self.inner.name, tool, %error, "calling once more");
        drop(live);
        if let Some(total) = self.inner.limits(&options).total {
            // Both attempts together have the time of one.
            let Some(left) = total.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) else {
                return Err(error);
            };
            options.total = Some(left);
        }
        let again = async {
            let live = self.inner.ready().await?;
            self.call_once(&live, tool, arguments, &mut options).await
        };
        match again.await {
            // The repetition did not run, but the call itself may have.
            Err(second) if second.outcome() == Outcome::NotRun && error.outcome() == Outcome::Unknown => Err(error),
            result => result,
        }
    }

    /// Calls a tool for a model: whatever happens, there is a result that can be shown to it.
    pub async fn use_tool(&self, tool_use_id: &str, tool: &str, arguments: &Json) -> ToolResult {
        match self.call(tool, arguments).await {
            Ok(output) => ToolResult::from_output(tool_use_id, &output),
            // Without the server's stderr, which may hold what no model should see.
            Err(error) => ToolResult::error(tool_use_id, format!("{}: {}", error.server, error.kind)),
        }
    }

    async fn call_once(
        &self,
        live: &Live,
        tool: &str,
        arguments: &Json,
        options: &mut CallOptions<'_>,
    ) -> Result<ToolOutput, CallError> {
        let fail = |kind| self.inner.call_error(live, kind);
        let params = |id| CallParams { name: tool, arguments, meta: Meta { progress_token: id } };
        let limits = self.inner.limits(options);
        let progress = options.progress.as_mut().map(|progress| &mut **progress as _);
        let result = live.wire.request("tools/call", params, limits, progress).await.map_err(fail)?;

        let output = ToolOutput::from_json(&result)
            .map_err(|reason| fail(CallErrorKind::Malformed(format!("the result {reason}"))))?;
        if !output.is_error
            && let Err(fault) = self.check_output(live, tool, &output).await
        {
            let (tool, output) = (tool.to_owned(), Box::new(output));
            return Err(fail(CallErrorKind::Output { tool, fault, output }));
        }
        Ok(output)
    }

    /// Checks a result against the tool's output schema. If there is structured content and the tools have not been
    /// listed yet, they are now; a list that cannot be had leaves the result unchecked, not unusable.
    async fn check_output(&self, live: &Live, tool: &str, output: &ToolOutput) -> Result<(), Fault> {
        let structured = output.structured.as_ref();
        if structured.is_some() && live.tools.get().is_none() {
            // One caller asks for all of them, and asks only once where no list is to be had.
            let _turn = live.tools.one_at_a_time().await;
            if live.tools.get().is_none() && live.tools.may_be_listed() {
                let listed = tokio::time::timeout(LIST_LIMIT, self.list_tools_of(live)).await;
                if !matches!(listed, Ok(Ok(_))) {
                    tracing::warn!(server = %self.inner.name, tool, "results are not checked: the tools cannot be listed");
                    live.tools.cannot_be_listed();
                }
            }
        }
        match live.tools.get().as_ref().and_then(|tools| tools.get(tool)) {
            Some(known) => known.check_output(structured),
            None => Ok(()),
        }
    }
}

/// Whether a failed call may be sent once more.
fn may_repeat(live: &Live, tool: &str, error: &CallError) -> bool {
    let harmless = || {
        let hints = live.tools.get().and_then(|tools| Some(tools.get(tool)?.tool.hints));
        hints.is_some_and(Hints::safe_to_repeat)
    };
    match &error.kind {
        // It was never sent: the connection had ended before.
        CallErrorKind::Connect(kind) => !matches!(kind, crate::ConnectErrorKind::Closed),
        CallErrorKind::Lost(_) => harmless(),
        _ => false,
    }
}

/// Checks arguments against what is known of the tool, without asking the server.
fn admit(live: &Live, tool: &str, arguments: &Json) -> Result<Option<Json>, CallErrorKind> {
    let fault = |fault| CallErrorKind::Arguments { tool: tool.to_owned(), fault };
    if !arguments.is_object() {
        let message = "the arguments must be an object".to_owned();
        return Err(fault(Fault { path: String::new(), message }));
    }
    match live.tools.get().and_then(|tools| Some(tools.get(tool)?.admit(arguments))) {
        Some(admitted) => admitted.map_err(fault),
        None => Ok(None),
    }
}
