//! Scores judges against labels that people gave: the same judging as in a run, on prepared answers.

mod labels;
mod prepared_answers;
mod score;

use std::collections::HashMap;
use std::sync::Arc;

use crate::benchmark::Benchmark;
use crate::digest::digest;
use crate::ids::{QuestionId, RunId};
use crate::model_under_test::{ModelSettings, ModelUnderTest};
use crate::plan::Plan;
use crate::store::{ResultPages, RunStore, StoreError};

pub use labels::{HumanLabel, InvalidLabels, LabeledAnswer, Labels};
use prepared_answers::PreparedAnswers;
use score::ScoreBuilder;
pub use score::{Confusion, FieldScore, JudgeScore};

/// Answers with labels, as a benchmark whose models have prepared answers.
pub struct JudgeCheck {
    labels: Vec<LabeledAnswer>,
    benchmark: Benchmark,
    models: Vec<ModelUnderTest>,
    /// The label of a trial, by its question and its model.
    places: HashMap<(QuestionId, String), usize>,
}

impl JudgeCheck {
    /// Prepares the labeled answers to the questions of a benchmark. Assertions are left out: an answer has no trace.
    ///
    /// Model number `n` has the `n`th labeled answer to each text of a question.
    pub fn new(benchmark: &Benchmark, labels: Labels) -> Self {
        let labels = labels.answers;
        let mut benchmark = benchmark.clone();
        benchmark.servers.clear();
        benchmark.defaults.required_servers.clear();
        benchmark.questions.retain(|question| labels.iter().any(|label| label.question == question.id));
        for question in &mut benchmark.questions {
            question.trace.clear();
            question.servers.clear();
            question.required_servers.clear();
        }
        let texts: HashMap<&QuestionId, &String> =
            benchmark.questions.iter().map(|question| (&question.id, &question.question)).collect();
        let mut used: HashMap<&String, usize> = HashMap::new();
        let mut answers: Vec<HashMap<String, String>> = Vec::new();
        let mut places = HashMap::new();
        for (index, label) in labels.iter().enumerate() {
            let Some(text) = texts.get(&label.question) else { continue };
            let place = used.entry(*text).or_default();
            if *place == answers.len() {
                answers.push(HashMap::new());
            }
            answers[*place].insert((*text).clone(), label.answer.clone());
            places.insert((label.question.clone(), model_label(*place)), index);
            *place += 1;
        }
        let models = answers.into_iter().enumerate().map(|(place, answers)| model(place, answers)).collect();
        Self { labels, benchmark, models, places }
    }

    /// Returns the questions that have labels.
    pub fn benchmark(&self) -> &Benchmark {
        &self.benchmark
    }

    /// Returns the models with the prepared answers.
    pub fn models(&self) -> &[ModelUnderTest] {
        &self.models
    }

    /// Returns the number of labeled answers.
    pub fn labels(&self) -> usize {
        self.labels.len()
    }

    /// Removes the trials without a labeled answer from a plan.
    pub fn limit(&self, plan: &mut Plan) {
        plan.retain(|question, model| self.places.contains_key(&(question.clone(), model.to_owned())));
    }

    /// Compares the results of a run with the labels. Returns the score of each judge.
    ///
    /// # Errors
    /// If the results cannot be read.
    pub async fn score(&self, store: &dyn RunStore, run: &RunId) -> Result<Vec<JudgeScore>, StoreError> {
        let mut scores = ScoreBuilder::default();
        let mut pages = ResultPages::new(store, run);
        while let Some(page) = pages.next().await? {
            for result in &page {
                let place = self.places.get(&(result.question.clone(), result.model.label.clone()));
                if let Some(label) = place.and_then(|place| self.labels.get(*place)) {
                    scores.add(label, result);
                }
            }
        }
        Ok(scores.finish())
    }
}

fn model_label(place: usize) -> String {
    format!("answers-{}", place + 1)
}

fn model(place: usize, answers: HashMap<String, String>) -> ModelUnderTest {
    let label = model_label(place);
    let sorted: std::collections::BTreeMap<&String, &String> = answers.iter().collect();
    let settings = ModelSettings { file_digest: Some(digest(&sorted)), ..ModelSettings::new("labels", &label) };
    let model = Arc::new(PreparedAnswers { name: label.clone(), answers });
    ModelUnderTest { label, model, settings, concurrency: None }
}
