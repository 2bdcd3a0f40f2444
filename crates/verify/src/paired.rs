//! Models compared over the same questions, in one run or in two.
//!
//! Questions are paired. All scored attempts at a question, by all its replicates and judges, count together as the share
//! that passed, because attempts at the same question are not independent of each other. Of several comparisons one is
//! significant by chance sooner or later, so p-values are adjusted for their number.

mod model;
mod tally;

pub use model::{ComparisonOutcome, ModelComparison, QuestionChange, SIGNIFICANCE};
pub(crate) use tally::{ModelTally, RunTally};

use std::collections::BTreeSet;

use crate::ids::QuestionId;
use crate::stats::holm;
use model::p_value;

/// Models with their results, in the order of the comparison.
pub(crate) type ComparedModels<'a> = [(&'a str, &'a ModelTally); 2];

/// Compares pairs of models.
pub(crate) fn compare_models(pairs: &[ComparedModels<'_>]) -> Vec<ModelComparison> {
    let mut compared: Vec<ModelComparison> = pairs.iter().map(ModelComparison::new).collect();
    let p_values: Vec<f64> = compared.iter().map(|model| model.p).collect();
    for (model, adjusted) in compared.iter_mut().zip(holm(&p_values)) {
        model.adjust(adjusted);
    }
    compared
}

/// Compares the most accurate model of a run with each other one. Empty for a single model.
///
/// The same results choose the best model, so every pair could have been one of these comparisons: the p-values are
/// adjusted for all pairs.
pub(crate) fn compare_with_best(run: &RunTally) -> Vec<ModelComparison> {
    let models: Vec<(&str, &ModelTally)> = run.order.iter().map(|label| (label.as_str(), &run.models[label])).collect();
    let Some(best) = best_of(&models) else { return Vec::new() };
    let mut places = Vec::new();
    let mut p_values = Vec::new();
    for (index, first) in models.iter().enumerate() {
        for (other, second) in models.iter().enumerate().skip(index + 1) {
            places.push((index, other));
            p_values.push(p_value(&[*first, *second]));
        }
    }
    let mut compared = Vec::new();
    for ((first, second), adjusted) in places.into_iter().zip(holm(&p_values)) {
        let other = match best {
            _ if best == first => second,
            _ if best == second => first,
            _ => continue,
        };
        let mut comparison = ModelComparison::new(&[models[best], models[other]]);
        comparison.adjust(adjusted);
        compared.push((other, comparison));
    }
    compared.sort_by_key(|(other, _)| *other);
    compared.into_iter().map(|(_, comparison)| comparison).collect()
}

/// Returns the place of the most accurate model, over the questions that all candidates have in common. Of equally
/// accurate models, the first one counts.
///
/// A model with scored answers to less than half of the questions is not a candidate: little would decide about it.
fn best_of(models: &[(&str, &ModelTally)]) -> Option<usize> {
    let scored: Vec<BTreeSet<&QuestionId>> = models.iter().map(|(_, model)| model.scored_questions()).collect();
    let most = scored.iter().map(BTreeSet::len).max()?;
    let is_candidate = |index: &usize| scored[*index].len() * 2 >= most;
    let candidates: Vec<usize> = (0..models.len()).filter(is_candidate).collect();
    let common = candidates.iter().map(|index| scored[*index].clone());
    let common = common.reduce(|common, other| &common & &other).unwrap_or_default();
    let share = |index: usize| models[index].1.share_of(&common);
    candidates.into_iter().reduce(|best, other| if share(other) > share(best) { other } else { best })
}

#[cfg(test)]
mod tests;
