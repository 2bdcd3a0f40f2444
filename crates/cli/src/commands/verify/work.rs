//! `wharf verify work`: work on runs that other processes started.
//!
//! A worker serves one run at a time: the one with the highest priority that has trials for it. It leaves the run when a run
//! of higher priority appears, when nothing is left to claim, or when a user pauses or cancels it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use wharf::verify::store::{RunState, WorkerRecord};
use wharf::verify::worker::{Stop, Worker, WorkerEnd, WorkerOptions, WorkerReport, WorkerRole};
use wharf::verify::{RunId, RunStore, StoreError, VerificationConfig};

use super::args::Work;
use super::settings;
use crate::config::Paths;
use crate::error::UsageError;
use crate::exit::Exit;
use crate::globals::Globals;
use crate::interrupt::{Interruption, draining};
use crate::models::trust::Trust;
use crate::term;
use crate::verification::engine::{self, HEARTBEATS_PER_LEASE, RunOptions};
use crate::verification::joining::{JoinedRun, LocalParts};
use crate::verification::shared_run::SharedRun;
use crate::verification::{benchmark_file, store, worker_record};

/// What is printed after the first signal.
const DRAINING: &str = "draining: finishing the trials in flight (send the signal again to stop now)";
/// How often an idle worker looks for trials, and a busy one for runs of higher priority.
const POLL: Duration = Duration::from_secs(2);
/// How often an idle worker shows that it is alive.
const IDLE_HEARTBEAT: Duration = Duration::from_secs(10);

/// A worker process.
struct Service<'a> {
    globals: &'a Globals,
    args: &'a Work,
    local: LocalParts<'a>,
    store: Arc<dyn RunStore>,
    worker: WorkerRecord,
    lease: Duration,
    interruption: watch::Receiver<Interruption>,
    joined: HashMap<RunId, Joined>,
    /// Runs that it cannot work on, which it reports once.
    unusable: HashSet<RunId>,
    /// When it last showed that it is alive without a run.
    registered: Option<Instant>,
}

/// A run that it has joined.
struct Joined {
    run: JoinedRun,
    config: VerificationConfig,
}

pub(super) async fn run(globals: &Globals, args: Work) -> Exit {
    draining(DRAINING, |interruption| async {
        match Box::pin(serve(globals, &args, interruption)).await {
            Ok(exit) => exit,
            Err(error) => term::usage_error(&error),
        }
    })
    .await
}

async fn serve(
    globals: &Globals,
    args: &Work,
    interruption: watch::Receiver<Interruption>,
) -> Result<Exit, UsageError> {
    let paths = Paths::find(globals)?;
    let location = store::location(args.store.location.as_deref(), &paths)?;
    let models_file = args.models.as_deref();
    let benchmark = args.benchmark.as_deref().map(|file| Ok((file, benchmark_file::read(file)?))).transpose()?;
    let local = LocalParts {
        globals,
        models_file,
        configs: LocalParts::configs(models_file)?,
        benchmark,
        allow: &args.allow,
        trust: Trust::of_flag(args.trust),
        timeouts: args.timeouts,
    };
    let opened = store::open(&location).await?;
    let id = format!("{}-{}", worker_record::host(), engine::new_id());
    let slots = args.slots.unwrap_or(VerificationConfig::DEFAULT_CONCURRENCY) as usize;
    let mut service = Service {
        globals,
        args,
        local,
        store: opened,
        worker: worker_record::of_this_process(id, slots, None),
        lease: settings::lease()?,
        interruption,
        joined: HashMap::new(),
        unusable: HashSet::new(),
        registered: None,
    };
    if !globals.quiet {
        term::note(&format!("worker {} serves {location}", service.worker.id));
    }
    let served = service.work().await;
    for joined in service.joined.values() {
        joined.run.runner.close().await;
        joined.run.workbench.close().await;
    }
    let _ = service.store.unregister(&service.worker.id).await;
    let _ = service.store.close().await;
    served.map_err(|error| store::failed(&error))
}

impl Service<'_> {
    /// Serves runs until it is interrupted, or nothing is left for it.
    async fn work(&mut self) -> Result<Exit, StoreError> {
        let wanted = self.args.run.as_deref().map(store::run_id);
        if let Some(run) = &wanted {
            self.store.state(run).await?;
        }
        let mut offers = self.store.offers();
        loop {
            self.register_idle().await?;
            if *self.interruption.borrow() != Interruption::None {
                return Ok(Exit::Done);
            }
            if let Some(run) = self.next(wanted.as_ref()).await? {
                if let Some(exit) = self.serve_run(&run).await? {
                    return Ok(exit);
                }
                continue;
            }
            if let Some(run) = &wanted
                && matches!(self.store.state(run).await?, RunState::Finished | RunState::Canceled | RunState::Stopped)
            {
                return Ok(Exit::Done);
            }
            if self.args.stop_when_empty {
                return Ok(Exit::Done);
            }
            self.forget_ended().await?;
            tokio::select! {
                () = tokio::time::sleep(POLL) => {}
                () = offered(&mut offers) => {}
                _ = self.interruption.changed() => {}
            }
        }
    }

    /// Shows that the worker is alive while it has no run. During a run, its heartbeat does.
    async fn register_idle(&mut self) -> Result<(), StoreError> {
        let had_run = self.worker.run.take().is_some();
        if had_run || self.registered.is_none_or(|at| at.elapsed() >= IDLE_HEARTBEAT) {
            self.store.register(&self.worker).await?;
            self.registered = Some(Instant::now());
        }
        Ok(())
    }

    /// Returns the next run with trials for this worker, and joins it.
    async fn next(&mut self, wanted: Option<&RunId>) -> Result<Option<RunId>, StoreError> {
        for run in self.store.claimable_runs(&self.worker.id).await? {
            if wanted.is_some_and(|wanted| *wanted != run) || self.unusable.contains(&run) {
                continue;
            }
            if self.joined.contains_key(&run) {
                return Ok(Some(run));
            }
            self.join(&run).await?;
            // What it lacks is known to the store now.
            if self.joined.contains_key(&run) && self.store.claimable_runs(&self.worker.id).await?.contains(&run) {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }

    /// Closes the servers of runs that others have ended.
    async fn forget_ended(&mut self) -> Result<(), StoreError> {
        let joined: Vec<RunId> = self.joined.keys().cloned().collect();
        for run in joined {
            match self.store.state(&run).await {
                Ok(RunState::Running | RunState::Paused) => {}
                Ok(RunState::Stopped | RunState::Finished | RunState::Canceled) | Err(StoreError::UnknownRun(_)) => {
                    self.forget(&run).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Joins a run. Reports once what is missing for it.
    async fn join(&mut self, run: &RunId) -> Result<(), StoreError> {
        let (_, record) = self.store.run(run).await?;
        let unusable = |reason: &str| term::warning(&format!("run {run} is left to other workers: {reason}"));
        let shared = match SharedRun::read(record) {
            Ok(shared) => shared,
            Err(reason) => {
                unusable(&reason);
                self.unusable.insert(run.clone());
                return Ok(());
            }
        };
        let config = shared.config.clone();
        let joined = match self.local.join(shared).await {
            Ok(joined) => joined,
            Err(error) => {
                unusable(&error.message);
                if let Some(hint) = &error.hint {
                    term::hint(hint);
                }
                self.unusable.insert(run.clone());
                return Ok(());
            }
        };
        let mut reported = HashSet::new();
        for lack in &joined.lacks {
            if reported.insert(&lack.reason) {
                term::warning(&format!("run {run}: trials are left to other workers: {}", lack.reason));
            }
        }
        self.store.set_lacks(&self.worker.id, run, joined.lacks.clone()).await?;
        self.joined.insert(run.clone(), Joined { run: joined, config });
        Ok(())
    }

    /// Works on a run until it has nothing more for this worker. Returns the exit code if the process has to end.
    async fn serve_run(&mut self, run: &RunId) -> Result<Option<Exit>, StoreError> {
        let Some(joined) = self.joined.get(run) else { return Ok(None) };
        let options = RunOptions::new(&joined.config, self.lease, None);
        let RunOptions { concurrency, recovery, budget, rate_limits, lease, .. } = options;
        let in_flight = self.args.slots.map_or(concurrency, |slots| slots as usize);
        self.worker.run = Some(run.clone());
        self.worker.slots = u32::try_from(in_flight).unwrap_or(u32::MAX);
        let options = WorkerOptions {
            in_flight,
            recovery,
            budget,
            rate_limits,
            lease,
            heartbeat: lease / HEARTBEATS_PER_LEASE,
            role: WorkerRole::Helper,
            record: Some(self.worker.clone()),
            ..WorkerOptions::new(run.clone(), self.worker.id.clone())
        };
        if !self.globals.quiet {
            term::note(&format!("working on run {run}"));
        }
        let (stop, stopped) = watch::channel(Stop::No);
        let worker = Worker::new(Arc::clone(&self.store), Arc::clone(&joined.run.runner) as _, options, stopped);
        let mut interruption = self.interruption.clone();
        let wanted = self.args.run.is_some();
        let control = async {
            loop {
                let stopping = match *interruption.borrow_and_update() {
                    Interruption::None => Stop::No,
                    Interruption::Once => Stop::Finish,
                    Interruption::Twice => Stop::Now,
                };
                stop.send_if_modified(|stop| {
                    let is_new = stopping > *stop;
                    *stop = stopping.max(*stop);
                    is_new
                });
                tokio::select! {
                    _ = interruption.changed() => {}
                    () = tokio::time::sleep(POLL) => {
                        if !wanted && self.has_higher_priority(run).await {
                            stop.send_if_modified(|stop| {
                                let is_new = *stop == Stop::No;
                                *stop = Stop::Finish.max(*stop);
                                is_new
                            });
                        }
                    }
                }
            }
        };
        let WorkerReport { end, unfinished, .. } = tokio::select! {
            report = worker.run() => report?,
            never = control => match never {},
        };
        for trial in &unfinished {
            term::warning(&format!("trial {} has no result: {}", trial.trial, trial.reason));
        }
        match end {
            WorkerEnd::Finished => {
                if !self.globals.quiet {
                    term::note(&format!("run {run} is finished"));
                }
                self.forget(run).await;
            }
            WorkerEnd::Paused | WorkerEnd::Canceled => {
                if !self.globals.quiet {
                    let how = if end == WorkerEnd::Paused { "paused" } else { "canceled" };
                    term::note(&format!("run {run} was {how}"));
                }
            }
            WorkerEnd::Stopped | WorkerEnd::Idle => {}
            // The next claim would end the same way.
            WorkerEnd::Budget(exceeded) => {
                term::warning(&format!("run {run}: {exceeded}"));
                self.unusable.insert(run.clone());
            }
            WorkerEnd::Unfinished => drop(self.unusable.insert(run.clone())),
            WorkerEnd::Store(error) => {
                term::error(&error.to_string(), &[], Some("start the worker again when the store responds"));
                return Ok(Some(Exit::Failed));
            }
        }
        Ok(None)
    }

    /// Returns whether a run of higher priority than the current one waits.
    async fn has_higher_priority(&self, current: &RunId) -> bool {
        let Ok(runs) = self.store.claimable_runs(&self.worker.id).await else { return false };
        let Some(first) = runs.into_iter().find(|run| !self.unusable.contains(run)) else { return false };
        if first == *current {
            return false;
        }
        let priority = async |run: &RunId| self.store.activity(run).await.map(|activity| activity.priority);
        matches!((priority(&first).await, priority(current).await), (Ok(first), Ok(current)) if first > current)
    }

    /// Closes the servers of a run.
    async fn forget(&mut self, run: &RunId) {
        if let Some(joined) = self.joined.remove(run) {
            joined.run.runner.close().await;
            joined.run.workbench.close().await;
        }
    }
}

/// Waits for the hint that trials are available. Never returns if the store does not give one.
async fn offered(offers: &mut Option<watch::Receiver<u64>>) {
    if let Some(offers) = offers
        && offers.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}
