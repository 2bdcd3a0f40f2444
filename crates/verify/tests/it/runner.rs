//! A small pipeline for tests: every trial makes the same paid steps.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wharf_protocol::BoxFuture;
use wharf_verify::journal::{Journal, JournalError, StepKind, StepOwner, StepRequest, StepStart};
use wharf_verify::{Trial, TrialRunner, UnitId, Verdict};

use crate::store_kit::{answer, unit_result};

/// Steps of the answer, with what they do.
pub(crate) const ANSWER_STEPS: [(&str, StepKind); 4] = [
    ("first", StepKind::Model),
    ("look", StepKind::ReadOnlyTool),
    ("second", StepKind::Model),
    ("third", StepKind::Model),
];

/// Where steps are executed and paid for.
pub(crate) trait Provider: Send + Sync {
    /// Executes the step with this key.
    fn call<'a>(&'a self, key: &'a str) -> BoxFuture<'a, ()>;
}

/// A provider in this process that counts.
#[derive(Default)]
pub(crate) struct Counting {
    pub(crate) calls: Mutex<BTreeMap<String, u32>>,
    pub(crate) delay: Duration,
}

impl Counting {
    pub(crate) fn total(&self) -> u32 {
        self.calls.lock().unwrap().values().sum()
    }
}

impl Provider for Counting {
    fn call<'a>(&'a self, key: &'a str) -> BoxFuture<'a, ()> {
        *self.calls.lock().unwrap().entry(key.to_owned()).or_default() += 1;
        Box::pin(tokio::time::sleep(self.delay))
    }
}

/// Makes the steps of each trial, then one step for each judge.
pub(crate) struct PaidRunner {
    pub(crate) provider: Arc<dyn Provider>,
    /// Writes that the store refused because another worker has the trial.
    pub(crate) rejected: AtomicU64,
}

/// Returns all keys of a run.
pub(crate) fn all_keys(trials: &[Trial]) -> Vec<String> {
    let keys = trials.iter().flat_map(|trial| {
        let answer = ANSWER_STEPS.map(|(name, _)| key(trial, name));
        answer.into_iter().chain(trial.units.iter().map(|unit| judge_key(trial, &unit.id)))
    });
    keys.collect()
}

fn key(trial: &Trial, name: &str) -> String {
    format!("{}-{}-{name}", trial.question, trial.replicate)
}

fn judge_key(trial: &Trial, unit: &UnitId) -> String {
    key(trial, &format!("judge-{}", &unit.0[..8]))
}

impl PaidRunner {
    pub(crate) fn new(provider: Arc<dyn Provider>) -> Arc<Self> {
        Arc::new(Self { provider, rejected: AtomicU64::new(0) })
    }

    /// Makes one step. Returns `None` if it is indeterminate.
    async fn step(
        &self,
        journal: &dyn Journal,
        owner: StepOwner,
        (key, kind): (String, StepKind),
    ) -> Result<Option<String>, JournalError> {
        let request = StepRequest { owner, kind, request: key, occurrence: 0 };
        match journal.begin_step(&request).await? {
            StepStart::Recorded(result) => Ok(Some(result.body)),
            StepStart::Indeterminate => Ok(None),
            StepStart::Execute(number) => {
                self.provider.call(&request.request).await;
                let result = answer(&request.request);
                let body = result.body.clone();
                journal.finish_step(number, result).await?;
                Ok(Some(body))
            }
        }
    }

    async fn trial(&self, trial: &Trial, open: &[UnitId], journal: &dyn Journal) -> Result<(), JournalError> {
        let mut is_known = true;
        for (name, kind) in ANSWER_STEPS {
            is_known = is_known && self.step(journal, StepOwner::Trial, (key(trial, name), kind)).await?.is_some();
        }
        for unit in open {
            let owner = StepOwner::Unit(unit.clone());
            let is_judged =
                is_known && self.step(journal, owner, (judge_key(trial, unit), StepKind::Judge)).await?.is_some();
            let verdict = if is_judged { Verdict::Passed } else { Verdict::Indeterminate };
            journal.finish_unit(&unit_result(trial, unit, verdict)).await?;
        }
        Ok(())
    }
}

impl TrialRunner for PaidRunner {
    fn run<'a>(
        &'a self,
        trial: &'a Trial,
        open_units: &'a [UnitId],
        journal: Arc<dyn Journal>,
    ) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(async move {
            let outcome = self.trial(trial, open_units, &*journal).await;
            if outcome == Err(JournalError::LeaseLost) {
                self.rejected.fetch_add(1, Ordering::SeqCst);
            }
            outcome
        })
    }
}
