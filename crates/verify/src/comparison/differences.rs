//! What makes two runs incomparable: other questions, checks, judges or tools.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::ids::{QuestionId, RunId};
use crate::paired::ModelTally;
use crate::report::BenchmarkText;
use crate::store::RunSummary;

/// How many questions a message names.
const NAMED_QUESTIONS: usize = 3;

/// A difference between two runs that changes what their numbers mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Difference {
    /// The benchmarks have other names.
    Benchmark {
        /// The benchmark of the first run.
        a: String,
        /// The benchmark of the second run.
        b: String,
    },
    /// Only one of the runs has results for these questions.
    Questions {
        /// Questions of the first run only.
        only_a: Vec<QuestionId>,
        /// Questions of the second run only.
        only_b: Vec<QuestionId>,
    },
    /// The text, the template, the assertions or the traits of these questions differ.
    Checks {
        /// The questions.
        questions: Vec<QuestionId>,
    },
    /// The judges or their settings differ.
    Judges {
        /// Labels of the judges of the first run.
        a: Vec<String>,
        /// Labels of the judges of the second run.
        b: Vec<String>,
    },
    /// Answers were evaluated with other settings, or the prompts of the judges differ.
    Evaluation,
    /// The models were offered other tools for these questions.
    ToolSets {
        /// The questions.
        questions: Vec<QuestionId>,
    },
    /// A run has units without a result.
    Unfinished {
        /// The run.
        run: RunId,
        /// The number of these units.
        units: u64,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Benchmark { a, b } => write!(f, "the benchmarks are `{a}` and `{b}`"),
            Self::Questions { only_a, only_b } => {
                f.write_str("the runs have other questions:")?;
                for (side, questions) in [("first", only_a), ("second", only_b)] {
                    if !questions.is_empty() {
                        write!(f, " only the {side} has {}", named(questions))?;
                    }
                }
                Ok(())
            }
            Self::Checks { questions } => {
                write!(f, "the text, the template, the assertions or the traits of {} differ", named(questions))
            }
            Self::Judges { a, b } if a == b => write!(f, "the settings of the judges differ"),
            Self::Judges { a, b } => write!(f, "the judges are {} and {}", labels(a), labels(b)),
            Self::Evaluation => f.write_str("the settings of the evaluation or the prompts of the judges differ"),
            Self::ToolSets { questions } => write!(f, "the models were offered other tools for {}", named(questions)),
            Self::Unfinished { run, units } => write!(f, "run `{run}` is unfinished: {units} units have no result"),
        }
    }
}

fn named(questions: &[QuestionId]) -> String {
    let names: Vec<String> = questions.iter().take(NAMED_QUESTIONS).map(|id| format!("`{id}`")).collect();
    match questions.len().saturating_sub(NAMED_QUESTIONS) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

fn labels(labels: &[String]) -> String {
    match labels {
        [] => "none".to_owned(),
        labels => labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", "),
    }
}

/// A run with its settings.
pub(super) struct RunSettings<'a> {
    pub(super) summary: &'a RunSummary,
    pub(super) settings: &'a Value,
}

/// Returns the differences between the settings of two runs.
pub(super) fn of_settings(a: &RunSettings<'_>, b: &RunSettings<'_>) -> Vec<Difference> {
    let mut found = Vec::new();
    if a.summary.benchmark != b.summary.benchmark {
        found.push(Difference::Benchmark { a: a.summary.benchmark.clone(), b: b.summary.benchmark.clone() });
    }
    let second = digests(b.settings);
    let checks: Vec<QuestionId> = digests(a.settings)
        .into_iter()
        .filter(|(id, digest)| second.get(id).is_some_and(|other| other != digest))
        .map(|(id, _)| id)
        .collect();
    if !checks.is_empty() {
        found.push(Difference::Checks { questions: checks });
    }
    if a.settings["judges"] != b.settings["judges"] {
        found.push(Difference::Judges { a: judge_labels(a.settings), b: judge_labels(b.settings) });
    }
    let is_other = |key: &str| a.settings[key] != b.settings[key];
    if ["evaluation", "embedding", "judge_prompt_version"].into_iter().any(is_other) {
        found.push(Difference::Evaluation);
    }
    for run in [a, b] {
        let progress = &run.summary.progress;
        let units = progress.units.saturating_sub(progress.done);
        if units > 0 {
            found.push(Difference::Unfinished { run: run.summary.id.clone(), units });
        }
    }
    found
}

/// Returns the digests of the questions. Questions of older runs have none.
fn digests(settings: &Value) -> BTreeMap<QuestionId, Option<String>> {
    let questions = BenchmarkText::of_settings(settings).questions;
    questions.into_iter().map(|question| (question.id, question.digest)).collect()
}

fn judge_labels(settings: &Value) -> Vec<String> {
    let judges = settings["judges"].as_array().into_iter().flatten();
    judges.filter_map(|judge| judge["label"].as_str().map(str::to_owned)).collect()
}

/// Returns the questions that only one of the runs has results for.
pub(super) fn of_questions(models: &[(&ModelTally, &ModelTally)]) -> Option<Difference> {
    let missing = |of: &ModelTally, other: &ModelTally| -> Vec<QuestionId> {
        of.order.iter().filter(|id| !other.questions.contains_key(*id)).cloned().collect()
    };
    let only_a = distinct(models.iter().flat_map(|(a, b)| missing(a, b)));
    let only_b = distinct(models.iter().flat_map(|(a, b)| missing(b, a)));
    (!only_a.is_empty() || !only_b.is_empty()).then_some(Difference::Questions { only_a, only_b })
}

/// Returns the questions for which the models were offered other tools. Units that are not scored do not count: a unit
/// with other tools than planned is invalid.
pub(super) fn of_tools(models: &[(&ModelTally, &ModelTally)]) -> Option<Difference> {
    let has_other_tools = |a: &ModelTally, b: &ModelTally, id: &QuestionId| {
        let (Some(first), Some(second)) = (a.questions.get(id), b.questions.get(id)) else { return false };
        let is_scored = first.attempts.scored > 0 && second.attempts.scored > 0;
        is_scored && first.tool_sets != second.tool_sets
    };
    let questions = models.iter().flat_map(|(a, b)| a.order.iter().filter(|id| has_other_tools(a, b, id)).cloned());
    let questions = distinct(questions);
    (!questions.is_empty()).then_some(Difference::ToolSets { questions })
}

/// Returns each question once, in the order of first occurrence.
fn distinct(ids: impl Iterator<Item = QuestionId>) -> Vec<QuestionId> {
    let mut seen = BTreeSet::new();
    ids.filter(|id| seen.insert(id.clone())).collect()
}
