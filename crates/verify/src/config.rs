//! The settings of a run, from a file, a preset, the environment or the command line.
//!
//! Every setting is optional, so that sources can be merged: the first one that has a setting decides
//! ([`VerificationConfig::or`]). MCP settings do not belong here: a model has its own servers, and so has a benchmark.

mod preset;
mod read;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::evaluation::{DeepRubric, DeepTemplate, Mode, RubricStrategy};
use crate::panel::PanelRule;
use crate::rate_limit::RateLimit;
use crate::step::Recovery;

pub use preset::{InvalidPreset, Preset};

/// The settings of a verification run. `None` means that another source decides, or the default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VerificationConfig {
    /// The answering models: `INTERFACE:NAME`, or labels of a model file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
    /// The model file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub models_file: Option<String>,
    /// The judges: `INTERFACE:NAME`, or labels of the model file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judges: Option<Vec<String>>,
    /// When several judges together pass an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub panel: Option<PanelRule>,
    /// Whether a model may judge its own answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_self_judging: Option<bool>,
    /// How often each model answers each question. Default: that of the benchmark, or 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicates: Option<u32>,
    /// What is evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluation_mode: Option<Mode>,
    /// Whether the judge sees the whole trace when it fills the template, instead of the final answer only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_full_trace_for_template: Option<bool>,
    /// Whether the judge sees the whole trace when it evaluates the rubric, instead of the final answer only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_full_trace_for_rubric: Option<bool>,
    /// Whether the judge first checks if the model refused to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abstention_enabled: Option<bool>,
    /// Whether the judge first checks if the answer is sufficient to fill the template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sufficiency_enabled: Option<bool>,
    /// How many requests a judge gets for the traits of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rubric_evaluation_strategy: Option<RubricStrategy>,
    /// How a judge supports the values of a template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deep_judgment_mode: Option<DeepTemplate>,
    /// Which traits a judge supports with excerpts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deep_judgment_rubric_mode: Option<DeepRubric>,
    /// The maximum number of excerpts for each field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deep_judgment_max_excerpts_per_attribute: Option<u32>,
    /// The maximum number of excerpts for each trait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deep_judgment_rubric_max_excerpts_default: Option<u32>,
    /// The minimum similarity of an excerpt to the answer, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deep_judgment_fuzzy_match_threshold: Option<f64>,
    /// How often a judge may replace excerpts that are not found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deep_judgment_excerpt_retry_attempts: Option<u32>,
    /// The embedding model: `INTERFACE:NAME`, or a label of the model file. Without one, meanings are not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_check_model: Option<String>,
    /// The minimum cosine similarity of a value to the truth, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_check_threshold: Option<f64>,
    /// How many trials run at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// The maximum number of concurrent requests to each provider, by the name of the interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_limits: Option<BTreeMap<String, u32>>,
    /// The limits per minute of each provider, by the name of the interface, for all workers together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limits: Option<BTreeMap<String, RateLimit>>,
    /// What happens to steps that a crash interrupted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// Budget in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// Budget in tokens, input and output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Budget in seconds of wall time, for each start of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_time: Option<f64>,
    /// The accuracy that every model must reach, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_under: Option<f64>,
}

impl VerificationConfig {
    /// The default number of trials that run at the same time.
    pub const DEFAULT_CONCURRENCY: u32 = 4;

    /// Returns these settings, and those of `other` where these have none.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            models: self.models.or(other.models),
            models_file: self.models_file.or(other.models_file),
            judges: self.judges.or(other.judges),
            panel: self.panel.or(other.panel),
            allow_self_judging: self.allow_self_judging.or(other.allow_self_judging),
            replicates: self.replicates.or(other.replicates),
            evaluation_mode: self.evaluation_mode.or(other.evaluation_mode),
            use_full_trace_for_template: self.use_full_trace_for_template.or(other.use_full_trace_for_template),
            use_full_trace_for_rubric: self.use_full_trace_for_rubric.or(other.use_full_trace_for_rubric),
            abstention_enabled: self.abstention_enabled.or(other.abstention_enabled),
            sufficiency_enabled: self.sufficiency_enabled.or(other.sufficiency_enabled),
            rubric_evaluation_strategy: self.rubric_evaluation_strategy.or(other.rubric_evaluation_strategy),
            deep_judgment_mode: self.deep_judgment_mode.or(other.deep_judgment_mode),
            deep_judgment_rubric_mode: self.deep_judgment_rubric_mode.or(other.deep_judgment_rubric_mode),
            deep_judgment_max_excerpts_per_attribute: self
                .deep_judgment_max_excerpts_per_attribute
                .or(other.deep_judgment_max_excerpts_per_attribute),
            deep_judgment_rubric_max_excerpts_default: self
                .deep_judgment_rubric_max_excerpts_default
                .or(other.deep_judgment_rubric_max_excerpts_default),
            deep_judgment_fuzzy_match_threshold: self
                .deep_judgment_fuzzy_match_threshold
                .or(other.deep_judgment_fuzzy_match_threshold),
            deep_judgment_excerpt_retry_attempts: self
                .deep_judgment_excerpt_retry_attempts
                .or(other.deep_judgment_excerpt_retry_attempts),
            embedding_check_model: self.embedding_check_model.or(other.embedding_check_model),
            embedding_check_threshold: self.embedding_check_threshold.or(other.embedding_check_threshold),
            concurrency: self.concurrency.or(other.concurrency),
            provider_limits: self.provider_limits.or(other.provider_limits),
            rate_limits: self.rate_limits.or(other.rate_limits),
            recovery: self.recovery.or(other.recovery),
            max_cost_usd: self.max_cost_usd.or(other.max_cost_usd),
            max_tokens: self.max_tokens.or(other.max_tokens),
            max_time: self.max_time.or(other.max_time),
            fail_under: self.fail_under.or(other.fail_under),
        }
    }
}
