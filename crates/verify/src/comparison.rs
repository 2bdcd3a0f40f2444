//! Comparison of two runs: which questions changed, and whether a model became worse by more than chance.

mod differences;

use serde::Serialize;

use crate::ids::RunId;
use crate::paired::{ComparedModels, RunTally, compare_models};
pub use crate::paired::{ComparisonOutcome, ModelComparison, QuestionChange, SIGNIFICANCE};
use crate::store::{RunStore, StoreError};
pub use differences::Difference;
use differences::RunSettings;

/// One of two runs that are compared.
#[derive(Clone, Copy)]
pub struct ComparedRun<'a> {
    /// The store of the run.
    pub store: &'a dyn RunStore,
    /// The run.
    pub run: &'a RunId,
    /// Label of the model to compare. Without one, models with the same label are compared.
    pub model: Option<&'a str>,
}

/// A run in a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunIdentity {
    /// Id of the run.
    pub run: RunId,
    /// Name of the benchmark.
    pub benchmark: String,
    /// When the run was created, in seconds since 1970.
    pub created: i64,
}

/// The comparison of a run `a` with a later run `b`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The first run.
    pub a: RunIdentity,
    /// The second run.
    pub b: RunIdentity,
    /// Why the numbers of the runs do not mean the same. Empty if they are comparable.
    pub differences: Vec<Difference>,
    /// The compared models.
    pub models: Vec<ModelComparison>,
}

/// Why runs cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ComparisonError {
    /// The results could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A run has no results of a model.
    #[error("run `{run}` has no results of model `{model}`")]
    UnknownModel {
        /// The run.
        run: RunId,
        /// The label as given.
        model: String,
        /// The labels of the run.
        known: Vec<String>,
    },
    /// The runs have several models, and none with the same label.
    #[error("the runs have no model in common")]
    NoCommonModel {
        /// The labels of the first run.
        a: Vec<String>,
        /// The labels of the second run.
        b: Vec<String>,
    },
}

impl Comparison {
    /// Returns whether a model became significantly worse.
    pub fn has_regression(&self) -> bool {
        self.models.iter().any(|model| model.outcome == ComparisonOutcome::Regression)
    }
}

/// Compares two runs.
///
/// # Errors
/// If the results cannot be read, or if the runs have no models to compare.
pub async fn compare(a: ComparedRun<'_>, b: ComparedRun<'_>) -> Result<Comparison, ComparisonError> {
    let (summary_a, settings_a) = a.store.run(a.run).await?;
    let (summary_b, settings_b) = b.store.run(b.run).await?;
    let tally_a = RunTally::read(a.store, a.run).await?;
    let tally_b = RunTally::read(b.store, b.run).await?;
    let pairs = model_pairs((&a, &tally_a), (&b, &tally_b))?;
    let identity = |summary: &crate::store::RunSummary| RunIdentity {
        run: summary.id.clone(),
        benchmark: summary.benchmark.clone(),
        created: summary.created,
    };
    let mut found = differences::of_settings(
        &RunSettings { summary: &summary_a, settings: &settings_a },
        &RunSettings { summary: &summary_b, settings: &settings_b },
    );
    let tallies: Vec<_> =
        pairs.iter().map(|(first, second)| (&tally_a.models[first], &tally_b.models[second])).collect();
    let compared = pairs.iter().zip(&tallies);
    let compared: Vec<ComparedModels<'_>> =
        compared.map(|((first, second), (a, b))| [(first.as_str(), *a), (second.as_str(), *b)]).collect();
    found.extend(differences::of_questions(&tallies));
    found.extend(differences::of_tools(&tallies));
    let models = compare_models(&compared);
    Ok(Comparison { a: identity(&summary_a), b: identity(&summary_b), differences: found, models })
}

/// Returns the labels of the models to compare.
fn model_pairs(
    (run_a, a): (&ComparedRun<'_>, &RunTally),
    (run_b, b): (&ComparedRun<'_>, &RunTally),
) -> Result<Vec<(String, String)>, ComparisonError> {
    for (run, tally) in [(run_a, a), (run_b, b)] {
        if let Some(model) = run.model
            && !tally.models.contains_key(model)
        {
            let known = tally.order.clone();
            return Err(ComparisonError::UnknownModel { run: run.run.clone(), model: model.to_owned(), known });
        }
    }
    let wanted = |run: &ComparedRun<'_>, tally: &RunTally| match run.model {
        Some(model) => vec![model.to_owned()],
        None => tally.order.clone(),
    };
    let (first, second) = (wanted(run_a, a), wanted(run_b, b));
    // One model on each side is a pair, whatever its label is.
    if let ([one], [other]) = (&first[..], &second[..]) {
        return Ok(vec![(one.clone(), other.clone())]);
    }
    let common: Vec<_> =
        first.iter().filter(|label| second.contains(label)).map(|label| (label.clone(), label.clone())).collect();
    if common.is_empty() {
        return Err(ComparisonError::NoCommonModel { a: first, b: second });
    }
    Ok(common)
}
