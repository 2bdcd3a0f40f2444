//! Executing a planned run, and showing its progress.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use wharf::verify::journal::{BudgetGuard, StoreJournal};
use wharf::verify::recording::{Recording, ReplayJournal};
use wharf::verify::store::{Claim, ClaimedTrial, NewRun, Recovery, RunState};
use wharf::verify::{
    BenchmarkRunner, Budget, EvaluationOptions, Journal, JournalError, Plan, RunId, RunStore, StoreError, ToolSets,
    TrialRunner, VerificationConfig,
};

use super::display::RunDisplay;
use super::participants::Participants;
use crate::globals::Globals;
use crate::interrupt::Stopped;

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
    /// Where all steps come from, if the run is a replay.
    pub(crate) recording: Option<Arc<Recording>>,
}

/// How the execution ended.
#[derive(Debug)]
pub(crate) enum WorkEnd {
    /// Every unit has a result.
    Finished,
    /// The user interrupted it.
    Interrupted,
    /// A budget, the store or a recording ended it.
    Stopped(JournalError),
}

/// What is stored with a run: everything that a replay needs, and what a reader wants to know.
pub(crate) struct RunSettings<'a> {
    pub(crate) config: &'a VerificationConfig,
    pub(crate) evaluation: &'a EvaluationOptions,
    pub(crate) participants: &'a Participants,
    pub(crate) tool_sets: &'a ToolSets,
    pub(crate) replicates: u32,
}

impl RunSettings<'_> {
    /// Returns the settings as JSON, without secrets.
    pub(crate) fn to_json(&self) -> Value {
        let Participants { models, judges, redactor } = self.participants;
        let models: Vec<Value> = models.iter().map(|model| json!({"label": model.label, "settings": model.settings})).collect();
        let judges: Vec<Value> = judges.iter().map(|judge| json!({"label": judge.label, "settings": judge.settings})).collect();
        let settings = json!({
            "config": self.config,
            "evaluation": self.evaluation,
            "replicates": self.replicates,
            "models": models,
            "judges": judges,
            "tool_sets": self.tool_sets,
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
    plan: &Plan,
) -> Result<RunId, StoreError> {
    let run = NewRun { id: new_id(), benchmark: benchmark.to_owned(), settings };
    store.create_run(&run).await?;
    store.set_plan(&run.id, &plan.trials).await?;
    Ok(run.id)
}

/// Returns a new id: the time, and a part that differs between processes.
fn new_id() -> RunId {
    use sha2::{Digest as _, Sha256};
    let now = chrono::Utc::now();
    let unique = format!("{} {}", now.timestamp_nanos_opt().unwrap_or_default(), std::process::id());
    let random = Sha256::digest(unique.as_bytes());
    RunId(format!("{}-{:02x}{:02x}", now.format("%Y%m%d-%H%M%S"), random[0], random[1]).into())
}

impl PlannedRun {
    /// Runs all trials that have no result yet, and shows the progress.
    pub(crate) async fn execute(&self, globals: &Globals, mut stopped: Stopped) -> Result<WorkEnd, StoreError> {
        self.store.set_state(&self.run, RunState::Running).await?;
        let display = RunDisplay::new(globals, &*self.store, &self.run);
        let end = tokio::select! {
            end = self.work(&mut stopped) => end?,
            never = display.watch() => match never {},
        };
        drop(display);
        self.runner.close().await;
        let state = match end {
            WorkEnd::Finished => RunState::Finished,
            WorkEnd::Interrupted | WorkEnd::Stopped(_) => RunState::Stopped,
        };
        self.store.set_state(&self.run, state).await?;
        Ok(end)
    }

    async fn work(&self, stopped: &mut Stopped) -> Result<WorkEnd, StoreError> {
        let worker = format!("interim-{}", std::process::id());
        let guard = Arc::new(BudgetGuard::new(self.options.budget, Arc::clone(&self.store), self.run.clone()));
        let mut trials: JoinSet<Result<(), JournalError>> = JoinSet::new();
        let mut is_stopped = false;
        let mut end = None;
        loop {
            let room = self.options.concurrency.saturating_sub(trials.len());
            if end.is_none() && !is_stopped && room > 0 {
                let limit = u32::try_from(room).unwrap_or(1);
                let claim = Claim { run: &self.run, worker: &worker, limit, lease: Duration::from_secs(60) };
                for claimed in self.store.claim(&claim).await? {
                    trials.spawn(run_trial(Arc::clone(&self.store), Arc::clone(&self.runner), claimed, self.options.recovery, (Arc::clone(&guard), self.options.recording.clone())));
                }
            }
            if trials.is_empty() {
                break;
            }
            tokio::select! {
                joined = trials.join_next() => match joined {
                    Some(Ok(Err(error))) => end = Some(error),
                    Some(Ok(Ok(()))) | Some(Err(_)) | None => {}
                },
                () = stopped.wait(), if !is_stopped => is_stopped = true,
            }
        }
        Ok(match (end, is_stopped) {
            (Some(error), _) => WorkEnd::Stopped(error),
            (None, true) => WorkEnd::Interrupted,
            (None, false) => WorkEnd::Finished,
        })
    }
}

async fn run_trial(
    store: Arc<dyn RunStore>,
    runner: Arc<BenchmarkRunner>,
    claimed: ClaimedTrial,
    recovery: Recovery,
    (guard, recording): (Arc<BudgetGuard>, Option<Arc<Recording>>),
) -> Result<(), JournalError> {
    let ClaimedTrial { lease, trial, open_units } = claimed;
    let journal: Arc<dyn Journal> = match recording {
        Some(recording) => {
            Arc::new(ReplayJournal::open(&recording, &trial, Arc::clone(&store), lease.clone()).await?)
        }
        None => Arc::new(StoreJournal::new(Arc::clone(&store), lease.clone(), recovery, guard)),
    };
    let ran = runner.run(&trial, &open_units, journal).await;
    store.release(&lease).await?;
    ran
}
