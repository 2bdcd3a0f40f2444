//! What a worker reports while it works.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, watch};
use wharf_protocol::BoxFuture;

use crate::ids::{QuestionId, UnitId};
use crate::journal::{Journal, JournalError, RequestPermit};
use crate::outcome::{UnitResult, Verdict};
use crate::plan::Trial;
use crate::step::{StepRequest, StepResult, StepStart};
use crate::store::Progress;

use super::Stop;

/// A change during a run, and what is done of the run by then.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerEvent {
    /// What happened.
    pub kind: WorkerEventKind,
    /// What is done. It includes what other workers did until the last claim.
    pub progress: Progress,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkerEventKind {
    /// A trial started.
    TrialStarted {
        /// The question.
        question: QuestionId,
        /// Label of the model.
        model: String,
        /// Number of the replicate.
        replicate: u32,
    },
    /// A unit has a result.
    UnitFinished {
        /// The unit.
        unit: UnitId,
        /// The question.
        question: QuestionId,
        /// Label of the model.
        model: String,
        /// Label of the judge.
        judge: Option<String>,
        /// Number of the replicate.
        replicate: u32,
        /// The verdict.
        verdict: Verdict,
    },
    /// A step has a result, which may have cost something.
    StepFinished,
    /// Another worker has taken over a trial.
    LeaseLost {
        /// The question.
        question: QuestionId,
        /// Label of the model.
        model: String,
        /// Number of the replicate.
        replicate: u32,
    },
    /// Nothing is left but trials of other workers.
    Waiting,
}

/// Counts and reports. A reader that is too slow misses events, not counts: every event has all of them.
pub(super) struct Observer {
    progress: Mutex<Progress>,
    events: Option<mpsc::Sender<WorkerEvent>>,
}

impl Observer {
    pub(super) fn new(progress: Progress, events: Option<mpsc::Sender<WorkerEvent>>) -> Self {
        Self { progress: Mutex::new(progress), events }
    }

    /// Applies a change and reports it.
    pub(super) fn report(&self, kind: WorkerEventKind, change: impl FnOnce(&mut Progress)) {
        let progress = {
            let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
            change(&mut progress);
            *progress
        };
        if let Some(events) = &self.events {
            let _ = events.try_send(WorkerEvent { kind, progress });
        }
    }

    /// Includes what the store knows. It may lack the last results of this worker, so nothing decreases.
    pub(super) fn merge(&self, stored: &Progress) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.units = stored.units;
        progress.running = stored.running;
        progress.done = progress.done.max(stored.done);
        progress.passed = progress.passed.max(stored.passed);
        progress.failed = progress.failed.max(stored.failed);
        progress.invalid = progress.invalid.max(stored.invalid);
        progress.indeterminate = progress.indeterminate.max(stored.indeterminate);
        if stored.usage.total_tokens() >= progress.usage.total_tokens() {
            progress.usage = stored.usage;
        }
    }
}

/// A journal that reports to an observer. When the worker is asked to stop, it refuses retries: a provider that does not
/// respond would delay the end, and the trial can be continued later from the same step.
pub(super) struct ObservedJournal {
    journal: Arc<dyn Journal>,
    trial: Arc<Trial>,
    observer: Arc<Observer>,
    stop: watch::Receiver<Stop>,
    /// Whether the last step that ended has failed, so that the next one is probably its retry.
    is_retrying: AtomicBool,
    finished_units: Mutex<Vec<UnitId>>,
}

impl ObservedJournal {
    pub(super) fn new(
        journal: Arc<dyn Journal>,
        trial: Arc<Trial>,
        observer: Arc<Observer>,
        stop: watch::Receiver<Stop>,
    ) -> Self {
        let (is_retrying, finished_units) = (AtomicBool::default(), Mutex::default());
        Self { journal, trial, observer, stop, is_retrying, finished_units }
    }

    fn check_retry(&self) -> Result<(), JournalError> {
        let is_stopping = *self.stop.borrow() != Stop::No;
        if is_stopping && self.is_retrying.load(Ordering::Relaxed) { Err(JournalError::Stopping) } else { Ok(()) }
    }

    /// Returns how many of the units have no result.
    pub(super) fn missing(&self, open_units: &[UnitId]) -> usize {
        let finished = self.finished_units.lock().unwrap_or_else(PoisonError::into_inner);
        open_units.iter().filter(|unit| !finished.contains(unit)).count()
    }
}

impl Journal for ObservedJournal {
    fn is_replay(&self) -> bool {
        self.journal.is_replay()
    }

    fn permit<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Result<RequestPermit, JournalError>> {
        Box::pin(async move {
            self.check_retry()?;
            self.journal.permit(provider).await
        })
    }

    fn begin_step<'a>(&'a self, step: &'a StepRequest) -> BoxFuture<'a, Result<StepStart, JournalError>> {
        Box::pin(async move {
            self.check_retry()?;
            self.journal.begin_step(step).await
        })
    }

    fn finish_step(&self, step: i64, result: StepResult) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            let usage = result.usage;
            self.is_retrying.store(result.failed, Ordering::Relaxed);
            self.journal.finish_step(step, result).await?;
            self.observer.report(WorkerEventKind::StepFinished, |progress| progress.usage += usage);
            // The delay before the retry is not waited for.
            self.check_retry()
        })
    }

    fn finish_unit<'a>(&'a self, result: &'a UnitResult) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(async move {
            self.journal.finish_unit(result).await?;
            self.finished_units.lock().unwrap_or_else(PoisonError::into_inner).push(result.unit.clone());
            let judge = self.trial.units.iter().find(|unit| unit.id == result.unit).and_then(|unit| unit.judge.clone());
            let finished = WorkerEventKind::UnitFinished {
                unit: result.unit.clone(),
                question: self.trial.question.clone(),
                model: self.trial.model.clone(),
                judge,
                replicate: self.trial.replicate,
                verdict: result.verdict,
            };
            self.observer.report(finished, |progress| {
                progress.done += 1;
                match result.verdict {
                    Verdict::Passed => progress.passed += 1,
                    Verdict::Failed => progress.failed += 1,
                    Verdict::Invalid => progress.invalid += 1,
                    Verdict::Indeterminate => progress.indeterminate += 1,
                }
            });
            Ok(())
        })
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), JournalError>> {
        self.journal.flush()
    }
}
