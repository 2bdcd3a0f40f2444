//! Executing a planned run, and showing its progress.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use wharf::verify::recording::Recording;
use wharf::verify::report::BenchmarkText;
use wharf::verify::store::{NewRun, Recovery};
use wharf::verify::worker::{Stop, Worker, WorkerOptions, WorkerReport};
use wharf::verify::{
    Benchmark, BenchmarkRunner, Budget, EvaluationOptions, JUDGE_PROMPT_VERSION, Plan, RateLimit, RunId, RunStore,
    Selection, StoreError, ToolSets, VerificationConfig,
};

use super::display::RunDisplay;
use super::participants::Participants;
use super::shared_run::{self, settings_without_entries};
use super::worker_record;
use crate::globals::Globals;
use crate::interrupt::Interruption;

/// How long a process that was killed holds its trials.
pub(crate) const DEFAULT_LEASE: Duration = Duration::from_secs(60);
/// How often a lease is renewed before it would end.
pub(crate) const HEARTBEATS_PER_LEASE: u32 = 6;

/// A run that is ready to be executed.
pub(crate) struct PlannedRun {
    pub(crate) store: Arc<dyn RunStore>,
    pub(crate) run: RunId,
    pub(crate) runner: Arc<BenchmarkRunner>,
    pub(crate) options: RunOptions,
}

/// How a run is executed.
pub(crate) struct RunOptions {
    pub(crate) concurrency: usize,
    pub(crate) recovery: Recovery,
    pub(crate) budget: Budget,
    /// The limits per minute of each provider.
    pub(crate) rate_limits: BTreeMap<String, RateLimit>,
    /// How long a process that was killed holds its trials.
    pub(crate) lease: Duration,
    /// Where all steps come from, if the run is a replay.
    pub(crate) recording: Option<Arc<Recording>>,
}

impl RunOptions {
    /// Returns the options of a configuration.
    pub(crate) fn new(config: &VerificationConfig, lease: Duration, recording: Option<Arc<Recording>>) -> Self {
        Self {
            concurrency: config.concurrency.unwrap_or(VerificationConfig::DEFAULT_CONCURRENCY) as usize,
            recovery: config.recovery.unwrap_or_default(),
            budget: Budget {
                max_cost_usd: config.max_cost_usd,
                max_tokens: config.max_tokens,
                max_time: config.max_time.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            },
            rate_limits: config.rate_limits.clone().unwrap_or_default(),
            lease,
            recording,
        }
    }
}

/// What is stored with a run: everything that a replay needs, and what a reader wants to know.
pub(crate) struct RunSettings<'a> {
    pub(crate) benchmark: &'a Benchmark,
    pub(crate) config: &'a VerificationConfig,
    pub(crate) evaluation: &'a EvaluationOptions,
    pub(crate) participants: &'a Participants,
    pub(crate) tool_sets: &'a ToolSets,
    pub(crate) replicates: u32,
    pub(crate) selection: &'a Selection,
    /// Whether the run is the replay of a recording.
    pub(crate) is_replay: bool,
    /// Whether workers on other machines can run it.
    pub(crate) is_shared: bool,
}

impl RunSettings<'_> {
    /// Returns the settings as JSON, without secrets.
    pub(crate) fn to_json(&self) -> Value {
        let Participants { models, judges, embedding, redactor } = self.participants;
        let models: Vec<Value> = models
            .iter()
            .map(|model| json!({"label": model.label, "settings": settings_without_entries(&model.settings)}))
            .collect();
        let judges: Vec<Value> = judges
            .iter()
            .map(|judge| json!({"label": judge.label, "settings": settings_without_entries(&judge.settings)}))
            .collect();
        let settings = json!({
            "benchmark": BenchmarkText::from(self.benchmark),
            "config": self.config,
            "evaluation": self.evaluation,
            "judge_prompt_version": JUDGE_PROMPT_VERSION,
            "replicates": self.replicates,
            "selection": self.selection,
            "is_replay": self.is_replay,
            "models": models,
            "judges": judges,
            "embedding": embedding.as_ref().map(|of| format!("{}:{}", of.embedder.interface(), of.embedder.name())),
            "tool_sets": self.tool_sets,
            "work": self.is_shared.then(|| shared_run::record(self.benchmark, &self.participants.models)),
        });
        let text = redactor.redact_json(&settings.to_string()).into_owned();
        serde_json::from_str(&text).unwrap_or_default()
    }
}

/// Creates a run in the store, with its plan.
pub(crate) async fn create(
    store: &dyn RunStore,
    benchmark: &str,
    settings: Value,
    plan: Plan,
) -> Result<RunId, StoreError> {
    create_as(new_id(), store, benchmark, settings, plan).await
}

/// Creates a run with an id, or joins the equal one that another process has created.
pub(crate) async fn create_as(
    id: RunId,
    store: &dyn RunStore,
    benchmark: &str,
    settings: Value,
    plan: Plan,
) -> Result<RunId, StoreError> {
    let run = NewRun { id, benchmark: benchmark.to_owned(), settings };
    store.create_run(&run).await?;
    store.set_plan(&run.id, Arc::new(plan)).await?;
    Ok(run.id)
}

/// Returns a new id: the time, and a part that differs between processes.
pub(crate) fn new_id() -> RunId {
    use sha2::{Digest as _, Sha256};
    let now = chrono::Utc::now();
    let unique = format!("{} {}", now.timestamp_nanos_opt().unwrap_or_default(), std::process::id());
    let random = Sha256::digest(unique.as_bytes());
    RunId(format!("{}-{:02x}{:02x}", now.format("%Y%m%d-%H%M%S"), random[0], random[1]).into())
}

impl PlannedRun {
    /// Runs all trials that have no result yet, and shows the progress.
    pub(crate) async fn execute(
        &self,
        globals: &Globals,
        mut interruption: watch::Receiver<Interruption>,
    ) -> Result<WorkerReport, StoreError> {
        let (stop, stopped) = watch::channel(Stop::No);
        let RunOptions { concurrency, recovery, budget, rate_limits, lease, recording } = &self.options;
        let worker = format!("{}-{}", self.run, new_id());
        let record = worker_record::of_this_process(worker.clone(), *concurrency, Some(self.run.clone()));
        let options = WorkerOptions {
            in_flight: *concurrency,
            recovery: *recovery,
            budget: *budget,
            rate_limits: rate_limits.clone(),
            replay: recording.clone(),
            lease: *lease,
            heartbeat: *lease / HEARTBEATS_PER_LEASE,
            record: Some(record.clone()),
            ..WorkerOptions::new(self.run.clone(), worker)
        };
        let worker = Worker::new(Arc::clone(&self.store), Arc::clone(&self.runner) as _, options, stopped);
        let display = RunDisplay::new(globals, &*self.store, &self.run);
        let forward = async {
            while interruption.changed().await.is_ok() {
                stop.send_replace(match *interruption.borrow_and_update() {
                    Interruption::None => Stop::No,
                    Interruption::Once => Stop::Finish,
                    Interruption::Twice => Stop::Now,
                });
            }
            // No one interrupts it any more.
            std::future::pending::<std::convert::Infallible>().await
        };
        let report = tokio::select! {
            report = worker.run() => report,
            never = display.watch() => match never {},
            never = forward => match never {},
        };
        drop(display);
        let _ = self.store.unregister(&record.id).await;
        self.runner.close().await;
        report
    }
}
