//! The steps of one owner: their occurrences, their time, and what they add up to.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;
use wharf_protocol::{Redactor, Usage};

use super::clock::ExecutionClock;
use super::stop::{Stop, StopCause};
use crate::digest::sha256;
use crate::journal::{Journal, JournalError, RequestPermit, StepKind, StepOwner, StepRequest, StepResult, StepStart};
use crate::store::StoreError;

/// The steps of a trial's answer, or of a unit's judgment.
pub(crate) struct Steps {
    journal: Arc<dyn Journal>,
    owner: StepOwner,
    stop: Arc<Stop>,
    redactor: Redactor,
    /// The time limit of all steps together.
    time_limit: Option<Duration>,
    clock: ExecutionClock,
    /// How often each request of the owner has begun, without attempts that failed.
    occurrences: Arc<Mutex<HashMap<String, u32>>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    totals: Totals,
    /// Of an attempt that failed: it only counts if no other one follows.
    last_failed: Attempt,
}

/// What the steps of an owner add up to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Totals {
    /// The time of all steps, in milliseconds.
    pub(crate) millis: u64,
    /// Retries of model requests, by kind of error.
    pub(crate) retries: BTreeMap<String, u32>,
    /// The first call that was denied.
    pub(crate) denied: Option<String>,
    /// The time limit in seconds, if it ended a call.
    pub(crate) time_limit: Option<u64>,
}

/// One attempt of a model request.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempt {
    pub(super) millis: u64,
    /// The failures of the same request before it, by kind of error.
    pub(super) retries: BTreeMap<String, u32>,
}

/// A step that has a result.
pub(super) struct FinishedStep {
    pub(super) result: StepResult,
    /// Whether the result is on record from before, so that nothing was executed.
    pub(super) is_recorded: bool,
}

/// The outcome of executing a step.
pub(super) struct Executed {
    pub(super) body: String,
    pub(super) failed: bool,
    pub(super) usage: Usage,
}

impl Steps {
    pub(crate) fn new(journal: Arc<dyn Journal>, owner: StepOwner, redactor: Redactor) -> Self {
        Self {
            journal,
            owner,
            stop: Arc::default(),
            redactor,
            time_limit: None,
            clock: ExecutionClock::default(),
            occurrences: Arc::default(),
            state: Mutex::default(),
        }
    }

    /// Returns the steps of the same owner with their own time limit and totals.
    pub(crate) fn sibling(&self) -> Self {
        let occurrences = Arc::clone(&self.occurrences);
        Self { occurrences, ..Self::new(Arc::clone(&self.journal), self.owner.clone(), self.redactor.clone()) }
    }

    /// Sets the time limit. It counts the time during which steps execute, also that of recorded ones.
    #[must_use]
    pub(crate) fn with_time_limit(mut self, limit: Option<Duration>) -> Self {
        self.time_limit = limit;
        self
    }

    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Returns the digest of a request. It does not depend on secrets: a recording does not contain them, and the requests
    /// that quote recorded results must have the same digest as before.
    pub(super) fn digest(&self, request: &impl Serialize) -> String {
        let text = serde_json::to_string(request).unwrap_or_else(|error| error.to_string());
        sha256(self.redactor.redact_json(&text).as_bytes())
    }

    /// Waits until a request may be sent to a provider. Returns `None` if it must not be; then the cause is set.
    pub(super) async fn permit(&self, provider: &str) -> Option<RequestPermit> {
        let permit = self.journal.permit(provider).await;
        permit.map_err(|error| self.stop.set(StopCause::Journal(error))).ok()
    }

    /// Executes a step, or returns its recorded result. Returns `None` if the step must not be executed; then the cause
    /// is set. `on_time_limit` is the recorded form of a step that the time limit ended.
    pub(super) async fn run(
        &self,
        kind: StepKind,
        request: String,
        execute: impl Future<Output = Executed>,
        on_time_limit: impl FnOnce(u64) -> String,
    ) -> Option<FinishedStep> {
        let occurrence = {
            let mut occurrences = self.occurrences();
            let begun = occurrences.entry(request.clone()).or_default();
            let occurrence = *begun;
            *begun = begun.saturating_add(1);
            occurrence
        };
        let step = StepRequest { owner: self.owner.clone(), kind, request, occurrence };
        let (result, is_recorded) = match self.journal.begin_step(&step).await {
            Ok(StepStart::Recorded(result)) => {
                let clock = result.clock.map(Duration::from_millis);
                let older = || self.clock.elapsed().saturating_add(Duration::from_millis(result.millis));
                self.clock.advance_to(clock.unwrap_or_else(older));
                (result, true)
            }
            Ok(StepStart::Execute(number)) => {
                let result = self.execute(execute, on_time_limit).await;
                if let Err(error) = self.journal.finish_step(number, result.clone()).await {
                    self.stop.set(StopCause::Journal(error));
                    return None;
                }
                (result, false)
            }
            Ok(StepStart::Indeterminate) => {
                let what = match kind {
                    StepKind::Model => "a model request",
                    StepKind::Judge => "a judge's request",
                    StepKind::Embedding => "an embedding request",
                    StepKind::ReadOnlyTool | StepKind::Tool => "a tool call",
                };
                self.stop.set(StopCause::Indeterminate(format!("{what} was interrupted and may have had an effect")));
                return None;
            }
            Err(error) => {
                self.stop.set(StopCause::Journal(error));
                return None;
            }
        };
        if result.failed {
            // The next attempt is the same step.
            if let Some(begun) = self.occurrences().get_mut(&step.request) {
                *begun = begun.saturating_sub(1);
            }
        }
        Some(FinishedStep { result, is_recorded })
    }

    async fn execute(
        &self,
        execute: impl Future<Output = Executed>,
        on_time_limit: impl FnOnce(u64) -> String,
    ) -> StepResult {
        let start = Instant::now();
        let executing = self.clock.start();
        let executed = match self.time_limit {
            None => execute.await,
            Some(limit) => {
                let left = limit.saturating_sub(self.clock.elapsed());
                // A step is not begun without time: the timeout would poll it once.
                let executed = if left.is_zero() { None } else { tokio::time::timeout(left, execute).await.ok() };
                executed.unwrap_or_else(|| {
                    let body = on_time_limit(limit.as_secs());
                    Executed { body, failed: false, usage: Usage::default() }
                })
            }
        };
        let clock = Some(millis(self.clock.elapsed()));
        drop(executing);
        let Executed { body, failed, usage } = executed;
        StepResult { body, failed, usage, millis: millis(start.elapsed()), clock }
    }

    /// Reads the recorded form of a result. An unreadable one ends the trial, because it must not be paid for again.
    pub(super) fn decode<T: serde::de::DeserializeOwned>(&self, result: &StepResult) -> Option<T> {
        match serde_json::from_str(&result.body) {
            Ok(body) => Some(body),
            Err(error) => {
                let reason = format!("cannot read the recorded result of a step: {error}");
                self.stop.set(StopCause::Journal(JournalError::Store(StoreError::Failed(reason))));
                None
            }
        }
    }

    /// Adds the time of a tool call.
    pub(super) fn add_call(&self, millis: u64) {
        let mut state = self.state();
        state.totals.millis = state.totals.millis.saturating_add(millis);
    }

    /// Adds an attempt of a model request. Of the attempts that failed, only the last one counts, and only if no other
    /// one follows: a replay has no others.
    pub(super) fn add_attempt(&self, attempt: Attempt, failed: bool) {
        let mut state = self.state();
        if failed {
            state.last_failed = attempt;
        } else {
            state.last_failed = Attempt::default();
            state.totals.add(attempt);
        }
    }

    /// Records that the policy, a hook or the user denied a call.
    pub(super) fn add_denied(&self, reason: String) {
        self.state().totals.denied.get_or_insert(reason);
    }

    /// Records that the time limit ended a call.
    pub(super) fn set_time_limit_reached(&self, seconds: u64) {
        self.state().totals.time_limit = Some(seconds);
    }

    pub(crate) fn totals(&self) -> Totals {
        let state = self.state();
        let mut totals = state.totals.clone();
        totals.add(state.last_failed.clone());
        totals
    }

    fn occurrences(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        self.occurrences.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Totals {
    /// Adds the time and the retries of other steps.
    pub(crate) fn merge(&mut self, other: Self) {
        self.add(Attempt { millis: other.millis, retries: other.retries });
    }

    fn add(&mut self, attempt: Attempt) {
        self.millis = self.millis.saturating_add(attempt.millis);
        for (kind, count) in attempt.retries {
            let retries = self.retries.entry(kind).or_default();
            *retries = retries.saturating_add(count);
        }
    }
}
