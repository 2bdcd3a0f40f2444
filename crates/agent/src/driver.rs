//! Executes the steps of a run: sends model requests, calls tools, and reports events.

mod checkpoint;
mod compact;
mod context;
mod no_tools;
mod replay;
mod settings;
mod spans;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;
use tracing::Instrument as _;
use wharf_protocol::{CallFailed, Json, ToolCall, ToolDefinition, ToolOutput, ToolSource, Tools};

use crate::compaction::ContextBudget;
use crate::middleware::{
    AttemptTimeout, Caching, ConcurrencyLimit, LoopGuard, Middleware, ModelLayer, ModelRetry, NextModel, NextTool,
    OnModelFailure, OnToolFailure, ToolLayer, ToolRetry, hints,
};
use crate::run::failure_text;
use crate::{
    AgentEvent, AgentResult, BlockedCall, CompactionReason, Delta, EventSink, Limit, Model, ModelError, ModelErrorKind,
    ModelOptions, ModelRequest, ModelResponse, OfferedTools, RequestPurpose, Run, RunEnd, Step,
};
use compact::{Compactor, LongRequest};
use context::RequestContext;

pub use checkpoint::{Checkpoint, CheckpointFile, OnCheckpointFailure};
pub use no_tools::NoTools;

/// The least size of a request that can be too long, in tokens. A shorter one was rejected for another reason.
const MIN_OVERFLOW: u64 = 1_024;

/// A model with tools, options and middleware. Executes [`Run`]s.
///
/// One agent can execute many runs, also concurrently. The tools of each turn come from the [`ToolSource`]; they may
/// change between turns, never within one.
#[derive(Clone)]
pub struct Agent {
    model: Arc<dyn Model>,
    tools: Arc<dyn ToolSource>,
    options: ModelOptions,
    middleware: Middleware,
    concurrency_limit: Option<ConcurrencyLimit>,
    attempt_timeout: Option<Duration>,
    context_window: Option<u64>,
    model_layers: Vec<Arc<dyn ModelLayer>>,
    tool_layers: Vec<Arc<dyn ToolLayer>>,
    sink: Arc<dyn EventSink>,
    checkpoint: Option<Arc<dyn Checkpoint>>,
    on_checkpoint_failure: OnCheckpointFailure,
    drain_timeout: Duration,
}

/// What a canceled run waits for.
#[derive(Default)]
struct Draining {
    /// Whether tool calls are in flight. They may have effects, so they get time to finish; a model request does not.
    is_calling: AtomicBool,
    /// Whether the run shall not start another step.
    is_stopping: AtomicBool,
}

/// A run that failed under a setting `on_failure: raise`. The partial result is not lost.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct AgentError {
    /// Why the run failed.
    pub reason: String,
    /// The model error, if it is the reason.
    pub model: Option<ModelError>,
    /// The partial result.
    pub result: Box<AgentResult>,
}

struct NoEvents;

impl EventSink for NoEvents {
    fn event(&self, _: AgentEvent) {}
}

/// The layers of one run.
struct Layers {
    model: Vec<Arc<dyn ModelLayer>>,
    tools: Vec<Arc<dyn ToolLayer>>,
}

/// The request of one turn, without its messages.
#[derive(Clone, Copy)]
struct TurnRequest<'a> {
    tools: &'a Arc<dyn Tools>,
    offered: &'a OfferedTools,
    /// Whether the model may call tools.
    may_call: bool,
    layers: &'a Layers,
}

impl<'a> TurnRequest<'a> {
    fn offered(&self) -> &'a [ToolDefinition] {
        if self.may_call { &self.offered.tools } else { &[] }
    }
}

impl Agent {
    /// The context window, in tokens, of a model whose own one is unknown.
    pub const DEFAULT_CONTEXT_WINDOW: u64 = 100_000;

    /// Creates an agent with default options and middleware.
    pub fn new(model: Arc<dyn Model>, tools: Arc<dyn ToolSource>) -> Self {
        Self {
            model,
            tools,
            options: ModelOptions::default(),
            middleware: Middleware::default(),
            concurrency_limit: None,
            attempt_timeout: None,
            context_window: None,
            model_layers: Vec::new(),
            tool_layers: Vec::new(),
            sink: Arc::new(NoEvents),
            checkpoint: None,
            on_checkpoint_failure: OnCheckpointFailure::default(),
            drain_timeout: Duration::ZERO,
        }
    }

    /// Executes a run until it ends or `cancelled` completes. Canceling drops the pending model request, and cancels
    /// pending tool calls at their servers after the [drain timeout](Self::with_drain_timeout).
    ///
    /// # Errors
    /// Returns an error only under a setting `on_failure: raise`. Otherwise failures are in [`AgentResult::stop`].
    pub async fn run(&self, run: &mut Run, cancelled: impl Future<Output = ()>) -> Result<AgentResult, AgentError> {
        self.run_until(run, async {
            cancelled.await;
            RunEnd::Cancelled
        })
        .await
    }

    /// Executes a run until it ends or `stopped` returns why it has to end. Otherwise like [`Agent::run`].
    ///
    /// # Errors
    /// Returns an error only under a setting `on_failure: raise`.
    pub async fn run_until(
        &self,
        run: &mut Run,
        stopped: impl Future<Output = RunEnd>,
    ) -> Result<AgentResult, AgentError> {
        let span = spans::run(run, &*self.model);
        self.run_to_end(run, stopped).instrument(span).await
    }

    async fn run_to_end(
        &self,
        run: &mut Run,
        stopped: impl Future<Output = RunEnd>,
    ) -> Result<AgentResult, AgentError> {
        let layers = self.layers();
        self.sink.event(AgentEvent::RunStarted {
            session_id: run.session_id().to_owned(),
            interface: self.model.interface().to_owned(),
            model: self.model.name().to_owned(),
            resumed: run.turns() > 0,
        });
        let start = Instant::now();
        let time_limit = run.limits().time;
        let elapsed_before = run.elapsed();
        let remaining = time_limit.map(|limit| limit.saturating_sub(elapsed_before));
        let timeout = async {
            match remaining {
                Some(remaining) => tokio::time::sleep(remaining).await,
                None => std::future::pending().await,
            }
        };
        let clock = || elapsed_before.saturating_add(start.elapsed());
        spans::step("execute");
        self.replay_prepared(run);
        let draining = Draining::default();
        let (raised, interrupted) = {
            let driving = self.drive(run, &layers, &clock, &draining);
            tokio::pin!(driving);
            tokio::select! {
                biased;
                raised = &mut driving => (raised, None),
                end = stopped => {
                    draining.is_stopping.store(true, Ordering::Relaxed);
                    if draining.is_calling.load(Ordering::Relaxed) {
                        let _ = tokio::time::timeout(self.drain_timeout, driving).await;
                    }
                    (None, Some(end))
                }
                () = timeout => {
                    let seconds = time_limit.unwrap_or_default().as_secs();
                    (None, Some(RunEnd::Limit(Limit::Time { seconds })))
                }
            }
        };
        spans::step("capture");
        run.set_elapsed(clock());
        if let Some(stop) = interrupted {
            let reported = run.reached().len();
            run.interrupt(stop);
            self.report_limits(run, reported);
        }
        if let Err(reason) = self.try_save(run).await {
            self.warn_unsaved(&reason);
        }
        spans::step("convert");
        let result = AgentResult::from_run(run);
        let error = match &result.stop {
            RunEnd::ModelFailed(error) => Some(error.clone()),
            _ => None,
        };
        self.sink.event(AgentEvent::Finished {
            stop: result.stop.as_str(),
            error: error.clone(),
            turns: result.turns,
            usage: result.usage,
        });
        spans::step("return");
        match (error, raised) {
            (Some(error), _) if self.middleware.model_retry.on_failure == OnModelFailure::Raise => Err(AgentError {
                reason: format!("model {}:{} failed: {error}", self.model.interface(), self.model.name()),
                model: Some(error),
                result: Box::new(result),
            }),
            (_, Some(reason)) => Err(AgentError { reason, model: None, result: Box::new(result) }),
            _ => Ok(result),
        }
    }

    /// Executes steps until the run ends. Returns the tool failure that ended it, if failures are raised.
    async fn drive(
        &self,
        run: &mut Run,
        layers: &Layers,
        clock: &(dyn Fn() -> Duration + Sync),
        draining: &Draining,
    ) -> Option<String> {
        let mut turn: Option<Arc<dyn Tools>> = None;
        let mut context = RequestContext::new(&*self.model, self.context_window);
        if run.has_pending_calls() {
            let tools = self.tools.turn();
            run.recheck_pending(|name| hints(&*tools, name));
            turn = Some(tools);
        }
        loop {
            if draining.is_stopping.load(Ordering::Relaxed) {
                return None;
            }
            let reported = run.reached().len();
            let step = run.step();
            run.set_elapsed(clock());
            self.report_limits(run, reported);
            match step {
                Step::Done(_) => return None,
                Step::CallModel { tools } => {
                    let tools_now = self.tools.turn();
                    self.trace_instructions(run, &*tools_now);
                    if let Err(reason) = self.save(run).await {
                        run.interrupt(RunEnd::CheckpointFailed(reason));
                        return None;
                    }
                    let offered = context.offer(&tools_now, run.found_tools(), &self.middleware.tool_search).await;
                    let request = TurnRequest { tools: &tools_now, offered: &offered, may_call: tools, layers };
                    if let Err(reason) = self.call_model(run, request, &mut context).await {
                        run.interrupt(RunEnd::CheckpointFailed(reason));
                        return None;
                    }
                    turn = Some(tools_now);
                }
                Step::CallTools(batch) => {
                    let tools_now = turn.get_or_insert_with(|| self.tools.turn()).clone();
                    if let Err(reason) = self.save(run).await {
                        run.take_back(&batch);
                        run.interrupt(RunEnd::CheckpointFailed(reason));
                        return None;
                    }
                    draining.is_calling.store(true, Ordering::Relaxed);
                    let failed = self.call_tools(run, &*tools_now, &batch, layers).await;
                    draining.is_calling.store(false, Ordering::Relaxed);
                    if let Some(failed) = failed {
                        run.interrupt(RunEnd::ToolFailed(failed.clone()));
                        return Some(failed);
                    }
                }
            }
        }
    }

    /// Sends the request of the next turn. A conversation that is too long is compacted before, and if the provider rejects
    /// it as too long. The error says why the run cannot be saved.
    async fn call_model(
        &self,
        run: &mut Run,
        request: TurnRequest<'_>,
        context: &mut RequestContext<'_>,
    ) -> Result<(), String> {
        let TurnRequest { tools, layers, .. } = request;
        let overhead = context.overhead(&**tools, request.offered);
        let tokens = run.request_tokens(overhead);
        let settings = &self.middleware.summarization;
        let budget = context.budget(run, settings, self.options.max_tokens, tokens).await;
        if let Some(budget) = budget.filter(|budget| tokens >= budget.trigger) {
            let reason = CompactionReason::Threshold;
            self.compact_and_save(run, LongRequest { reason, budget, tokens, overhead }, layers).await?;
        }
        let turn = run.turns().saturating_add(1);
        self.sink.event(AgentEvent::TurnStarted { turn, tools: request.offered().len() });
        let mut result = self.request(run, request).await;
        if let Err(error) = &result
            && error.kind == ModelErrorKind::ContextTooLong
            && let tokens = run.request_tokens(overhead)
            && settings.enabled
            && tokens >= MIN_OVERFLOW
        {
            let budget = match budget {
                Some(budget) => budget,
                // The provider's window is smaller than the least one that is assumed.
                None => ContextBudget::of_rejected(tokens, settings.keep_messages),
            };
            let reason = CompactionReason::Overflow;
            if self.compact_and_save(run, LongRequest { reason, budget, tokens, overhead }, layers).await? {
                result = self.request(run, request).await;
            }
        }
        match result {
            Ok(response) => {
                let reported = run.reached().len();
                self.sink.event(AgentEvent::ModelMessage {
                    message: response.message.clone(),
                    stop: response.stop.clone(),
                    usage: response.usage,
                });
                run.on_response(response, |name| hints(&**tools, name));
                self.report_limits(run, reported);
            }
            Err(error) => run.on_model_error(error),
        }
        Ok(())
    }

    /// Compacts the conversation. Returns whether the next request is shorter.
    async fn compact_and_save(&self, run: &mut Run, long: LongRequest, layers: &Layers) -> Result<bool, String> {
        let compacted = Compactor::new(self, layers, long).compact(run).await;
        run.request_tokens(long.overhead);
        // The summary may have been paid for.
        self.save(run).await.map(|()| compacted)
    }

    /// Sends one request of a turn.
    async fn request(&self, run: &Run, request: TurnRequest<'_>) -> Result<ModelResponse, ModelError> {
        let TurnRequest { tools, layers, .. } = request;
        let on_delta = |delta: Delta| self.sink.event(AgentEvent::ModelDelta(delta));
        let request = ModelRequest {
            messages: run.visible_messages(),
            instructions: tools.instructions(),
            tools: request.offered(),
            all_tools: &request.offered.tools,
            options: &self.options,
            purpose: RequestPurpose::Turn { compactions: run.compactions().len() },
            on_delta: &on_delta,
        };
        let next = NextModel { layers: &layers.model, model: &*self.model, sink: &*self.sink };
        let span = spans::model_request(&*self.model);
        let result = next.complete(request).instrument(span.clone()).await;
        spans::model_response(&span, &result);
        result
    }

    /// Executes calls concurrently. Returns the failure that ends the run, if failures are raised.
    async fn call_tools(
        &self,
        run: &mut Run,
        turn: &dyn Tools,
        batch: &[(usize, ToolCall)],
        layers: &Layers,
    ) -> Option<String> {
        let next = NextTool { layers: &layers.tools, tools: turn, sink: &*self.sink };
        let mut calls: FuturesUnordered<_> = batch
            .iter()
            .map(|(index, call)| async move {
                let ToolCall { id, name, arguments } = call.clone();
                self.sink.event(AgentEvent::ToolStarted { id, name, arguments });
                let start = Instant::now();
                let asked_before = turn.time_asked();
                let span = spans::tool_call(call);
                let result = next.call(call).instrument(span.clone()).await;
                spans::tool_result(&span, &result);
                // The user's time is not the tool's.
                let asked = turn.time_asked().saturating_sub(asked_before);
                (*index, call, result, start.elapsed().saturating_sub(asked))
            })
            .collect();
        let mut raised = None;
        while let Some((index, call, result, duration)) = calls.next().await {
            self.report_finished(call, &result, duration);
            if let (Err(failed), OnToolFailure::Raise) = (&result, self.middleware.tool_retry.on_failure) {
                raised = raised.or_else(|| Some(failed.to_string()));
            }
            add_found_tools(run, turn, call, &result);
            run.on_tool_result(index, result);
            // Saved at once, so that a finished call is never repeated. If that fails, the next step decides.
            let _ = self.try_save(run).await;
        }
        raised
    }

    fn report_finished(&self, call: &ToolCall, result: &Result<ToolOutput, CallFailed>, duration: Duration) {
        let (is_error, output) = match result {
            Ok(output) => (output.is_error, output.raw.clone()),
            Err(failed) => (true, Json::from(serde_json::Value::String(failure_text(failed)))),
        };
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self.sink.event(AgentEvent::ToolFinished {
            id: call.id.clone(),
            name: call.name.clone(),
            is_error,
            output,
            millis,
        });
    }

    /// Reports limits and the calls that they prevented. `reported` is the number of limits that were reported before.
    fn report_limits(&self, run: &mut Run, reported: usize) {
        for limit in &run.reached()[reported..] {
            self.sink.event(AgentEvent::LimitReached { limit: limit.clone() });
        }
        for BlockedCall { call: ToolCall { id, name, arguments }, limit } in run.take_blocked() {
            self.sink.event(AgentEvent::ToolBlocked { id, name, arguments, limit });
        }
    }

    /// Saves the run before a step. The error ends the run, unless it may continue unsaved.
    async fn save(&self, run: &Run) -> Result<(), String> {
        let Err(reason) = self.try_save(run).await else { return Ok(()) };
        if self.on_checkpoint_failure == OnCheckpointFailure::Stop {
            return Err(reason);
        }
        self.warn_unsaved(&reason);
        Ok(())
    }

    async fn try_save(&self, run: &Run) -> Result<(), String> {
        match &self.checkpoint {
            Some(checkpoint) => checkpoint.save(run).await,
            None => Ok(()),
        }
    }

    fn warn_unsaved(&self, reason: &str) {
        self.sink.event(AgentEvent::Warning { message: format!("failed to save the run: {reason}") });
    }

    /// Reports the instructions of the next request if they changed.
    fn trace_instructions(&self, run: &mut Run, turn: &dyn Tools) {
        if run.set_instructions(turn.instructions()) {
            let servers = turn.instructions().to_vec();
            self.sink.event(AgentEvent::Instructions { turn: run.turns().saturating_add(1), servers });
        }
    }

    /// Ends a new run at once if the model has all of it prepared.
    fn replay_prepared(&self, run: &mut Run) {
        if run.turns() > 0 || run.stop().is_some() {
            return;
        }
        match self.model.prepared(run.messages()) {
            None => {}
            Some(Ok(prepared)) => {
                replay::report(&prepared, &*self.sink);
                run.replay(prepared);
            }
            Some(Err(error)) => run.on_model_error(error),
        }
    }

    fn layers(&self) -> Layers {
        let mut model = self.model_layers.clone();
        model.push(Arc::new(Caching::new(self.middleware.prompt_caching.clone())));
        let retry = ModelRetry::new(self.middleware.model_retry.clone(), self.concurrency_limit.clone());
        model.push(Arc::new(retry));
        if let Some(time) = self.attempt_timeout {
            let policy = self.middleware.model_retry.policy.clone();
            model.push(Arc::new(AttemptTimeout::new(time, policy)));
        }
        let mut tools = self.tool_layers.clone();
        if let Some(max) = self.middleware.repetition.0 {
            tools.push(Arc::new(LoopGuard::new(max)));
        }
        tools.push(Arc::new(ToolRetry(self.middleware.tool_retry.clone())));
        Layers { model, tools }
    }
}

/// Remembers the tools that a search found, and a tool that the model called without a search.
fn add_found_tools(run: &mut Run, turn: &dyn Tools, call: &ToolCall, result: &Result<ToolOutput, CallFailed>) {
    #[derive(serde::Deserialize)]
    struct Found {
        tools: Vec<FoundTool>,
    }
    #[derive(serde::Deserialize)]
    struct FoundTool {
        name: Arc<str>,
    }
    match turn.search_tool() {
        Some(search_tool) if *search_tool == *call.name => {
            let found = result.as_ref().ok().and_then(|output| output.structured.as_ref()?.decode::<Found>().ok());
            run.add_found_tools(found.into_iter().flat_map(|found| found.tools).map(|tool| tool.name));
        }
        Some(_) => run.add_found_tools([Arc::clone(&call.name)]),
        None => {}
    }
}
