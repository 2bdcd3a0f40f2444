//! Durable runs: plans, leases, journals and results.
//!
//! A run is a plan with a state. A worker claims trials of a run under a lease. Every write of a worker carries the
//! fencing number of its lease: after another worker has claimed the trial, the late writes of the first one fail with
//! [`StoreError::LeaseLost`] and change nothing.

mod location;
mod operations;
#[cfg(feature = "postgres")]
mod postgres;
mod result_pages;
mod sql;
mod sqlite;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;
use wharf_protocol::{BoxFuture, Usage};

use crate::ids::{RunId, TrialId, UnitId};
use crate::outcome::{UnitResult, Verdict};
use crate::plan::{Trial, Trials};
use crate::rate_limit::{RateGrant, RateReport};
use crate::step::{StepRequest, StepResult, StepStart};

pub use crate::step::{RecordedStep, Recovery};
pub use location::{InvalidLocation, PostgresUrl, StoreLocation, open_store};
pub use operations::{Lack, RunActivity, WorkerRecord, WorkerStatus};
#[cfg(feature = "postgres")]
pub use postgres::{PostgresOptions, PostgresStore};
pub use result_pages::ResultPages;
pub use sqlite::{SqliteOptions, SqliteStore};

/// A failure of the store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The file or database cannot be opened.
    #[error("cannot open the store {location}: {reason}")]
    Open {
        /// The file or URL.
        location: String,
        /// Why.
        reason: String,
    },
    /// Another worker has claimed the trial. Nothing was written.
    #[error("the lease of the trial was lost")]
    LeaseLost,
    /// Another run with this id is in the store.
    #[error("the run `{0}` exists with other settings")]
    RunExists(RunId),
    /// The run is not in the store.
    #[error("unknown run `{0}`")]
    UnknownRun(RunId),
    /// A read or write failed.
    #[error("the store failed: {0}")]
    Failed(String),
}

/// A run to be created.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRun {
    /// Id of the run.
    pub id: RunId,
    /// Name of the benchmark.
    pub benchmark: String,
    /// The settings of the run and its tool sets, as JSON, without secrets.
    pub settings: Value,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Trials are left. Whether a worker is active, their leases tell.
    Running,
    /// The user, a budget or a failure of the store ended it early. It can be resumed.
    Stopped,
    /// No worker claims its trials until it is resumed. Trials in flight finish.
    Paused,
    /// As paused, and trials in flight are dropped.
    Canceled,
    /// Every unit has a result.
    Finished,
}

/// A run in the store.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunSummary {
    /// Id of the run.
    pub id: RunId,
    /// Name of the benchmark.
    pub benchmark: String,
    /// When it was created, in seconds since 1970, by the store's clock.
    pub created: i64,
    /// Its state.
    pub state: RunState,
    /// What is done and what it cost.
    pub progress: Progress,
}

/// What is done of a run, and what it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Progress {
    /// Units of the plan.
    pub units: u64,
    /// Units with a result.
    pub done: u64,
    /// Units that passed.
    pub passed: u64,
    /// Units that failed.
    pub failed: u64,
    /// Units that are invalid.
    pub invalid: u64,
    /// Units that are indeterminate.
    pub indeterminate: u64,
    /// Trials under a lease that has not expired.
    pub running: u64,
    /// Tokens and cost of all steps on record, also of failed and repeated ones.
    pub usage: Usage,
}

/// A request for trials.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    /// The run.
    pub run: &'a RunId,
    /// Id of the worker, unique among all processes.
    pub worker: &'a str,
    /// The maximum number of trials.
    pub limit: u32,
    /// How long the lease lasts without renewal.
    pub lease: Duration,
}

/// The right to run one trial, until it expires or another worker claims the trial.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The run.
    pub run: RunId,
    /// The trial.
    pub trial: TrialId,
    /// Increases with every claim of the trial.
    pub fence: i64,
}

/// A claimed trial.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedTrial {
    /// The lease. Every write needs it.
    pub lease: Lease,
    /// The trial with all its units of the plan.
    pub trial: Trial,
    /// The units that have no result yet.
    pub open_units: Vec<UnitId>,
}

/// A result and its place in the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedResult {
    /// Position of the unit in the plan, from 0.
    pub position: u64,
    /// The result.
    pub result: Arc<UnitResult>,
}

/// Which units of a run are run again.
#[derive(Clone, Debug, PartialEq)]
pub enum Rerun {
    /// The trials with a unit of this verdict: the model answers again, so all units of the trial are judged again.
    Verdict(Verdict),
    /// Units of a failure group that says nothing about the model, because its provider failed. What succeeded before is
    /// reused.
    ProviderFailures,
}

/// A write that is queued. It resolves when the write is durable. Dropping it does not cancel the write.
pub type Commit = BoxFuture<'static, Result<(), StoreError>>;

/// A store of verification runs.
pub trait RunStore: Send + Sync {
    /// Creates a run without trials. If several processes create the same run, it is created once.
    ///
    /// # Errors
    /// [`StoreError::RunExists`] if there is a run with this id and another benchmark or other settings.
    fn create_run<'a>(&'a self, run: &'a NewRun) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Returns the runs, the newest first.
    fn runs(&self) -> BoxFuture<'_, Result<Vec<RunSummary>, StoreError>>;

    /// Returns one run with its settings.
    fn run<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<(RunSummary, Value), StoreError>>;

    /// Makes these trials the plan of the run. Trials and units that are already there keep their state, results and steps;
    /// those that are no longer in the plan stay in the store and are not run.
    fn set_plan<'a>(&'a self, run: &'a RunId, trials: Arc<dyn Trials>) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Sets the state of a run.
    fn set_state<'a>(&'a self, run: &'a RunId, state: RunState) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Returns the state of a run.
    fn state<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<RunState, StoreError>>;

    /// Sets the order of a run among those that workers serve: the higher number goes first.
    fn set_priority<'a>(&'a self, run: &'a RunId, priority: i64) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Makes units run again that no worker is running. Removes their results, and for [`Rerun::Verdict`] also what their
    /// trials have on record. What was spent stays in the totals. Returns the number of units.
    fn rerun<'a>(&'a self, run: &'a RunId, which: &'a Rerun) -> BoxFuture<'a, Result<u64, StoreError>>;

    /// Claims trials that have open units and no valid lease, in the order of the plan. A worker does not claim what it
    /// already holds, even if it was too slow to renew it, nor what it lacks something for. Nothing is claimed of runs that
    /// are paused or canceled, or that have another result format.
    fn claim<'a>(&'a self, claim: &'a Claim<'a>) -> BoxFuture<'a, Result<Vec<ClaimedTrial>, StoreError>>;

    /// Extends all leases of a worker. Returns those that it still holds.
    fn renew<'a>(&'a self, claim: &'a Claim<'a>) -> BoxFuture<'a, Result<Vec<Lease>, StoreError>>;

    /// Ends a lease. A trial without open units is done; another one can be claimed again.
    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Records the intent of a step, or returns its recorded result. The intent is durable when this returns.
    fn begin_step<'a>(
        &'a self,
        lease: &'a Lease,
        step: &'a StepRequest,
        recovery: Recovery,
    ) -> BoxFuture<'a, Result<StepStart, StoreError>>;

    /// Queues the result of a step. Writes of a lease are committed in the order in which they were queued.
    fn finish_step<'a>(
        &'a self,
        lease: &'a Lease,
        step: i64,
        result: StepResult,
    ) -> BoxFuture<'a, Result<Commit, StoreError>>;

    /// Queues the result of a unit.
    fn finish_unit<'a>(&'a self, lease: &'a Lease, result: &'a UnitResult)
    -> BoxFuture<'a, Result<Commit, StoreError>>;

    /// Reports what a worker used of the limits of a provider, and grants it requests for the next two seconds. All workers
    /// share the limits, by the store's clock.
    fn exchange_rate<'a>(&'a self, report: &'a RateReport) -> BoxFuture<'a, Result<RateGrant, StoreError>>;

    /// Returns what is done of a run.
    fn progress<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Progress, StoreError>>;

    /// Returns results in the order of the plan: at most `limit`, of the units after a position. While a run goes on,
    /// results appear between those that were read; a number of results to skip would read some of them twice.
    fn results<'a>(
        &'a self,
        run: &'a RunId,
        after: Option<u64>,
        limit: u32,
    ) -> BoxFuture<'a, Result<Vec<PlacedResult>, StoreError>>;

    /// Returns the trials of the plan, in order: at most `limit`, after the first `skip`.
    fn trials<'a>(&'a self, run: &'a RunId, skip: u64, limit: u32) -> BoxFuture<'a, Result<Vec<Trial>, StoreError>>;

    /// Returns the steps of a trial and its units that have a result, in the order in which they began: what a replay
    /// needs to get the same results. Of several attempts it is the last one.
    fn steps<'a>(&'a self, run: &'a RunId, trial: &'a TrialId) -> BoxFuture<'a, Result<Vec<RecordedStep>, StoreError>>;

    /// Registers a worker, or renews its registration: its heartbeat, by the clock of the store.
    fn register<'a>(&'a self, worker: &'a WorkerRecord) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Removes a worker, and those that have been silent for a day.
    fn unregister<'a>(&'a self, worker: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Replaces what a worker lacks for a run. Its claims leave those trials to other workers.
    fn set_lacks<'a>(
        &'a self,
        worker: &'a str,
        run: &'a RunId,
        lacks: Vec<Lack>,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Returns the registered workers, the living ones first.
    fn workers(&self) -> BoxFuture<'_, Result<Vec<WorkerStatus>, StoreError>>;

    /// Returns the running runs with trials that a worker can claim now: by priority, then the oldest first.
    fn claimable_runs<'a>(&'a self, worker: &'a str) -> BoxFuture<'a, Result<Vec<RunId>, StoreError>>;

    /// Returns what happens in a run.
    fn activity<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<RunActivity, StoreError>>;

    /// Deletes a run with its results and steps. Contents stay until [`RunStore::delete_unreferenced`].
    fn delete_run<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Deletes contents that no run refers to. Returns how many.
    fn delete_unreferenced(&self) -> BoxFuture<'_, Result<u64, StoreError>>;

    /// Returns a signal that changes when a worker without trials may find some: a plan was set, or trials were handed back.
    /// It is only a hint, beside a poll: signals get lost. Stores without one return nothing.
    fn offers(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// Opens the same store again, with connections that belong to the current runtime.
    fn reopen(&self) -> BoxFuture<'_, Result<Arc<dyn RunStore>, StoreError>>;

    /// Completes the queued writes and closes the store. Later calls fail.
    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// Returns the reason why a store of a newer version is not opened.
fn newer_format(found: i64, supported: i64) -> String {
    format!("it was written by a newer version of Wharf (format {found}; this version supports {supported})")
}
