//! A benchmark with fake models in this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use wharf::agent::{Agent, Capabilities, Model, ModelError, ModelRequest, ModelResponse, StopReason, models::Endpoint};
use wharf::fleet::{Dispatcher, Fleet, Policy};
use wharf::verify::store::{NewRun, RunStore, SqliteStore};
use wharf::verify::{
    Benchmark, BenchmarkRunner, EvaluationOptions, Judge, ModelSettings, ModelUnderTest, Plan, PlanInput, RunnerParts,
    Selection, ServerSet, ToolSets, TrialRunner, Workbench,
};
use wharf::{BoxFuture, Message, Redactor, Role, ToolDefinition, Tools, TraceSink, Usage};

/// Questions of a benchmark with a judge.
pub(super) const QUESTIONS: u32 = 100;

/// A model that answers after some time. As a judge, it fills the form.
pub(super) struct FakeModel {
    time: Duration,
    calls: AtomicU64,
}

/// A benchmark with one model, and one judge if the answers need one.
pub(super) struct Fixture {
    benchmark: Benchmark,
    fake: Arc<FakeModel>,
    model: ModelUnderTest,
    judges: Vec<Judge>,
    replicates: u32,
}

/// A folder that is removed at the end.
pub(super) struct TemporaryFolder(PathBuf);

impl FakeModel {
    fn new(time: Duration) -> Arc<Self> {
        Arc::new(Self { time, calls: AtomicU64::new(0) })
    }
}

impl Model for FakeModel {
    fn interface(&self) -> &'static str {
        "fake"
    }

    fn name(&self) -> &'static str {
        "fake"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { tools: true, prompt_caching: true, structured_output: true, ..Capabilities::default() }
    }

    fn complete<'a>(&'a self, request: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let text = if request.options.schema.is_some() { r#"{"is_42":true}"# } else { "It is 42." };
        let message = Message::text(Role::Assistant, text);
        let usage = Usage { input_tokens: 100, output_tokens: 10, cost_usd: Some(0.001), ..Usage::default() };
        Box::pin(async move {
            if !self.time.is_zero() {
                tokio::time::sleep(self.time).await;
            }
            Ok(ModelResponse { message, stop: StopReason::EndTurn, model: "fake".into(), id: None, usage })
        })
    }
}

impl Fixture {
    /// Creates a benchmark of one question for each unit, without a judge: an assertion decides.
    pub(super) fn new(units: u32, time: Duration) -> Self {
        let fake = FakeModel::new(time);
        let model = ModelUnderTest {
            label: "model".to_owned(),
            model: Arc::clone(&fake) as Arc<dyn Model>,
            settings: ModelSettings::new("fake", "fake"),
            concurrency: None,
        };
        Self { benchmark: benchmark(units, false), fake, model, judges: Vec::new(), replicates: 1 }
    }

    /// Creates a benchmark of 100 questions with a judge. Models and judges answer at once.
    pub(super) fn judged(replicates: u32) -> Self {
        let fixture = Self::new(0, Duration::ZERO);
        let judge = Judge {
            label: "judge".to_owned(),
            model: Arc::clone(&fixture.model.model),
            settings: fixture.model.settings.clone(),
            concurrency: None,
        };
        Self { benchmark: benchmark(QUESTIONS, true), judges: vec![judge], replicates, ..fixture }
    }

    /// Creates the benchmark for another model.
    pub(super) fn with_model(units: u32, endpoint: Endpoint, settings: ModelSettings) -> Self {
        let model = wharf::agent::models::Anthropic::new(endpoint, "faulty").expect("a model");
        let model = ModelUnderTest { label: "model".to_owned(), model: Arc::new(model), settings, concurrency: None };
        let fake = FakeModel::new(Duration::ZERO);
        Self { benchmark: benchmark(units, false), fake, model, judges: Vec::new(), replicates: 1 }
    }

    /// Returns how often the models were called.
    pub(super) fn calls(&self) -> u64 {
        self.fake.calls.load(Ordering::Relaxed)
    }

    /// Opens a store, and plans the run unless it is there.
    pub(super) async fn store(&self, path: &Path) -> Arc<SqliteStore> {
        let store = super::open(path).await;
        if !store.progress(&super::run_id()).await.is_ok_and(|progress| progress.units > 0) {
            self.plan(&*store).await;
        }
        store
    }

    /// Plans the run.
    pub(super) async fn plan(&self, store: &dyn RunStore) {
        let plan = Plan::new(&PlanInput {
            benchmark: &self.benchmark,
            models: std::slice::from_ref(&self.model),
            judges: &self.judges,
            replicates: self.replicates,
            evaluation: &EvaluationOptions::default(),
            embedding: None,
            tool_sets: &ToolSets::default(),
            // The fake model fills the forms too.
            allow_self_judging: true,
            selection: &Selection::default(),
        });
        let run = NewRun { id: super::run_id(), benchmark: "bench".to_owned(), settings: json!({}) };
        let _ = store.create_run(&run).await;
        store.set_plan(&run.id, Arc::new(plan.expect("a plan"))).await.expect("a stored plan");
    }

    /// Returns the pipeline.
    pub(super) fn runner(&self) -> Arc<dyn TrialRunner> {
        let runner = BenchmarkRunner::new(RunnerParts {
            benchmark: self.benchmark.clone(),
            models: vec![self.model.clone()],
            judges: self.judges.clone(),
            evaluation: EvaluationOptions::default(),
            embedding: None,
            tool_sets: ToolSets::default(),
            workbench: Arc::new(NoServers),
            redactor: Redactor::default(),
        });
        Arc::new(runner.expect("a pipeline"))
    }
}

fn benchmark(units: u32, is_judged: bool) -> Benchmark {
    let question = |number: u32| {
        let mut question = json!({"id": format!("question-{number}"), "question": format!("How much is {number}?")});
        if is_judged {
            question["template"] = json!({"fields": [{
                "name": "is_42", "type": "bool", "description": "Whether it is 42", "truth": true,
                "check": "boolean_match"}]});
        } else {
            question["trace"] = json!([{"max_calls": 3}]);
        }
        question
    };
    let questions: Vec<_> = (1..=units).map(question).collect();
    serde_json::from_value(json!({"name": "bench", "questions": questions})).expect("a benchmark")
}

/// Returns an agent with the fake model and without tools.
pub(super) fn bare_agent(time: Duration) -> Agent {
    Agent::new(FakeModel::new(time), Arc::new(no_tools))
}

fn no_tools() -> Arc<dyn Tools> {
    struct NoTools;
    impl Tools for NoTools {
        fn offered(&self) -> &[ToolDefinition] {
            &[]
        }

        fn call<'a>(
            &'a self,
            _call: &'a wharf::ToolCall,
        ) -> BoxFuture<'a, Result<wharf::ToolOutput, wharf::CallFailed>> {
            Box::pin(std::future::ready(Ok(wharf::ToolOutput::said(""))))
        }
    }
    Arc::new(NoTools)
}

/// The benchmark has no servers.
struct NoServers;

impl Workbench for NoServers {
    fn open<'a>(&'a self, _servers: &'a ServerSet) -> BoxFuture<'a, Result<Fleet, String>> {
        Box::pin(std::future::ready(Err("the benchmark has no servers".to_owned())))
    }

    fn dispatcher(&self, trace: Arc<dyn TraceSink>) -> Dispatcher {
        Dispatcher::new(Policy::default()).with_trace(trace)
    }
}

impl TemporaryFolder {
    pub(super) fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // Beside the binary: the temporary folder may be in memory, and the store is measured on disk.
        let program = std::env::current_exe().expect("the path of this program");
        let folder = program.with_file_name(format!("bench-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
