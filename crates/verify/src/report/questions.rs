//! The questions of a report: the texts that results refer to by id.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::benchmark::{Benchmark, Question};
use crate::digest::digest;
use crate::ids::QuestionId;
use crate::outcome::UnitResult;

/// A question in a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportQuestion {
    /// Id of the question.
    pub id: QuestionId,
    /// The text that the models got. Empty if the run does not have it.
    #[serde(default)]
    pub question: String,
    /// The reference answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Labels of the question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// Digest of the question, its template, assertions and traits: questions with the same digest are asked and checked
    /// alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// What a report needs of a benchmark. It is stored with the settings of a run, under the key `benchmark`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BenchmarkText {
    /// What the benchmark measures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The questions, in the order of the benchmark.
    pub questions: Vec<ReportQuestion>,
}

impl From<&Benchmark> for BenchmarkText {
    fn from(benchmark: &Benchmark) -> Self {
        let questions = benchmark.questions.iter().map(|question| ReportQuestion {
            id: question.id.clone(),
            question: question.text().to_owned(),
            answer: question.answer.clone(),
            keywords: question.keywords.clone(),
            digest: Some(digest_of(benchmark, question)),
        });
        Self { description: benchmark.description.clone(), questions: questions.collect() }
    }
}

fn digest_of(benchmark: &Benchmark, question: &Question) -> String {
    let traits: Vec<_> = benchmark.traits_of(question).collect();
    // Nothing else is computed from the reference answer.
    let is_seen =
        traits.iter().any(|(_, of)| of.judge_settings().is_some_and(|settings| settings.include_ground_truth));
    let mut identity = json!({
        "question": question.question,
        "template": question.template,
        "assertions": question.trace,
        "traits": traits,
        "reference": question.answer.as_ref().filter(|_| is_seen),
    });
    if let Some(scenario) = &question.scenario {
        identity["scenario"] = json!(scenario);
    }
    digest(&identity)
}

impl BenchmarkText {
    /// Reads the benchmark in the settings of a run. Older or foreign settings may not have one, and a question that is
    /// not valid does not spoil the others.
    pub(crate) fn of_settings(settings: &Value) -> Self {
        let benchmark = &settings["benchmark"];
        let questions = benchmark["questions"].as_array().into_iter().flatten();
        Self {
            description: benchmark["description"].as_str().map(str::to_owned),
            questions: questions.filter_map(|question| ReportQuestion::deserialize(question).ok()).collect(),
        }
    }
}

impl ReportQuestion {
    /// Creates the question of a result whose benchmark is not known.
    pub(super) fn unknown(unit: &UnitResult) -> Self {
        Self {
            id: unit.question.clone(),
            question: String::new(),
            answer: None,
            keywords: unit.keywords.clone(),
            digest: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn questions_come_from_the_benchmark_in_the_settings() {
        let settings = json!({"benchmark": {"description": "Ports", "questions": [
            {"id": "a", "question": "What?", "answer": "That.", "keywords": ["k"], "template": {"fields": []}},
            {"question": "without an id"},
        ]}});
        let found = BenchmarkText::of_settings(&settings);
        assert_eq!(found.description.as_deref(), Some("Ports"));
        assert_eq!(found.questions.len(), 1);
        assert_eq!((found.questions[0].id.as_str(), found.questions[0].answer.as_deref()), ("a", Some("That.")));
        for without in [json!(null), json!({"benchmark": "name"}), json!({"benchmark": {"questions": 7}})] {
            assert_eq!(BenchmarkText::of_settings(&without), BenchmarkText::default());
        }
    }
}
