//! Benchmarks: questions with reference answers, templates, assertions and the servers they need.

mod notation;
mod read;
mod traits;
mod validate;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wharf_protocol::ServerName;

use crate::assertion::Assertion;
use crate::ids::QuestionId;
use crate::problem::Problem;
use crate::scenario::Scenario;
use crate::template::Template;

pub use notation::{json_schema, reference_tables};
pub use traits::{
    AgenticResult, AgenticTrait, ContextMode, DeepJudgment, EvaluationMode, LiteralTrait, LlmTrait, Metric,
    MetricTrait, NamedTrait, RegexTrait, ScoreTrait, StructuredTrait, Trait, TraitClass, TraitKind,
};

/// A benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Benchmark {
    /// Name of the benchmark.
    pub name: String,
    /// What it measures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The servers of all questions: a URL, a command line or a complete entry for each name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub servers: Map<String, Value>,
    /// Settings of all questions.
    #[serde(default)]
    pub defaults: Defaults,
    /// The questions, in the order of the file.
    pub questions: Vec<Question>,
    /// The traits that questions refer to, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rubric: BTreeMap<String, Trait>,
    /// Further data for readers and other tools.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// Settings of all questions of a benchmark.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Defaults {
    /// How often each question is asked. The command line takes precedence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicates: Option<u32>,
    /// The servers without which a trial is invalid.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_servers: Vec<ServerName>,
    /// Whether trials share the connections to servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// Names of the traits that apply to every question.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rubric: Vec<String>,
}

impl Benchmark {
    /// Returns the traits of a question: those of all questions, then its own. Each one applies once.
    pub fn traits_of<'a>(&'a self, question: &'a Question) -> impl Iterator<Item = (&'a str, &'a Trait)> {
        let shared = &self.defaults.rubric;
        let own = question.rubric.iter().enumerate().filter(|(index, name)| {
            let is_repeated = shared.contains(name) || question.rubric[..*index].contains(name);
            !is_repeated
        });
        let names = shared.iter().chain(own.map(|(_, name)| name));
        names.filter_map(|name| self.rubric.get(name).map(|of| (name.as_str(), of)))
    }
}

/// Whether trials share the connections to servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Every trial starts its own servers.
    Fresh,
    /// Trials of the same model share their servers.
    Shared,
}

/// One question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Id of the question, unique in its benchmark.
    pub id: QuestionId,
    /// The text that the model gets. Empty for a scenario; see [`Question::text`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub question: String,
    /// The reference answer. A judge sees it only for traits that include the ground truth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Labels for selecting and grouping questions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// The fields that the judge extracts, and their checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<Template>,
    /// A conversation of several turns, in place of a text and a template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<Scenario>,
    /// Assertions on the trace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<Assertion>,
    /// Names of the traits that apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rubric: Vec<String>,
    /// Servers of this question only, beside those of the benchmark.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub servers: Map<String, Value>,
    /// Servers without which a trial is invalid, beside those of the benchmark.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_servers: Vec<ServerName>,
    /// Further data for readers and other tools. No model and no judge sees it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl Question {
    /// Returns the text that the model gets first. The placeholders of a scenario are as written.
    pub fn text(&self) -> &str {
        match self.scenario.as_ref().and_then(Scenario::first_turn) {
            Some(turn) => turn.prompt.as_str(),
            None => &self.question,
        }
    }

    /// Returns whether the answer can be right or wrong, without regard to traits.
    pub(crate) fn has_checks(&self) -> bool {
        let has_scenario_checks = self.scenario.as_ref().is_some_and(Scenario::has_checks);
        self.template.is_some() || !self.trace.is_empty() || has_scenario_checks
    }
}

/// All problems of a benchmark file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct InvalidBenchmark {
    /// The problems, in the order of their lines.
    pub problems: Vec<Problem>,
}

impl fmt::Display for InvalidBenchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<String> = self.problems.iter().map(ToString::to_string).collect();
        write!(f, "invalid benchmark: {}", shown.join("; "))
    }
}
