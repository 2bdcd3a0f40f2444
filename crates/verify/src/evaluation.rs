//! How answers are evaluated: the mode, the optional checks, and what the judge sees.

mod deep;

use serde::{Deserialize, Serialize};

pub use deep::{DeepJudgmentOptions, DeepRubric, DeepTemplate};

/// What is evaluated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Templates and assertions.
    #[default]
    TemplateOnly,
    /// Templates, assertions and traits. Traits do not change the verdict.
    TemplateAndRubric,
    /// Traits only.
    RubricOnly,
}

/// How many requests a judge gets for the traits of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RubricStrategy {
    /// One request for all traits that can share one.
    #[default]
    Batch,
    /// One request for each trait.
    Sequential,
}

/// How answers are evaluated. Every setting is a part of a unit's id.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each switch is independent of the others")]
pub struct EvaluationOptions {
    /// What is evaluated.
    pub mode: Mode,
    /// Whether the judge of a template sees the tool calls and results too, and not only the final response.
    pub use_full_trace_for_template: bool,
    /// Whether the judge of a trait sees the tool calls and results too, and not only the final response.
    pub use_full_trace_for_rubric: bool,
    /// Whether a judge checks first if the model refused to answer.
    pub abstention_check: bool,
    /// Whether a judge checks first if the answer contains enough to fill the template.
    pub sufficiency_check: bool,
    /// How many requests a judge gets for the traits of an answer.
    #[serde(skip_serializing_if = "is_default")]
    pub rubric_strategy: RubricStrategy,
    /// How a judge supports what it says.
    #[serde(skip_serializing_if = "is_default")]
    pub deep_judgment: DeepJudgmentOptions,
}

/// Settings that came later are not written with their default, so that the ids of earlier results stay the same.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Mode {
    /// Returns whether templates and assertions are evaluated.
    pub fn has_template(self) -> bool {
        self != Self::RubricOnly
    }

    /// Returns whether traits are evaluated.
    pub fn has_rubric(self) -> bool {
        self != Self::TemplateOnly
    }

    /// Returns the name of the mode, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TemplateOnly => "template_only",
            Self::TemplateAndRubric => "template_and_rubric",
            Self::RubricOnly => "rubric_only",
        }
    }
}

impl Default for EvaluationOptions {
    fn default() -> Self {
        Self {
            mode: Mode::TemplateOnly,
            use_full_trace_for_template: false,
            use_full_trace_for_rubric: true,
            abstention_check: false,
            sufficiency_check: false,
            rubric_strategy: RubricStrategy::Batch,
            deep_judgment: DeepJudgmentOptions::default(),
        }
    }
}
