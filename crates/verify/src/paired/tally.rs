//! The results of a run, added up for each model and question.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{QuestionId, RunId, TrialId};
use crate::outcome::{UnitResult, Verdict};
use crate::stats::Attempts;
use crate::store::{RunStore, StoreError};

/// How many results are read at once.
const PAGE: u32 = 256;

/// The results of a run.
#[derive(Debug, Default)]
pub(crate) struct RunTally {
    /// Labels of the models, in the order of the plan.
    pub(crate) order: Vec<String>,
    pub(crate) models: BTreeMap<String, ModelTally>,
}

/// The results of a model.
#[derive(Debug, Default)]
pub(crate) struct ModelTally {
    /// The questions, in the order of the plan.
    pub(crate) order: Vec<QuestionId>,
    pub(crate) questions: BTreeMap<QuestionId, QuestionTally>,
    last_trial: Option<TrialId>,
}

/// The results of a model for a question.
#[derive(Debug, Default)]
pub(crate) struct QuestionTally {
    pub(crate) attempts: Attempts,
    /// Costs of the answers with a known price, without judging.
    costs: Vec<f64>,
    millis: Vec<f64>,
    /// Digests of the tools that were offered in scored units.
    pub(crate) tool_sets: BTreeSet<String>,
}

impl RunTally {
    pub(crate) async fn read(store: &dyn RunStore, run: &RunId) -> Result<Self, StoreError> {
        let mut tally = Self::default();
        let mut skip = 0;
        loop {
            let page = store.results(run, skip, PAGE).await?;
            for unit in &page {
                tally.add(unit);
            }
            skip += page.len() as u64;
            if page.len() < PAGE as usize {
                return Ok(tally);
            }
        }
    }

    pub(crate) fn add(&mut self, unit: &UnitResult) {
        let label = &unit.model.label;
        if !self.models.contains_key(label) {
            self.order.push(label.clone());
        }
        self.models.entry(label.clone()).or_default().add(unit);
    }
}

impl ModelTally {
    /// Returns the mean share of passed attempts; every question counts once.
    pub(super) fn share(&self) -> Option<f64> {
        mean(self.questions.values().filter_map(QuestionTally::share))
    }

    #[expect(clippy::cast_precision_loss, reason = "milliseconds are far below 2^52")]
    fn add(&mut self, unit: &UnitResult) {
        if !self.questions.contains_key(&unit.question) {
            self.order.push(unit.question.clone());
        }
        let question = self.questions.entry(unit.question.clone()).or_default();
        if !unit.verdict.is_scored() {
            return;
        }
        question.attempts.scored += 1;
        question.attempts.passed += usize::from(unit.verdict == Verdict::Passed);
        question.millis.push(unit.millis as f64);
        question.tool_sets.insert(unit.tool_set.clone());
        // All judges of a trial share its answer. The units of a trial follow each other.
        if self.last_trial.as_ref() != Some(&unit.trial) {
            self.last_trial = Some(unit.trial.clone());
            question.costs.extend(unit.usage.cost_usd);
        }
    }
}

impl QuestionTally {
    /// Returns the share of the scored attempts that passed.
    pub(super) fn share(&self) -> Option<f64> {
        let passes = [(self.attempts.passed, 1.0), (self.attempts.scored - self.attempts.passed, 0.0)];
        mean(passes.into_iter().flat_map(|(count, value)| std::iter::repeat_n(value, count)))
    }

    pub(super) fn cost(&self) -> Option<f64> {
        mean(self.costs.iter().copied())
    }

    pub(super) fn millis(&self) -> Option<f64> {
        mean(self.millis.iter().copied())
    }
}

/// Returns the mean of values. `None` without values.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}
