//! Does what a run decides: asks the model, calls the tools, and tells everybody.

mod checkpoint;
mod spans;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;
use tracing::Instrument as _;
use wharf_protocol::{CallFailed, Json, ToolCall, ToolOutput, ToolSource, Tools};

use crate::middleware::{
    AttemptTimeout, Caching, ConcurrencyLimit, LoopGuard, Middleware, ModelLayer, ModelRetry, NextModel, NextTool,
    OnModelFailure, OnToolFailure, ToolLayer, ToolRetry, hints,
};
use crate::run::unanswered;
use crate::{
    AgentEvent, AgentResult, Delta, EventSink, Limit, Model, ModelError, ModelOptions, ModelRequest, Run, RunEnd, Step,
};
pub use checkpoint::{Checkpoint, CheckpointFile};

/// A run without tools.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTools;

impl Tools for NoTools {
    fn offered(&self) -> &[wharf_protocol::ToolDefinition] {
        &[]
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> wharf_protocol::BoxFuture<'a, Result<ToolOutput, CallFailed>> {
        let words = format!("There is no tool {}.", call.name);
        Box::pin(std::future::ready(Ok(ToolOutput::error(words))))
    }
}

impl ToolSource for NoTools {
    fn turn(&self) -> Arc<dyn Tools> {
        Arc::new(Self)
    }
}

/// A model with tools, and how they are used.
#[derive(Clone)]
pub struct Agent {
    model: Arc<dyn Model>,
    turns: Arc<dyn ToolSource>,
    options: ModelOptions,
    middleware: Middleware,
    permit: Option<ConcurrencyLimit>,
    attempt: Option<Duration>,
    model_layers: Vec<Arc<dyn ModelLayer>>,
    tool_layers: Vec<Arc<dyn ToolLayer>>,
    sink: Arc<dyn EventSink>,
    checkpoint: Option<Arc<dyn Checkpoint>>,
}

/// A run that is an error because somebody wanted it to be; what there is of it is not lost.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct AgentError {
    /// Why.
    pub reason: String,
    /// The model's failure, if that is why.
    pub model: Option<ModelError>,
    /// What came of the run until then.
    pub result: Box<AgentResult>,
}

struct Nobody;

impl EventSink for Nobody {
    fn event(&self, _: AgentEvent) {}
}

/// The layers of one run.
struct Stacks {
    model: Vec<Arc<dyn ModelLayer>>,
    tools: Vec<Arc<dyn ToolLayer>>,
}

impl Agent {
    /// A model with the tools of every turn, and the usual layers.
    pub fn new(model: Arc<dyn Model>, turns: Arc<dyn ToolSource>) -> Self {
        Self {
            model,
            turns,
            options: ModelOptions::default(),
            middleware: Middleware::default(),
            permit: None,
            attempt: None,
            model_layers: Vec::new(),
            tool_layers: Vec::new(),
            sink: Arc::new(Nobody),
            checkpoint: None,
        }
    }

    /// The same, asked like this.
    #[must_use]
    pub fn with_options(mut self, options: ModelOptions) -> Self {
        self.options = options;
        self
    }

    /// The same with other settings for its layers. Their limits are for [`Run::new`].
    #[must_use]
    pub fn with_middleware(mut self, middleware: Middleware) -> Self {
        self.middleware = middleware;
        self
    }

    /// The same, asking only with a permit.
    #[must_use]
    pub fn with_permit(mut self, permit: ConcurrencyLimit) -> Self {
        self.permit = Some(permit);
        self
    }

    /// The same, with so much time for each attempt to ask.
    #[must_use]
    pub fn with_attempt_timeout(mut self, time: Duration) -> Self {
        self.attempt = Some(time);
        self
    }

    /// The same with a layer around all others that questions go through.
    #[must_use]
    pub fn with_model_layer(mut self, layer: Arc<dyn ModelLayer>) -> Self {
        self.model_layers.push(layer);
        self
    }

    /// The same with a layer around all others that calls go through.
    #[must_use]
    pub fn with_tool_layer(mut self, layer: Arc<dyn ToolLayer>) -> Self {
        self.tool_layers.push(layer);
        self
    }

    /// The same, telling what happens.
    #[must_use]
    pub fn with_events(mut self, sink: Arc<dyn EventSink>) -> Self {
        self.sink = sink;
        self
    }

    /// The same, writing down every run before and after whatever it does.
    #[must_use]
    pub fn with_checkpoint(mut self, checkpoint: Arc<dyn Checkpoint>) -> Self {
        self.checkpoint = Some(checkpoint);
        self
    }

    /// Goes on with a run until it is over, or `cancelled` completes. What is under way then is given up: the model's
    /// stream is dropped, and calls are cancelled on the wire.
    ///
    /// # Errors
    /// Only where a failure is to be one: `on_failure: raise`.
    pub async fn run(&self, run: &mut Run, cancelled: impl Future<Output = ()>) -> Result<AgentResult, AgentError> {
        let span = spans::run(run, &*self.model);
        self.run_to_its_end(run, cancelled).instrument(span).await
    }

    async fn run_to_its_end(
        &self,
        run: &mut Run,
        cancelled: impl Future<Output = ()>,
    ) -> Result<AgentResult, AgentError> {
        let stacks = self.stacks();
        self.sink.event(AgentEvent::RunStarted {
            session_id: run.session_id().to_owned(),
            interface: self.model.interface().to_owned(),
            model: self.model.name().to_owned(),
            resumed: run.turns() > 0,
        });
        let began = Instant::now();
        let (limit, before) = (run.limits().time, run.spent());
        let left = limit.map(|limit| limit.saturating_sub(before));
        let late = async {
            match left {
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        };
        let (mut raised, clock) = (None, || before + began.elapsed());
        spans::step("execute");
        let cut = {
            let driving = self.drive(run, (&stacks, &clock), &mut raised);
            tokio::select! {
                biased;
                () = driving => None,
                () = cancelled => Some(RunEnd::Cancelled),
                () = late => Some(RunEnd::Limit(Limit::Time { seconds: limit.unwrap_or_default().as_secs() })),
            }
        };
        spans::step("capture");
        run.set_elapsed(clock());
        if let Some(stop) = cut {
            let told = run.reached().len();
            run.interrupt(stop);
            self.tell_limits(run, told);
        }
        self.save(run).await;
        spans::step("convert");
        let result = AgentResult::of(run);
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
            (Some(error), _) if self.middleware.model_retry.on_failure == OnModelFailure::Raise => {
                Err(AgentError { reason: error.to_string(), model: Some(error), result: Box::new(result) })
            }
            (_, Some(failed)) => Err(AgentError { reason: failed, model: None, result: Box::new(result) }),
            _ => Ok(result),
        }
    }

    async fn drive(
        &self,
        run: &mut Run,
        (stacks, clock): (&Stacks, &(dyn Fn() -> Duration + Sync)),
        raised: &mut Option<String>,
    ) {
        let mut turn: Option<Arc<dyn Tools>> = None;
        loop {
            let told = run.reached().len();
            let step = run.step();
            run.set_elapsed(clock());
            self.tell_limits(run, told);
            match step {
                Step::Done(_) => return,
                Step::Ask { tools } => {
                    let now = self.turns.turn();
                    self.save(run).await;
                    self.ask(run, &*now, (tools, stacks)).await;
                    turn = Some(now);
                }
                Step::Call(batch) => {
                    let now = turn.get_or_insert_with(|| self.turns.turn()).clone();
                    self.save(run).await;
                    if let Some(failed) = self.call(run, &*now, (batch, stacks)).await {
                        *raised = Some(failed.clone());
                        run.interrupt(RunEnd::ToolFailed(failed));
                    }
                }
            }
        }
    }

    async fn ask(&self, run: &mut Run, turn: &dyn Tools, (tools, stacks): (bool, &Stacks)) {
        let offered = if tools { turn.offered() } else { &[] };
        self.sink.event(AgentEvent::TurnStarted { turn: run.turns() + 1, tools: offered.len() });
        let listener = |delta: Delta| self.sink.event(AgentEvent::ModelDelta(delta));
        let (messages, options) = (run.messages(), &self.options);
        let ask = ModelRequest { messages, tools: offered, known: turn.offered(), options, listener: &listener };
        let next = NextModel { layers: &stacks.model, model: &*self.model, sink: &*self.sink };
        let span = spans::ask(&*self.model);
        let result = next.ask(ask).instrument(span.clone()).await;
        spans::asked(&span, &result);
        match result {
            Ok(answer) => {
                let told = run.reached().len();
                let (message, stop, usage) = (answer.message.clone(), answer.stop.clone(), answer.usage);
                self.sink.event(AgentEvent::ModelMessage { message, stop, usage });
                run.answered(answer, |name| hints(turn, name));
                self.tell_limits(run, told);
            }
            Err(error) => run.failed(error),
        }
    }

    /// Makes calls, all at the same time. What is returned ends the run.
    async fn call(
        &self,
        run: &mut Run,
        turn: &dyn Tools,
        (batch, stacks): (Vec<(usize, ToolCall)>, &Stacks),
    ) -> Option<String> {
        let next = NextTool { layers: &stacks.tools, tools: turn, sink: &*self.sink };
        let mut calls: FuturesUnordered<_> = batch
            .iter()
            .map(|(place, call)| async move {
                let ToolCall { id, name, arguments } = call.clone();
                self.sink.event(AgentEvent::ToolStarted { id, name, arguments });
                let began = Instant::now();
                let span = spans::call(call);
                let result = next.call(call).instrument(span.clone()).await;
                spans::called(&span, &result);
                (*place, call, result, began.elapsed())
            })
            .collect();
        let mut raised = None;
        while let Some((place, call, result, took)) = calls.next().await {
            self.tell_finished(call, &result, took);
            if let (Err(failed), OnToolFailure::Raise) = (&result, self.middleware.tool_retry.on_failure) {
                raised = raised.or_else(|| Some(failed.to_string()));
            }
            run.returned(place, result);
            // Written down at once: what has ended is never done again.
            self.save(run).await;
        }
        raised
    }

    fn tell_finished(&self, call: &ToolCall, result: &Result<ToolOutput, CallFailed>, took: Duration) {
        let (is_error, output) = match result {
            Ok(output) => (output.is_error, output.raw.clone()),
            Err(failed) => (true, Json::from(serde_json::Value::String(unanswered(failed)))),
        };
        let (id, name) = (call.id.clone(), call.name.clone());
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.sink.event(AgentEvent::ToolFinished { id, name, is_error, output, millis });
    }

    fn tell_limits(&self, run: &Run, told: usize) {
        for limit in &run.reached()[told..] {
            self.sink.event(AgentEvent::LimitReached { limit: limit.clone() });
        }
    }

    /// A run that cannot be written down goes on: what it does is worth more than the note of it.
    async fn save(&self, run: &Run) {
        let Some(checkpoint) = &self.checkpoint else { return };
        if let Err(reason) = checkpoint.save(run).await {
            self.sink.event(AgentEvent::Warning { words: format!("the run could not be written down: {reason}") });
        }
    }

    fn stacks(&self) -> Stacks {
        let mut model = self.model_layers.clone();
        model.push(Arc::new(Caching::new(self.middleware.prompt_caching.clone())));
        model.push(Arc::new(ModelRetry(self.middleware.model_retry.clone())));
        if let Some(permit) = &self.permit {
            model.push(Arc::new(permit.clone()));
        }
        if let Some(time) = self.attempt {
            model.push(Arc::new(AttemptTimeout(time)));
        }
        let mut tools = self.tool_layers.clone();
        if let Some(most) = self.middleware.repetition.0 {
            tools.push(Arc::new(LoopGuard::new(most)));
        }
        tools.push(Arc::new(ToolRetry(self.middleware.tool_retry.clone())));
        Stacks { model, tools }
    }
}
