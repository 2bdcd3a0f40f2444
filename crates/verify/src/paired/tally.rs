//! The results of a run, added up for each model and question.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{LastTrial, QuestionId, RunId};
use crate::outcome::{UnitResult, Verdict};
use crate::stats::Attempts;
use crate::store::{ResultPages, RunStore, StoreError};

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
    last_trial: LastTrial,
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
        let mut pages = ResultPages::new(store, run);
        while let Some(page) = pages.next().await? {
            for unit in &page {
                tally.add(unit);
            }
        }
        Ok(tally)
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
    /// Returns the questions with scored attempts.
    pub(super) fn scored_questions(&self) -> BTreeSet<&QuestionId> {
        self.questions.iter().filter(|(_, question)| question.attempts.scored > 0).map(|(id, _)| id).collect()
    }

    /// Returns the mean share of passed attempts at these questions; every question counts once.
    pub(super) fn share_of(&self, questions: &BTreeSet<&QuestionId>) -> Option<f64> {
        mean(questions.iter().filter_map(|id| self.questions.get(id)?.share()))
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
        if self.last_trial.is_new(&unit.trial) {
            question.costs.extend(unit.usage.cost_usd);
        }
    }
}

impl QuestionTally {
    /// Returns the share of the scored attempts that passed.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub(super) fn share(&self) -> Option<f64> {
        let Attempts { passed, scored, .. } = self.attempts;
        (scored > 0).then(|| passed as f64 / scored as f64)
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
