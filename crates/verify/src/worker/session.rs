//! One session of a worker: the loop that claims, starts, watches and releases trials.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::timeout;

use crate::failpoint::{self, Failpoint};
use crate::ids::UnitId;
use crate::journal::{BudgetGuard, Guards, Journal, JournalError, RequestLimits, StoreJournal};
use crate::plan::Trial;
use crate::recording::ReplayJournal;
use crate::store::{Claim, ClaimedTrial, Lease, Progress, RunState, RunStore, StoreError};

use super::heartbeat::{Heartbeat, HeartbeatSettings, Renewal};
use super::observed::{ObservedJournal, Observer, WorkerEventKind};
use super::{Stop, TrialRunner, UnfinishedTrial, Worker, WorkerEnd, WorkerOptions, WorkerReport, WorkerRole};

/// Trials that are claimed at once at most.
const MAX_CLAIM: usize = 64;
/// Reasons of unfinished trials that the report has at most.
const MAX_UNFINISHED: usize = 20;
/// How long the last writes of a session may take.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// A trial in flight, or about to start.
struct HeldTrial {
    lease: Lease,
    trial: Arc<Trial>,
    open_units: Vec<UnitId>,
    claim: u64,
}

/// A running task and what it holds.
struct InFlight {
    held: HeldTrial,
    task: AbortHandle,
    is_lost: bool,
}

/// How a trial ended.
struct TrialEnd {
    outcome: Result<(), JournalError>,
    journal: Option<Arc<ObservedJournal>>,
}

/// What a claim found.
struct Claimed {
    trials: Vec<ClaimedTrial>,
    progress: Progress,
    /// The state of the run, if nothing was claimed.
    state: Option<RunState>,
}

/// A finished background task.
enum Background {
    Claimed(Result<Claimed, JournalError>),
    Released(Result<(), JournalError>),
}

struct Session {
    store: Arc<dyn RunStore>,
    runner: Arc<dyn TrialRunner>,
    options: WorkerOptions,
    guards: Guards,
    stop: watch::Receiver<Stop>,
    observer: Arc<Observer>,
    heartbeat: Heartbeat,
    ready: VecDeque<HeldTrial>,
    in_flight: HashMap<Id, InFlight>,
    trials: JoinSet<TrialEnd>,
    background: JoinSet<Background>,
    is_claiming: bool,
    /// Whether the last claim got less than it asked for. The next one waits.
    is_drained: bool,
    end: Option<WorkerEnd>,
    lost_leases: u64,
    /// Leases of trials that ended without a result. They are held until the end, so that no worker tries them again soon.
    held_back: Vec<Lease>,
    unfinished: Vec<UnfinishedTrial>,
}

pub(super) async fn run(worker: Worker) -> Result<WorkerReport, StoreError> {
    let Worker { store, runner, options, mut stop, events } = worker;
    let progress = store.progress(&options.run).await?;
    let settings = HeartbeatSettings {
        run: options.run.clone(),
        worker: options.worker.clone(),
        lease: options.lease,
        interval: options.heartbeat,
        record: options.record.clone(),
    };
    let budget = BudgetGuard::new(options.budget, Arc::clone(&store), options.run.clone());
    let limits = RequestLimits::new(&options.rate_limits, &store);
    if options.role == WorkerRole::Coordinator {
        store.set_state(&options.run, RunState::Running).await?;
    }
    if let Some(record) = &options.record {
        store.register(record).await?;
    }
    let mut session = Session {
        heartbeat: Heartbeat::start(Arc::clone(&store), settings)?,
        guards: Guards { budget: Arc::new(budget), limits: Arc::new(limits) },
        stop: stop.clone(),
        observer: Arc::new(Observer::new(progress, events)),
        store,
        runner,
        options,
        ready: VecDeque::new(),
        in_flight: HashMap::new(),
        trials: JoinSet::new(),
        background: JoinSet::new(),
        is_claiming: false,
        is_drained: false,
        end: None,
        lost_leases: 0,
        held_back: Vec::new(),
        unfinished: Vec::new(),
    };
    session.work(&mut stop).await;
    session.finish().await
}

impl Session {
    /// Works until nothing is left to do.
    async fn work(&mut self, stop: &mut watch::Receiver<Stop>) {
        let mut stop_is_open = true;
        let mut poll = tokio::time::interval(self.options.poll);
        poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        self.obey(*stop.borrow_and_update());
        let mut offers = None;
        loop {
            self.start_ready();
            self.claim_more();
            if self.is_drained && offers.is_none() {
                offers = self.store.offers();
            }
            if self.trials.is_empty() && self.background.is_empty() && self.end.is_some() {
                return;
            }
            tokio::select! {
                Some(ended) = self.trials.join_next_with_id() => self.trial_ended(ended),
                Some(done) = self.background.join_next() => match done {
                    Ok(Background::Claimed(claimed)) => self.claimed(claimed),
                    Ok(Background::Released(released)) => self.released(released),
                    Err(error) => self.stop_with(WorkerEnd::Store(StoreError::Failed(error.to_string()))),
                },
                changed = stop.changed(), if stop_is_open => match changed {
                    Ok(()) => self.obey(*stop.borrow_and_update()),
                    Err(_) => stop_is_open = false,
                },
                renewal = self.heartbeat.renewed() => {
                    self.drop_lost(&renewal);
                    self.obey_run(renewal.state);
                }
                _ = poll.tick() => self.is_drained = false,
                // A claim in flight may have looked before the trials were handed back, so it must end first.
                () = offered(&mut offers), if !self.is_claiming => self.is_drained = false,
            }
        }
    }

    fn obey(&mut self, stop: Stop) {
        if stop != Stop::No {
            self.stop_with(WorkerEnd::Stopped);
        }
        if stop == Stop::Now {
            self.trials.abort_all();
        }
    }

    /// Obeys the state that a user has set, from any machine.
    fn obey_run(&mut self, state: Option<RunState>) {
        match state {
            Some(RunState::Paused) => self.stop_with(WorkerEnd::Paused),
            Some(RunState::Canceled) => {
                self.stop_with(WorkerEnd::Canceled);
                self.trials.abort_all();
            }
            Some(RunState::Running | RunState::Stopped | RunState::Finished) | None => {}
        }
    }

    /// Claims nothing more. Trials in flight end by themselves. The first reason counts.
    fn stop_with(&mut self, end: WorkerEnd) {
        self.end.get_or_insert(end);
        for held in std::mem::take(&mut self.ready) {
            self.release(held.lease, None);
        }
    }

    fn start_ready(&mut self) {
        while self.end.is_none() && self.in_flight.len() < self.options.in_flight.max(1) {
            let Some(held) = self.ready.pop_front() else { return };
            let Trial { question, model, replicate, .. } = &*held.trial;
            let started = WorkerEventKind::TrialStarted {
                question: question.clone(),
                model: model.clone(),
                replicate: *replicate,
            };
            self.observer.report(started, |_| {});
            let task = self.trials.spawn(self.trial_task(&held));
            self.in_flight.insert(task.id(), InFlight { held, task, is_lost: false });
        }
    }

    fn trial_task(&self, held: &HeldTrial) -> impl Future<Output = TrialEnd> + Send + 'static {
        let (store, runner, observer) = (Arc::clone(&self.store), Arc::clone(&self.runner), Arc::clone(&self.observer));
        let (recovery, guards, replay) = (self.options.recovery, self.guards.clone(), self.options.replay.clone());
        let (lease, trial, open_units) = (held.lease.clone(), Arc::clone(&held.trial), held.open_units.clone());
        let stop = self.stop.clone();
        async move {
            let journal: Arc<dyn Journal> = match replay {
                None => Arc::new(StoreJournal::new(store, lease, recovery, guards)),
                Some(recording) => match ReplayJournal::open(&recording, &trial, store, lease).await {
                    Ok(journal) => Arc::new(journal),
                    Err(error) => return TrialEnd { outcome: Err(error), journal: None },
                },
            };
            let journal = Arc::new(ObservedJournal::new(journal, Arc::clone(&trial), observer, stop));
            let outcome = runner.run(&trial, &open_units, Arc::clone(&journal) as Arc<dyn Journal>).await;
            TrialEnd { outcome, journal: Some(journal) }
        }
    }

    /// Claims trials in the background, some ahead of time, so that no slot waits for the disk.
    fn claim_more(&mut self) {
        let in_flight = self.options.in_flight.max(1);
        let wanted = (in_flight + in_flight.div_ceil(4)).saturating_sub(self.in_flight.len() + self.ready.len());
        let releases_behind = self.background.len() > 2 * in_flight;
        if self.end.is_some() || self.is_claiming || self.is_drained || releases_behind || wanted == 0 {
            return;
        }
        // While some are ready, a claim takes several at once.
        if !self.ready.is_empty() && wanted < in_flight.div_ceil(8) {
            return;
        }
        self.is_claiming = true;
        let (store, budget) = (Arc::clone(&self.store), Arc::clone(&self.guards.budget));
        let options = self.options.clone();
        self.background.spawn(async move {
            let limit = u32::try_from(wanted.min(MAX_CLAIM)).unwrap_or(1);
            let claim = Claim { run: &options.run, worker: &options.worker, limit, lease: options.lease };
            let claimed = async {
                budget.check().await?;
                let trials = store.claim(&claim).await?;
                let state = if trials.is_empty() { Some(store.state(&options.run).await?) } else { None };
                Ok(Claimed { trials, progress: store.progress(&options.run).await?, state })
            };
            Background::Claimed(claimed.await)
        });
    }

    fn claimed(&mut self, claimed: Result<Claimed, JournalError>) {
        self.is_claiming = false;
        let Claimed { trials: claimed, progress, state } = match claimed {
            Ok(claimed) => claimed,
            Err(error) => return self.journal_failed(error),
        };
        self.observer.merge(&progress);
        let claim = self.heartbeat.count_claim();
        if claimed.is_empty() {
            self.is_drained = true;
            self.obey_run(state);
            self.look_for_the_end(&progress);
        } else {
            failpoint::hit(Failpoint::AfterClaim);
        }
        for ClaimedTrial { lease, trial, open_units } in claimed {
            if open_units.is_empty() || self.end.is_some() {
                self.release(lease, None);
            } else {
                self.ready.push_back(HeldTrial { lease, trial: Arc::new(trial), open_units, claim });
            }
        }
    }

    /// Decides what an empty claim means: the end, or that other workers hold the rest.
    fn look_for_the_end(&mut self, progress: &Progress) {
        if !self.in_flight.is_empty() || !self.ready.is_empty() || !self.background.is_empty() {
            return;
        }
        if progress.done >= progress.units {
            self.stop_with(WorkerEnd::Finished);
        } else if !self.held_back.is_empty() && progress.running <= self.held_back.len() as u64 {
            self.stop_with(WorkerEnd::Unfinished);
        } else if self.options.role == WorkerRole::Helper {
            self.stop_with(WorkerEnd::Idle);
        } else {
            self.observer.report(WorkerEventKind::Waiting, |_| {});
        }
    }

    fn trial_ended(&mut self, ended: Result<(Id, TrialEnd), JoinError>) {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        self.is_drained = false;
        let Some(InFlight { held, is_lost, .. }) = self.in_flight.remove(&id) else { return };
        match ended {
            Ok((_, TrialEnd { outcome: Ok(()), journal })) => {
                let missing = journal.as_ref().map_or(0, |journal| journal.missing(&held.open_units));
                if missing == 0 {
                    self.release(held.lease, journal);
                } else {
                    self.hold_back(held, format!("it ended without a result for {missing} units"));
                }
            }
            Ok((_, TrialEnd { outcome: Err(JournalError::LeaseLost), .. })) => self.lease_lost(&held.trial),
            Ok((_, TrialEnd { outcome: Err(JournalError::Diverged(reason)), .. })) => self.hold_back(held, reason),
            Ok((_, TrialEnd { outcome: Err(error), journal })) => {
                self.journal_failed(error);
                self.release(held.lease, journal);
            }
            Err(error) if error.is_cancelled() && is_lost => self.lease_lost(&held.trial),
            // The worker stops at once. What is queued is committed before the release.
            Err(error) if error.is_cancelled() => self.release(held.lease, None),
            Err(error) => {
                tracing::error!(%error, trial = %held.trial.id, "a trial panicked");
                self.hold_back(held, format!("it panicked: {error}"));
            }
        }
    }

    fn journal_failed(&mut self, error: JournalError) {
        match error {
            JournalError::Budget(exceeded) => self.stop_with(WorkerEnd::Budget(exceeded)),
            JournalError::Store(error) => self.stop_with(WorkerEnd::Store(error)),
            JournalError::Diverged(reason) => self.stop_with(WorkerEnd::Store(StoreError::Failed(reason))),
            JournalError::LeaseLost => self.lost_leases += 1,
            JournalError::Stopping => self.stop_with(WorkerEnd::Stopped),
        }
    }

    fn lease_lost(&mut self, trial: &Trial) {
        self.lost_leases += 1;
        let Trial { question, model, replicate, .. } = trial;
        let lost =
            WorkerEventKind::LeaseLost { question: question.clone(), model: model.clone(), replicate: *replicate };
        self.observer.report(lost, |_| {});
    }

    fn hold_back(&mut self, held: HeldTrial, reason: String) {
        if self.unfinished.len() < MAX_UNFINISHED {
            self.unfinished.push(UnfinishedTrial { trial: held.trial.id.clone(), reason });
        }
        self.held_back.push(held.lease);
    }

    /// Releases a trial in the background, after its last writes.
    fn release(&mut self, lease: Lease, journal: Option<Arc<ObservedJournal>>) {
        let store = Arc::clone(&self.store);
        self.background.spawn(async move {
            let release = async {
                if let Some(journal) = journal {
                    journal.flush().await?;
                }
                Ok(store.release(&lease).await?)
            };
            Background::Released(release.await)
        });
    }

    fn released(&mut self, released: Result<(), JournalError>) {
        self.is_drained = false;
        match released {
            // Another worker has it, or it was dropped because of that.
            Ok(()) | Err(JournalError::LeaseLost) => {}
            Err(error) => self.journal_failed(error),
        }
    }

    /// Drops the trials whose leases other workers have.
    fn drop_lost(&mut self, renewal: &Renewal) {
        for flying in self.in_flight.values_mut() {
            if renewal.has_lost(&flying.held.lease, flying.held.claim) {
                flying.is_lost = true;
                flying.task.abort();
            }
        }
        let (lost, ready): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.ready).into_iter().partition(|held| renewal.has_lost(&held.lease, held.claim));
        self.ready = ready;
        for held in lost {
            self.lease_lost(&held.trial);
        }
    }

    /// Records the state of the run, unless others go on with it.
    async fn record_end(&self, end: &WorkerEnd) -> Result<(), StoreError> {
        let run = &self.options.run;
        let progress = self.store.progress(run).await?;
        // A worker that was asked to stop may have finished the last trial.
        if *end == WorkerEnd::Finished || (progress.units > 0 && progress.done >= progress.units) {
            return self.store.set_state(run, RunState::Finished).await;
        }
        // What a user has set stays.
        let is_ours = self.options.role == WorkerRole::Coordinator && self.store.state(run).await? == RunState::Running;
        if !is_ours || progress.running > 0 {
            return Ok(());
        }
        self.store.set_state(run, RunState::Stopped).await
    }

    /// Releases what is left, and records the state of the run.
    async fn finish(mut self) -> Result<WorkerReport, StoreError> {
        let end = self.end.take().unwrap_or(WorkerEnd::Stopped);
        let unfinished_count = self.held_back.len() as u64;
        let last_writes = async {
            for lease in &self.held_back {
                let _ = self.store.release(lease).await;
            }
            if let Err(error) = self.guards.limits.settle().await {
                tracing::warn!(%error, "what is left of the limits is not returned");
            }
            self.record_end(&end).await
        };
        // After a failure of the store its state cannot be recorded either, and that failure is reported.
        if let Err(error) = timeout(END_TIMEOUT, last_writes).await.unwrap_or(Ok(()))
            && end == WorkerEnd::Finished
        {
            return Err(error);
        }
        self.heartbeat.stop().await;
        let progress = self.store.progress(&self.options.run).await?;
        let end = match end {
            // What was in flight has been paid for too.
            WorkerEnd::Budget(first) => {
                let last = self.options.budget.check(&progress.usage, Duration::ZERO);
                WorkerEnd::Budget(last.err().unwrap_or(first))
            }
            end => end,
        };
        Ok(WorkerReport { end, progress, lost_leases: self.lost_leases, unfinished: self.unfinished, unfinished_count })
    }
}

/// Waits until another worker hands trials back. Never returns if the store does not tell.
async fn offered(offers: &mut Option<watch::Receiver<u64>>) {
    if let Some(offers) = offers
        && offers.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}
