//! Deep judgment: a judge supports what it says with excerpts of the answer.

use serde::{Deserialize, Serialize};

/// How a judge supports the values of a template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeepTemplate {
    /// It fills the template directly.
    #[default]
    Disabled,
    /// It writes down its reasoning first.
    ReasoningOnly,
    /// It gives excerpts, then its reasoning. A value without an excerpt fails the unit.
    Full,
}

/// Which traits a judge supports with excerpts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeepRubric {
    /// Those that the benchmark says.
    #[default]
    UseBenchmark,
    /// All traits that a judge evaluates with one form.
    EnableAll,
    /// None.
    Disabled,
}

/// How a judge supports what it says. Traits may have their own numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeepJudgmentOptions {
    /// Of templates.
    pub template: DeepTemplate,
    /// Of traits.
    pub rubric: DeepRubric,
    /// The maximum number of excerpts for each field.
    pub max_excerpts: u32,
    /// The maximum number of excerpts for each trait.
    pub rubric_max_excerpts: u32,
    /// The minimum similarity of an excerpt to the answer, from 0 to 1.
    pub fuzzy_threshold: f64,
    /// How often the judge may replace excerpts that are not found.
    pub retries: u32,
}

impl Default for DeepJudgmentOptions {
    fn default() -> Self {
        Self {
            template: DeepTemplate::Disabled,
            rubric: DeepRubric::UseBenchmark,
            max_excerpts: 3,
            rubric_max_excerpts: 7,
            fuzzy_threshold: 0.8,
            retries: 2,
        }
    }
}
