//! A benchmark in memory: scripted models and judges, in-process servers, and a journal that remembers every step.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use wharf_agent::{
    Capabilities, Embedder, Embeddings, Model, ModelError, ModelErrorKind, ModelOptions, ModelRequest, ModelResponse,
    StopReason,
};
use wharf_client::InProcess;
use wharf_fleet::{
    Dispatcher, Fleet, FleetOptions, Policy, Scope, Server, ServerSpec, TransportConfig, dispatch::Hook,
};
use wharf_protocol::{Block, BlockKind, BoxFuture, Json, Message, Redactor, Role, ToolCall, TraceSink, Usage};
use wharf_testkit::{Script, Scripted, eventually};
use wharf_verify::journal::{StepKind, StepOwner, StepRequest, StepResult, StepStart};
use wharf_verify::{
    Benchmark, BenchmarkRunner, EmbeddingModel, EvaluationOptions, Journal, JournalError, Judge, ModelSettings,
    ModelUnderTest, Plan, PlanError, PlanInput, RunnerParts, Selection, ServerSet, ToolSet, ToolSets, Trial, TrialId,
    TrialRunner as _, UnitResult, Workbench,
};

/// A part of every expected value and every reference answer. No judge may see it.
pub(crate) const TRUTH: &str = "zq7731";

/// A request that a model received.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) messages: Vec<Message>,
    pub(crate) tools: Vec<String>,
    pub(crate) options: ModelOptions,
    pub(crate) system: Vec<String>,
}

impl Seen {
    /// The whole request as text.
    pub(crate) fn text(&self) -> String {
        let messages: Vec<String> =
            self.messages.iter().map(|message| serde_json::to_string(message).unwrap()).collect();
        format!(
            "{}\n{}\n{}",
            self.system.join("\n"),
            messages.join("\n"),
            serde_json::to_string(&self.options).unwrap()
        )
    }

    /// The text of the last message of the user.
    pub(crate) fn last_user(&self) -> String {
        self.messages.iter().rfind(|message| message.role == Role::User).unwrap().plain_text()
    }
}

type Respond = dyn Fn(&Seen, usize) -> Result<ModelResponse, ModelError> + Send + Sync;

/// A model that a function plays. The function gets the request and its number, from 0.
pub(crate) struct Fake {
    name: String,
    respond: Box<Respond>,
    seen: Mutex<Vec<Seen>>,
    delay: Duration,
    in_flight: AtomicUsize,
    pub(crate) max_in_flight: AtomicUsize,
}

impl Fake {
    pub(crate) fn new(
        name: &str,
        respond: impl Fn(&Seen, usize) -> Result<ModelResponse, ModelError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Self::slow(name, Duration::ZERO, respond)
    }

    pub(crate) fn slow(
        name: &str,
        delay: Duration,
        respond: impl Fn(&Seen, usize) -> Result<ModelResponse, ModelError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            respond: Box::new(respond),
            seen: Mutex::default(),
            delay,
            in_flight: AtomicUsize::new(0),
            max_in_flight: AtomicUsize::new(0),
        })
    }

    /// Responds with these in order.
    pub(crate) fn script(name: &str, responses: Vec<Result<ModelResponse, ModelError>>) -> Arc<Self> {
        Self::new(name, move |_, number| {
            responses.get(number).cloned().unwrap_or_else(|| Err(error(ModelErrorKind::Exhausted)))
        })
    }

    /// Always answers with this text.
    pub(crate) fn answering(text: &str) -> Arc<Self> {
        let text = text.to_owned();
        Self::new("fake-1", move |_, _| Ok(says(&text)))
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

impl Model for Fake {
    fn interface(&self) -> &'static str {
        "fake"
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { tools: true, prompt_caching: true, structured_output: true, ..Capabilities::default() }
    }

    fn complete<'a>(&'a self, request: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        let seen = Seen {
            messages: request.messages.to_vec(),
            tools: request.tools.iter().map(|tool| tool.name.to_string()).collect(),
            options: request.options.clone(),
            system: request.system_texts(),
        };
        let number = {
            let mut all = self.seen.lock().unwrap();
            all.push(seen.clone());
            all.len() - 1
        };
        Box::pin(async move {
            let now = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
            self.max_in_flight.fetch_max(now, Ordering::SeqCst);
            if !self.delay.is_zero() {
                tokio::time::sleep(self.delay).await;
            }
            self.in_flight.fetch_sub(1, Ordering::SeqCst);
            (self.respond)(&seen, number)
        })
    }
}

pub(crate) fn error(kind: ModelErrorKind) -> ModelError {
    ModelError::new(kind, "no luck")
}

pub(crate) fn says(text: &str) -> ModelResponse {
    let content = if text.is_empty() { Vec::new() } else { vec![Block::text(text)] };
    response(content, StopReason::EndTurn)
}

pub(crate) fn stopped(text: &str, stop: StopReason) -> ModelResponse {
    ModelResponse { stop, ..says(text) }
}

/// A response with calls: id, name, arguments.
pub(crate) fn calls(calls: &[(&str, &str, Value)]) -> ModelResponse {
    let call = |(id, name, arguments): &(&str, &str, Value)| {
        let arguments = Json::from(arguments.clone());
        Block::from(BlockKind::ToolUse(ToolCall { id: (*id).into(), name: (*name).into(), arguments }))
    };
    response(calls.iter().map(call).collect(), StopReason::ToolUse)
}

fn response(content: Vec<Block>, stop: StopReason) -> ModelResponse {
    let usage = Usage { input_tokens: 10, output_tokens: 5, cost_usd: Some(0.01), ..Usage::default() };
    let message = Message::new(Role::Assistant, content);
    ModelResponse { message, stop, model: "fake-1-2026".to_owned(), id: None, usage }
}

/// A judge that a function plays. It fails the test if a request contains an expected value.
pub(crate) fn judge(
    respond: impl Fn(&Seen, usize) -> Result<ModelResponse, ModelError> + Send + Sync + 'static,
) -> Arc<Fake> {
    Fake::new("judge-1", move |seen, number| {
        let text = seen.text();
        assert!(!text.contains(TRUTH), "the judge sees the truth: {text}");
        assert!(seen.tools.is_empty(), "a judge has no tools");
        assert!(seen.options.schema.is_some(), "a judge has a form");
        respond(seen, number)
    })
}

/// A judge that always returns this object.
pub(crate) fn judge_says(object: Value) -> Arc<Fake> {
    judge(move |_, _| Ok(says(&object.to_string())))
}

type Similar = dyn Fn(usize) -> Result<f32, ModelErrorKind> + Send + Sync;

/// An embedding model that a function plays: the cosine of all pairs of a request, by the number of the request.
pub(crate) struct FakeEmbedder {
    respond: Box<Similar>,
    seen: Mutex<Vec<Vec<String>>>,
}

impl FakeEmbedder {
    pub(crate) fn new(respond: impl Fn(usize) -> Result<f32, ModelErrorKind> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { respond: Box::new(respond), seen: Mutex::default() })
    }

    /// An embedding model that always fails.
    pub(crate) fn failing(kind: ModelErrorKind) -> EmbeddingModel {
        Self::new(move |_| Err(kind)).model()
    }

    pub(crate) fn model(self: &Arc<Self>) -> EmbeddingModel {
        let threshold = EmbeddingModel::DEFAULT_THRESHOLD;
        EmbeddingModel { embedder: Arc::clone(self) as _, base_url: None, threshold }
    }

    pub(crate) fn seen(&self) -> Vec<Vec<String>> {
        self.seen.lock().unwrap().clone()
    }
}

impl Embedder for FakeEmbedder {
    fn interface(&self) -> &'static str {
        "fake"
    }

    fn name(&self) -> &'static str {
        "embed-1"
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Embeddings, ModelError>> {
        let number = {
            let mut seen = self.seen.lock().unwrap();
            seen.push(texts.to_vec());
            seen.len() - 1
        };
        let embeddings = (self.respond)(number).map_err(error).map(|cosine| {
            let other = vec![cosine, (1.0 - cosine * cosine).sqrt()];
            let vectors = (0..texts.len()).map(|index| if index % 2 == 0 { vec![1.0, 0.0] } else { other.clone() });
            let usage = Usage { input_tokens: 3, cost_usd: Some(0.001), ..Usage::default() };
            Embeddings { vectors: vectors.collect(), model: "embed-1".to_owned(), usage }
        });
        Box::pin(std::future::ready(embeddings))
    }
}

/// Identifies a step: its trial, its owner, its request and its occurrence.
type StepKey = (TrialId, StepOwner, String, u32);

/// The journals of all trials, in memory.
#[derive(Default)]
pub(crate) struct MemoryJournal {
    steps: Mutex<HashMap<StepKey, Vec<StepResult>>>,
    /// The steps that were executed, in order.
    pub(crate) executed: Mutex<Vec<StepRequest>>,
    started: Mutex<HashMap<i64, StepKey>>,
    pub(crate) results: Mutex<Vec<UnitResult>>,
    /// Steps from this number on, from 0, are refused.
    pub(crate) refuse_from: Mutex<Option<(usize, JournalError)>>,
    /// The kind of step that is indeterminate.
    pub(crate) indeterminate: Mutex<Option<StepKind>>,
    pub(crate) is_replay: AtomicBool,
}

/// The journal of one trial.
struct TrialJournal {
    trial: TrialId,
    all: Arc<MemoryJournal>,
}

impl MemoryJournal {
    /// Returns the journal of one trial.
    pub(crate) fn of(self: &Arc<Self>, trial: &Trial) -> Arc<dyn Journal> {
        Arc::new(TrialJournal { trial: trial.id.clone(), all: Arc::clone(self) })
    }

    /// Returns a journal with the same steps that executes nothing.
    pub(crate) fn replay(&self) -> Arc<Self> {
        let steps = Mutex::new(self.steps.lock().unwrap().clone());
        Arc::new(Self { steps, is_replay: AtomicBool::new(true), ..Self::default() })
    }

    /// Returns a journal with the same steps, as after a crash.
    pub(crate) fn resumed(&self) -> Arc<Self> {
        let journal = self.replay();
        journal.is_replay.store(false, Ordering::Relaxed);
        journal
    }

    pub(crate) fn kinds(&self) -> Vec<StepKind> {
        self.executed.lock().unwrap().iter().map(|step| step.kind).collect()
    }

    pub(crate) fn results(&self) -> Vec<UnitResult> {
        self.results.lock().unwrap().clone()
    }
}

impl Journal for TrialJournal {
    fn is_replay(&self) -> bool {
        self.all.is_replay.load(Ordering::Relaxed)
    }

    fn begin_step<'a>(&'a self, step: &'a StepRequest) -> BoxFuture<'a, Result<StepStart, JournalError>> {
        let key = (self.trial.clone(), step.owner.clone(), step.request.clone(), step.occurrence);
        let is_replay = self.is_replay();
        let recorded = self.all.steps.lock().unwrap().get(&key).and_then(|results| results.last().cloned());
        let start = match recorded {
            Some(result) if !result.failed || is_replay => Ok(StepStart::Recorded(result)),
            _ if is_replay => Err(JournalError::Diverged(format!("{step:?}"))),
            _ if *self.all.indeterminate.lock().unwrap() == Some(step.kind) => Ok(StepStart::Indeterminate),
            _ => {
                let mut executed = self.all.executed.lock().unwrap();
                match &*self.all.refuse_from.lock().unwrap() {
                    Some((from, error)) if executed.len() >= *from => Err(error.clone()),
                    _ => {
                        executed.push(step.clone());
                        let number = i64::try_from(executed.len()).unwrap();
                        self.all.started.lock().unwrap().insert(number, key);
                        Ok(StepStart::Execute(number))
                    }
                }
            }
        };
        Box::pin(std::future::ready(start))
    }

    fn finish_step(&self, step: i64, result: StepResult) -> BoxFuture<'_, Result<(), JournalError>> {
        let key = self.all.started.lock().unwrap().remove(&step).unwrap();
        let mut steps = self.all.steps.lock().unwrap();
        let results = steps.entry(key).or_default();
        assert!(results.iter().all(|result| result.failed), "a step on record was executed again");
        results.push(result);
        Box::pin(std::future::ready(Ok(())))
    }

    fn finish_unit<'a>(&'a self, result: &'a UnitResult) -> BoxFuture<'a, Result<(), JournalError>> {
        self.all.results.lock().unwrap().push(result.clone());
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Opens scripted servers by name. A server without a script cannot be opened.
#[derive(Default)]
pub(crate) struct TestWorkbench {
    pub(crate) scripts: HashMap<String, Script>,
    pub(crate) policy: Policy,
    pub(crate) hook: Option<Arc<dyn Hook>>,
    pub(crate) opened: AtomicUsize,
    /// Why nothing can be opened after planning.
    pub(crate) refuse: Mutex<Option<String>>,
}

impl Workbench for TestWorkbench {
    fn open<'a>(&'a self, servers: &'a ServerSet) -> BoxFuture<'a, Result<Fleet, String>> {
        Box::pin(async move {
            self.opened.fetch_add(1, Ordering::SeqCst);
            if let Some(reason) = &*self.refuse.lock().unwrap() {
                return Err(reason.clone());
            }
            let specs = servers.servers.iter().map(|(name, entry)| {
                // An entry names its script, or its own name does.
                let script = entry.as_str().and_then(|script| self.scripts.get(script)).or(self.scripts.get(name));
                let script = script.cloned();
                let transport = InProcess::new(move |stream| {
                    let script = script.clone();
                    async move {
                        if let Some(script) = script {
                            Scripted::new(script).serve(stream).await;
                        }
                    }
                });
                let transport = TransportConfig::Custom("in-process".into(), Arc::new(transport));
                ServerSpec::from(Server::new(name.parse().unwrap(), Scope::Dynamic, transport))
            });
            let fleet = Fleet::open(specs.collect::<Vec<_>>(), FleetOptions::default());
            fleet.settled(Duration::from_secs(60)).await;
            Ok(fleet)
        })
    }

    fn dispatcher(&self, trace: Arc<dyn TraceSink>) -> Dispatcher {
        let dispatcher = Dispatcher::new(self.policy.clone()).with_trace(trace);
        match &self.hook {
            Some(hook) => dispatcher.with_hook(Arc::clone(hook)),
            None => dispatcher,
        }
    }
}

/// Everything of a run.
pub(crate) struct Setup {
    pub(crate) benchmark: Benchmark,
    pub(crate) models: Vec<ModelUnderTest>,
    pub(crate) judges: Vec<Judge>,
    pub(crate) replicates: u32,
    pub(crate) evaluation: EvaluationOptions,
    pub(crate) embedding: Option<EmbeddingModel>,
    pub(crate) selection: Selection,
    pub(crate) allow_self_judging: bool,
    pub(crate) workbench: Arc<TestWorkbench>,
    /// Changes the planned tools.
    pub(crate) change_tools: fn(&mut ToolSet),
    pub(crate) redactor: Redactor,
}

pub(crate) fn model(label: &str, fake: &Arc<Fake>) -> ModelUnderTest {
    let settings = ModelSettings::new("fake", fake.name());
    ModelUnderTest { label: label.to_owned(), model: Arc::clone(fake) as _, settings, concurrency: None }
}

pub(crate) fn judge_model(label: &str, fake: &Arc<Fake>) -> Judge {
    let settings = ModelSettings::new("fake", fake.name());
    Judge { label: label.to_owned(), model: Arc::clone(fake) as _, settings, concurrency: None }
}

pub(crate) fn benchmark(value: Value) -> Benchmark {
    serde_json::from_value(value).unwrap()
}

/// A question whose answer contains a city. The judge extracts it.
pub(crate) fn city_question() -> Value {
    json!({
        "id": "capital", "question": "What is the capital?", "answer": format!("reference {TRUTH}"),
        "template": {"fields": [{
            "name": "city", "type": "str", "description": "The city that the answer names",
            "truth": format!("Paris {TRUTH}"), "check": "exact_match"}]},
    })
}

/// The judgment that passes [`city_question`].
pub(crate) fn right() -> Value {
    json!({"city": format!("Paris {TRUTH}")})
}

pub(crate) fn wrong() -> Value {
    json!({"city": "Rome"})
}

impl Setup {
    /// One question, one model and one judge, without servers.
    #[expect(clippy::needless_pass_by_value, reason = "tests write the question in place")]
    pub(crate) fn new(question: Value, answering: &Arc<Fake>, judge: &Arc<Fake>) -> Self {
        Self {
            benchmark: benchmark(json!({"name": "b", "questions": [question]})),
            models: vec![model("m", answering)],
            judges: vec![judge_model("j", judge)],
            replicates: 1,
            evaluation: EvaluationOptions::default(),
            embedding: None,
            selection: Selection::default(),
            allow_self_judging: false,
            workbench: Arc::default(),
            change_tools: |_| {},
            redactor: Redactor::default(),
        }
    }

    /// Adds a server with this script to the benchmark.
    pub(crate) fn server(mut self, name: &str, script: Script) -> Self {
        self.benchmark.servers.insert(name.to_owned(), json!(name));
        Arc::get_mut(&mut self.workbench).unwrap().scripts.insert(name.to_owned(), script);
        self
    }

    pub(crate) fn workbench(mut self, change: impl FnOnce(&mut TestWorkbench)) -> Self {
        change(Arc::get_mut(&mut self.workbench).unwrap());
        self
    }

    pub(crate) async fn tool_sets(&self) -> ToolSets {
        let refuse = self.workbench.refuse.lock().unwrap().take();
        let mut sets = ToolSets::default();
        for set in ServerSet::all(&self.benchmark, &self.models) {
            let fleet = eventually(self.workbench.open(&set)).await.unwrap();
            let mut tools = ToolSet::of_catalog(&fleet.catalog());
            (self.change_tools)(&mut tools);
            sets.0.insert(set.key(), tools);
            fleet.close().await;
        }
        self.workbench.opened.store(0, Ordering::SeqCst);
        *self.workbench.refuse.lock().unwrap() = refuse;
        sets
    }

    pub(crate) fn plan(&self, tool_sets: &ToolSets) -> Result<Plan, PlanError> {
        Plan::new(&self.input(tool_sets))
    }

    pub(crate) fn input<'a>(&'a self, tool_sets: &'a ToolSets) -> PlanInput<'a> {
        PlanInput {
            benchmark: &self.benchmark,
            models: &self.models,
            judges: &self.judges,
            replicates: self.replicates,
            evaluation: &self.evaluation,
            embedding: self.embedding.as_ref(),
            tool_sets,
            allow_self_judging: self.allow_self_judging,
            selection: &self.selection,
        }
    }

    pub(crate) fn runner(&self, tool_sets: ToolSets) -> BenchmarkRunner {
        BenchmarkRunner::new(RunnerParts {
            benchmark: self.benchmark.clone(),
            models: self.models.clone(),
            judges: self.judges.clone(),
            evaluation: self.evaluation,
            embedding: self.embedding.clone(),
            tool_sets,
            workbench: Arc::clone(&self.workbench) as _,
            redactor: self.redactor.clone(),
        })
        .unwrap()
    }

    /// Runs all trials in order through one journal.
    pub(crate) async fn run_with(&self, journal: &Arc<MemoryJournal>) -> Result<Vec<UnitResult>, JournalError> {
        let tool_sets = self.tool_sets().await;
        let plan = self.plan(&tool_sets).unwrap();
        let runner = self.runner(tool_sets);
        let before = journal.results().len();
        for trial in plan.trials() {
            run_trial(&runner, &trial, journal).await?;
        }
        eventually(runner.close()).await;
        let results = journal.results().split_off(before);
        let units: BTreeSet<_> = results.iter().map(|result| result.unit.clone()).collect();
        assert_eq!((units.len(), results.len()), (plan.units(), plan.units()), "every unit has one result");
        Ok(results)
    }

    pub(crate) async fn run(&self) -> Vec<UnitResult> {
        self.run_with(&Arc::default()).await.unwrap()
    }

    /// Runs the only unit.
    pub(crate) async fn run_one(&self) -> UnitResult {
        let mut results = self.run().await;
        assert_eq!(results.len(), 1);
        results.remove(0)
    }
}

pub(crate) async fn run_trial(
    runner: &BenchmarkRunner,
    trial: &Trial,
    journal: &Arc<MemoryJournal>,
) -> Result<(), JournalError> {
    let units: Vec<_> = trial.units.iter().map(|unit| unit.id.clone()).collect();
    eventually(runner.run(trial, &units, journal.of(trial))).await
}

/// Describes the outcome of a unit: verdict, category and stage.
pub(crate) fn outcome(result: &UnitResult) -> String {
    let verdict = json!(result.verdict);
    let verdict = verdict.as_str().unwrap();
    match &result.failure {
        Some(failure) => format!("{verdict}: {} at {}", failure.category.as_str(), failure.stage),
        None => verdict.to_owned(),
    }
}

/// A read-only tool of a script.
pub(crate) fn reading(name: &str) -> Value {
    json!({"name": name, "description": "Reads", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}})
}

/// A tool of a script that changes something.
pub(crate) fn writing(name: &str) -> Value {
    json!({"name": name, "description": "Writes", "inputSchema": {"type": "object"}})
}
