//! The comparison of two models, or of one model in two runs.

use serde::Serialize;

use super::ComparedModels;
use super::tally::{QuestionTally, mean};
use crate::ids::QuestionId;
use crate::stats::{Attempts, DifferenceEstimate, Discordance, bootstrap_mean_difference, mcnemar};

/// A difference with a smaller p-value is significant.
pub const SIGNIFICANCE: f64 = 0.05;

/// What a comparison shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonOutcome {
    /// The second run is significantly worse.
    Regression,
    /// The second run is significantly better.
    Improvement,
    /// The difference may be chance.
    NotSignificant,
    /// No question has scored units in both runs.
    NothingCompared,
}

/// A question that passed more or less often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuestionChange {
    /// Id of the question.
    pub question: QuestionId,
    /// Attempts of the first run.
    pub a: Attempts,
    /// Attempts of the second run.
    pub b: Attempts,
}

/// The comparison of one model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelComparison {
    /// Label of the model in the first run.
    pub model_a: String,
    /// Label of the model in the second run.
    pub model_b: String,
    /// Questions with scored units in both runs. All numbers are about these.
    pub questions: usize,
    /// Questions with results in a run, but without scored units in both.
    pub unscored: Vec<QuestionId>,
    /// Mean share of passed attempts in the first run; every question counts once.
    pub accuracy_a: Option<f64>,
    /// The same in the second run.
    pub accuracy_b: Option<f64>,
    /// Difference of the accuracies, second minus first, with a bootstrap interval over questions.
    pub difference: Option<DifferenceEstimate>,
    /// Questions that passed less often.
    pub regressed: usize,
    /// Questions that passed more often.
    pub improved: usize,
    /// The two-sided p-value of McNemar's exact test of regressed against improved questions.
    pub p: f64,
    /// The p-value, adjusted for the number of comparisons (Holm).
    pub p_adjusted: f64,
    /// What the comparison shows.
    pub outcome: ComparisonOutcome,
    /// Difference of the cost of an answer, in US dollars, over questions whose prices are known.
    pub cost: Option<DifferenceEstimate>,
    /// Difference of the time of a unit, in milliseconds.
    pub millis: Option<DifferenceEstimate>,
    /// The questions that changed, in the order of the plan; regressed ones first.
    pub changes: Vec<QuestionChange>,
}

impl QuestionChange {
    /// Returns whether the question passed less often.
    pub fn is_regression(&self) -> bool {
        // Compares shares without rounding. Both have scored attempts.
        self.b.passed * self.a.scored < self.a.passed * self.b.scored
    }

    fn is_change(&self) -> bool {
        self.b.passed * self.a.scored != self.a.passed * self.b.scored
    }
}

/// The questions of two models, paired.
struct PairedQuestions<'a> {
    /// Those with scored units of both.
    pairs: Vec<(&'a QuestionId, &'a QuestionTally, &'a QuestionTally)>,
    unscored: Vec<QuestionId>,
}

impl<'a> PairedQuestions<'a> {
    fn new([(_, a), (_, b)]: &ComparedModels<'a>) -> Self {
        let mut questions = Self { pairs: Vec::new(), unscored: Vec::new() };
        for id in &a.order {
            let Some(second) = b.questions.get(id) else { continue };
            let first = &a.questions[id];
            if first.attempts.scored > 0 && second.attempts.scored > 0 {
                questions.pairs.push((id, first, second));
            } else {
                questions.unscored.push(id.clone());
            }
        }
        questions
    }

    /// Returns the questions that changed, regressed ones first.
    fn changes(&self) -> Vec<QuestionChange> {
        let changes = self.pairs.iter().map(|(id, first, second)| QuestionChange {
            question: (*id).clone(),
            a: first.attempts,
            b: second.attempts,
        });
        let mut changes: Vec<QuestionChange> = changes.filter(QuestionChange::is_change).collect();
        changes.sort_by_key(|change| !change.is_regression());
        changes
    }
}

fn discordance(changes: &[QuestionChange]) -> Discordance {
    let regressed = changes.iter().filter(|change| change.is_regression()).count();
    Discordance { only_first: regressed, only_second: changes.len() - regressed }
}

/// Returns the p-value of a comparison, which has no direction.
pub(super) fn p_value(models: &ComparedModels<'_>) -> f64 {
    mcnemar(discordance(&PairedQuestions::new(models).changes()))
}

impl ModelComparison {
    pub(super) fn new(models: &ComparedModels<'_>) -> Self {
        let [(label_a, _), (label_b, _)] = models;
        let questions = PairedQuestions::new(models);
        let changes = questions.changes();
        let PairedQuestions { pairs, unscored } = questions;
        let shares = values(&pairs, QuestionTally::share);
        let discordance = discordance(&changes);
        let Discordance { only_first: regressed, only_second: improved } = discordance;
        let difference = bootstrap_mean_difference(&shares);
        let p = mcnemar(discordance);
        Self {
            model_a: (*label_a).to_owned(),
            model_b: (*label_b).to_owned(),
            questions: pairs.len(),
            unscored,
            accuracy_a: mean(shares.iter().map(|(first, _)| *first)),
            accuracy_b: mean(shares.iter().map(|(_, second)| *second)),
            difference,
            regressed,
            improved,
            p,
            p_adjusted: p,
            outcome: outcome(difference, p, regressed > improved),
            cost: bootstrap_mean_difference(&values(&pairs, QuestionTally::cost)),
            millis: bootstrap_mean_difference(&values(&pairs, QuestionTally::millis)),
            changes,
        }
    }

    /// Uses a p-value that is adjusted for several comparisons.
    pub(super) fn adjust(&mut self, p_adjusted: f64) {
        self.p_adjusted = p_adjusted;
        self.outcome = outcome(self.difference, p_adjusted, self.regressed > self.improved);
    }
}

/// Returns the values of the questions that have one in both runs.
fn values(
    pairs: &[(&QuestionId, &QuestionTally, &QuestionTally)],
    value: fn(&QuestionTally) -> Option<f64>,
) -> Vec<(f64, f64)> {
    pairs.iter().filter_map(|(_, first, second)| Some((value(first)?, value(second)?))).collect()
}

/// The test counts questions, the difference weighs them: a change is significant if both have the same direction.
fn outcome(difference: Option<DifferenceEstimate>, p: f64, is_mostly_worse: bool) -> ComparisonOutcome {
    match difference {
        None => ComparisonOutcome::NothingCompared,
        Some(found) if p < SIGNIFICANCE && is_mostly_worse && found.value < 0.0 => ComparisonOutcome::Regression,
        Some(found) if p < SIGNIFICANCE && !is_mostly_worse && found.value > 0.0 => ComparisonOutcome::Improvement,
        Some(_) => ComparisonOutcome::NotSignificant,
    }
}
