//! The overview of a report: the run, its questions, models and judges, and the statistics.

use std::collections::HashMap;

use serde::Serialize;

use super::{DATA_FORMAT, HtmlInput};
use crate::ids::QuestionId;
use crate::outcome::{ModelIdentity, UnitResult};
use crate::paired::{ComparisonOutcome, ModelComparison, RunTally, compare_with_best};
use crate::panel::Agreement;
use crate::report::questions::ReportQuestion;
use crate::report::statistics::RunStatistics;
use crate::report::summary::{ModelSummary, Summary};
use crate::stats::DifferenceEstimate;
use crate::store::RunSummary;

/// The last chunk.
#[derive(Serialize)]
pub(super) struct Overview<'a> {
    format: u32,
    wharf: &'static str,
    run: &'a RunSummary,
    description: Option<&'a str>,
    questions: Vec<ReportQuestion>,
    models: Vec<ModelIdentity>,
    judges: Vec<ModelIdentity>,
    planned: u64,
    results: Vec<ModelSummary>,
    #[serde(flatten)]
    statistics: RunStatistics,
    agreement: Option<Agreement>,
    /// The most accurate model, compared with each other one.
    compared: Vec<ComparedModel>,
}

/// A model, compared with the most accurate one over the same questions.
#[derive(Serialize)]
struct ComparedModel {
    best: String,
    model: String,
    questions: usize,
    difference: Option<DifferenceEstimate>,
    worse: usize,
    better: usize,
    p: f64,
    outcome: ComparisonOutcome,
}

impl From<ModelComparison> for ComparedModel {
    fn from(compared: ModelComparison) -> Self {
        Self {
            best: compared.model_a,
            model: compared.model_b,
            questions: compared.questions,
            difference: compared.difference,
            worse: compared.regressed,
            better: compared.improved,
            p: compared.p_adjusted,
            outcome: compared.outcome,
        }
    }
}

impl<'a> Overview<'a> {
    pub(super) fn new(input: &'a HtmlInput, names: Names, summary: Summary, tally: &RunTally) -> Self {
        let mut questions = input.questions.clone();
        questions.extend(names.unknown_questions);
        Self {
            format: DATA_FORMAT,
            wharf: env!("CARGO_PKG_VERSION"),
            run: &input.run,
            description: input.description.as_deref(),
            questions,
            models: names.models,
            judges: names.judges,
            planned: summary.planned,
            results: summary.models,
            statistics: summary.statistics,
            agreement: summary.agreement,
            compared: compare_with_best(tally).into_iter().map(ComparedModel::from).collect(),
        }
    }
}

/// The numbers that rows use instead of names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) question: usize,
    pub(super) model: usize,
    pub(super) judge: Option<usize>,
}

/// Questions, models and judges in the order of their numbers.
pub(super) struct Names {
    questions: HashMap<QuestionId, usize>,
    /// Number of the questions of the benchmark.
    known: usize,
    /// Questions of results that the benchmark does not have.
    unknown_questions: Vec<ReportQuestion>,
    models: Vec<ModelIdentity>,
    judges: Vec<ModelIdentity>,
}

impl Names {
    pub(super) fn new(questions: &[ReportQuestion]) -> Self {
        let mut numbers = HashMap::new();
        for (number, question) in questions.iter().enumerate() {
            numbers.entry(question.id.clone()).or_insert(number);
        }
        Self {
            questions: numbers,
            known: questions.len(),
            unknown_questions: Vec::new(),
            models: Vec::new(),
            judges: Vec::new(),
        }
    }

    /// Returns the numbers of a unit. New names get the next number.
    pub(super) fn place(&mut self, unit: &UnitResult) -> Place {
        let next = self.known + self.unknown_questions.len();
        let question = *self.questions.entry(unit.question.clone()).or_insert(next);
        if question == next {
            self.unknown_questions.push(ReportQuestion::unknown(unit));
        }
        Place {
            question,
            model: number_of(&mut self.models, &unit.model),
            judge: unit.judge.as_ref().map(|judge| number_of(&mut self.judges, judge)),
        }
    }
}

/// Returns the number of a label. The label is unique in a run; the model that responded may vary.
fn number_of(known: &mut Vec<ModelIdentity>, model: &ModelIdentity) -> usize {
    known.iter().position(|other| other.label == model.label).unwrap_or_else(|| {
        known.push(model.clone());
        known.len() - 1
    })
}
