//! Traits: qualities of an answer that a rubric measures beside its correctness. They are data here; `rubric` evaluates them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::expression::{Expression, InvalidExpression, RegexFlag};

/// A quality of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trait {
    /// What is measured, for the judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A short name of the concept, for the check whether it is present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Whether the trait is evaluated only if its concept is present in the answer.
    #[serde(default)]
    pub if_present: bool,
    /// Whether higher values are better. `None` means that they are, except for metrics and objects, which have no
    /// direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub higher_is_better: Option<bool>,
    /// How it is measured.
    #[serde(flatten)]
    pub kind: TraitKind,
}

/// A trait with its name in the rubric.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTrait {
    /// Name of the trait.
    pub name: String,
    /// What it measures, and how.
    pub definition: Trait,
}

impl Trait {
    /// Returns whether higher values are better. `None` if the values have no direction.
    pub fn direction(&self) -> Option<bool> {
        let has_direction = match &self.kind {
            TraitKind::LlmStructured(_) | TraitKind::Metric(_) => false,
            TraitKind::Agentic(agentic) => agentic.result != AgenticResult::Structured,
            TraitKind::LlmBoolean(_) | TraitKind::LlmScore(_) | TraitKind::LlmLiteral(_) | TraitKind::Regex(_) => true,
        };
        self.higher_is_better.or(has_direction.then_some(true))
    }

    /// Returns whether a judge is needed.
    pub fn needs_judge(&self) -> bool {
        self.if_present || !matches!(self.kind, TraitKind::Regex(_))
    }

    /// Returns the settings of a trait that a judge evaluates with one form. `None` for other kinds.
    pub fn judge_settings(&self) -> Option<&LlmTrait> {
        match &self.kind {
            TraitKind::LlmBoolean(settings) => Some(settings),
            TraitKind::LlmScore(score) => Some(&score.judge),
            TraitKind::LlmLiteral(literal) => Some(&literal.judge),
            TraitKind::LlmStructured(structured) => Some(&structured.judge),
            TraitKind::Regex(_) | TraitKind::Metric(_) | TraitKind::Agentic(_) => None,
        }
    }
}

/// The kinds of traits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TraitKind {
    /// A judge says yes or no.
    LlmBoolean(LlmTrait),
    /// A judge gives a score.
    LlmScore(ScoreTrait),
    /// A judge chooses a class.
    LlmLiteral(LiteralTrait),
    /// A judge fills a JSON Schema.
    LlmStructured(StructuredTrait),
    /// A regular expression matches the answer.
    Regex(RegexTrait),
    /// A judge counts what is present and absent, and metrics are computed from the counts.
    Metric(MetricTrait),
    /// An agent with tools investigates.
    Agentic(AgenticTrait),
}

/// Settings of traits that a judge evaluates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LlmTrait {
    /// Whether the judge sees the reference answer.
    pub include_ground_truth: bool,
    /// Evidence that the judge must give.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deep_judgment: Option<DeepJudgment>,
}

/// Evidence that a judge must give: excerpts of the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeepJudgment {
    /// Whether excerpts are required.
    pub excerpts: bool,
    /// The maximum number of excerpts. `None` uses the run's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_excerpts: Option<u32>,
    /// The minimum similarity of an excerpt to the answer. `None` uses the run's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuzzy_threshold: Option<f64>,
    /// The number of further attempts. `None` uses the run's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Whether excerpts are checked by a search.
    pub search: bool,
}

impl Default for DeepJudgment {
    fn default() -> Self {
        Self { excerpts: true, max_excerpts: None, fuzzy_threshold: None, retries: None, search: false }
    }
}

/// A score of a judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoreTrait {
    /// The worst or lowest score.
    #[serde(default = "default_min")]
    pub min: i64,
    /// The best or highest score.
    #[serde(default = "default_max")]
    pub max: i64,
    /// Settings of the judge.
    #[serde(flatten)]
    pub judge: LlmTrait,
}

fn default_min() -> i64 {
    1
}

fn default_max() -> i64 {
    5
}

/// A class that a judge chooses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiteralTrait {
    /// The classes. The index of the chosen one is the result.
    pub classes: Vec<TraitClass>,
    /// Settings of the judge.
    #[serde(flatten)]
    pub judge: LlmTrait,
}

/// One of several classes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraitClass {
    /// Name of the class.
    pub name: String,
    /// When it applies.
    pub description: String,
}

/// An object that a judge fills.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StructuredTrait {
    /// The JSON Schema of the object.
    pub schema: Value,
    /// Settings of the judge.
    #[serde(flatten)]
    pub judge: LlmTrait,
}

/// A match of a regular expression.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegexTrait {
    /// The expression. It may match anywhere in the answer.
    pub pattern: Expression,
    /// Whether letters must have the same case.
    #[serde(default = "default_true")]
    pub case_sensitive: bool,
    /// Whether the trait holds if the expression does not match.
    #[serde(default)]
    pub invert_result: bool,
}

impl RegexTrait {
    /// Compiles the expression with the setting for the case of letters.
    ///
    /// # Errors
    /// If it is too large without a difference between cases.
    pub fn expression(&self) -> Result<Expression, InvalidExpression> {
        if self.case_sensitive {
            return Ok(self.pattern.clone());
        }
        Expression::with_flags(self.pattern.as_str(), &[RegexFlag::IgnoreCase])
    }
}

fn default_true() -> bool {
    true
}

/// What the counts of a metric are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvaluationMode {
    /// Only what should be present is described.
    #[default]
    TpOnly,
    /// What should be absent is described too.
    FullMatrix,
}

/// A metric over counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Share of the present items that should be present.
    Precision,
    /// Share of the items that should be present and are.
    Recall,
    /// Harmonic mean of precision and recall.
    F1,
    /// Share of the items that should be absent and are. Needs the full matrix.
    Specificity,
    /// Share of the items that are as they should be. Needs the full matrix.
    Accuracy,
}

impl Metric {
    /// Returns whether it needs a description of what should be absent.
    pub fn needs_full_matrix(self) -> bool {
        matches!(self, Self::Specificity | Self::Accuracy)
    }
}

/// Metrics over what an answer contains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricTrait {
    /// What the counts are.
    #[serde(default)]
    pub evaluation_mode: EvaluationMode,
    /// The metrics to compute.
    pub metrics: Vec<Metric>,
    /// What should be present.
    pub tp_instructions: Vec<String>,
    /// What should be absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tn_instructions: Vec<String>,
    /// Whether repeated items count once.
    #[serde(default = "default_true")]
    pub repeated_extraction: bool,
}

/// What an agent decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgenticResult {
    /// Yes or no.
    Boolean,
    /// A score.
    Score,
    /// A class.
    Literal,
    /// An object.
    Structured,
}

/// What an agent sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContextMode {
    /// The workspace.
    WorkspaceOnly,
    /// The trace and the workspace.
    #[default]
    TraceAndWorkspace,
    /// The trace.
    TraceOnly,
}

/// An investigation by an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgenticTrait {
    /// What it decides.
    pub result: AgenticResult,
    /// The lowest score, for scores.
    #[serde(default = "default_min")]
    pub min: i64,
    /// The highest score, for scores.
    #[serde(default = "default_max")]
    pub max: i64,
    /// The classes, for classes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<TraitClass>,
    /// The JSON Schema, for objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// What it sees.
    #[serde(default)]
    pub context_mode: ContextMode,
    /// Whether the trace is a file of the workspace instead of a part of the prompt.
    #[serde(default)]
    pub materialize_trace: bool,
    /// Whether that file remains.
    #[serde(default)]
    pub persist_trace: bool,
    /// The maximum number of turns.
    #[serde(default = "default_turns")]
    pub max_turns: u32,
    /// The maximum time in seconds.
    #[serde(default = "default_seconds")]
    pub timeout_seconds: u32,
}

fn default_turns() -> u32 {
    15
}

fn default_seconds() -> u32 {
    120
}
