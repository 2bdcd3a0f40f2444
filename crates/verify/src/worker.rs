//! Workers: they claim trials of a run, execute them, and release them.

mod heartbeat;
mod observed;
mod session;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use wharf_protocol::BoxFuture;

use crate::budget::{Budget, BudgetExceeded};
use crate::ids::{RunId, TrialId, UnitId};
use crate::journal::{Journal, JournalError};
use crate::plan::Trial;
use crate::rate_limit::RateLimit;
use crate::recording::Recording;
use crate::step::Recovery;
use crate::store::{Progress, RunStore, StoreError, WorkerRecord};

pub use observed::{WorkerEvent, WorkerEventKind};

/// How long a lease lasts without renewal.
const LEASE: Duration = Duration::from_secs(60);
/// How often leases are renewed.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How often a worker without trials looks for those that other workers have lost.
const POLL: Duration = Duration::from_secs(2);
/// Trials in flight.
const IN_FLIGHT: usize = 8;

/// Executes trials. The pipeline implements it.
pub trait TrialRunner: Send + Sync {
    /// Runs a trial and records a result for each open unit. Every paid or writing step goes through the journal. An error
    /// of the journal ends the trial: what is on record stays, and the trial is continued later.
    ///
    /// The future may be dropped at any await.
    fn run<'a>(
        &'a self,
        trial: &'a Trial,
        open_units: &'a [UnitId],
        journal: Arc<dyn Journal>,
    ) -> BoxFuture<'a, Result<(), JournalError>>;
}

/// Settings of a worker.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// The run.
    pub run: RunId,
    /// Id of the worker, unique among all processes.
    pub worker: String,
    /// The maximum number of trials in flight.
    pub in_flight: usize,
    /// How long a lease lasts without renewal.
    pub lease: Duration,
    /// How often leases are renewed.
    pub heartbeat: Duration,
    /// How often a worker without trials looks for those that other workers have lost.
    pub poll: Duration,
    /// What happens to interrupted steps.
    pub recovery: Recovery,
    /// The limits of the run.
    pub budget: Budget,
    /// The limits per minute of each provider, which all workers of the store share.
    pub rate_limits: BTreeMap<String, RateLimit>,
    /// Answers every step, instead of executing it.
    pub replay: Option<Arc<Recording>>,
    /// Whether the worker shares the run with others that end it.
    pub role: WorkerRole,
    /// How the worker is registered with each heartbeat.
    pub record: Option<WorkerRecord>,
}

/// What a worker is to its run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkerRole {
    /// It waits until the run is finished, and stops the run when it stops and no other worker has trials.
    #[default]
    Coordinator,
    /// It leaves when it can claim nothing, and lets the run go on without it.
    Helper,
}

/// Whether a worker is asked to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// It is not.
    #[default]
    No,
    /// Finish the trials in flight without retrying what fails, and claim no more.
    Finish,
    /// Drop the trials in flight. What they have on record stays.
    Now,
}

/// Why a worker ended.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkerEnd {
    /// Every unit of the run has a result.
    Finished,
    /// It was asked to stop.
    Stopped,
    /// The run was paused.
    Paused,
    /// The run was canceled.
    Canceled,
    /// Nothing is left that it can claim. Others have the rest.
    Idle,
    /// A budget is used up.
    Budget(BudgetExceeded),
    /// The store failed. Nothing was executed after that.
    Store(StoreError),
    /// Trials ended without a result, and nothing else is left.
    Unfinished,
}

/// A trial that ended without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedTrial {
    /// The trial.
    pub trial: TrialId,
    /// Why.
    pub reason: String,
}

/// What a worker did.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerReport {
    /// Why it ended.
    pub end: WorkerEnd,
    /// What is done of the run.
    pub progress: Progress,
    /// Trials that other workers have taken over.
    pub lost_leases: u64,
    /// The first trials that ended without a result.
    pub unfinished: Vec<UnfinishedTrial>,
    /// The number of trials that ended without a result.
    pub unfinished_count: u64,
}

/// A worker of one run.
pub struct Worker {
    store: Arc<dyn RunStore>,
    runner: Arc<dyn TrialRunner>,
    options: WorkerOptions,
    stop: watch::Receiver<Stop>,
    events: Option<mpsc::Sender<WorkerEvent>>,
}

impl WorkerOptions {
    /// Returns the default settings.
    pub fn new(run: RunId, worker: impl Into<String>) -> Self {
        Self {
            run,
            worker: worker.into(),
            in_flight: IN_FLIGHT,
            lease: LEASE,
            heartbeat: HEARTBEAT,
            poll: POLL,
            recovery: Recovery::default(),
            budget: Budget::default(),
            rate_limits: BTreeMap::new(),
            replay: None,
            role: WorkerRole::default(),
            record: None,
        }
    }
}

impl Worker {
    /// Creates a worker. It stops when `stop` says so.
    pub fn new(
        store: Arc<dyn RunStore>,
        runner: Arc<dyn TrialRunner>,
        options: WorkerOptions,
        stop: watch::Receiver<Stop>,
    ) -> Self {
        Self { store, runner, options, stop, events: None }
    }

    /// Reports to a channel. Events that find it full are dropped.
    #[must_use]
    pub fn with_events(mut self, events: mpsc::Sender<WorkerEvent>) -> Self {
        self.events = Some(events);
        self
    }

    /// Works until the run is finished or has to stop. Sets the state of the run.
    pub async fn run(self) -> Result<WorkerReport, StoreError> {
        session::run(self).await
    }
}
