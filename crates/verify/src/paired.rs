//! Models compared over the same questions, in one run or in two.
//!
//! Questions are paired. All scored attempts at a question, by all its replicates and judges, count together as the share
//! that passed, because attempts at the same question are not independent of each other. Of several comparisons one is
//! significant by chance sooner or later, so p-values are adjusted for their number.

mod model;
mod tally;

pub use model::{ComparisonOutcome, ModelComparison, QuestionChange, SIGNIFICANCE};
pub(crate) use tally::{ModelTally, RunTally};

use crate::stats::holm;

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
pub(crate) fn compare_with_best(run: &RunTally) -> Vec<ModelComparison> {
    let models: Vec<(&str, &ModelTally)> = run.order.iter().map(|label| (label.as_str(), &run.models[label])).collect();
    // Of equally accurate models, the first one counts.
    let best = models.iter().copied().reduce(|best, other| if other.1.share() > best.1.share() { other } else { best });
    let Some(best) = best else { return Vec::new() };
    let others = models.into_iter().filter(|(label, _)| *label != best.0);
    let pairs: Vec<ComparedModels<'_>> = others.map(|other| [best, other]).collect();
    compare_models(&pairs)
}
