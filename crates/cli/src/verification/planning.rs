//! From settings to a plan: what is asked, how often, and how it is evaluated.

use wharf::verify::{Benchmark, DeepJudgmentOptions, EvaluationOptions, Pipeline, PlanError, VerificationConfig};

use crate::error::{UsageError, usage_error};

/// Returns how answers are evaluated.
pub(crate) fn evaluation(config: &VerificationConfig) -> EvaluationOptions {
    let default = EvaluationOptions::default();
    EvaluationOptions {
        mode: config.evaluation_mode.unwrap_or(default.mode),
        use_full_trace_for_template: config.use_full_trace_for_template.unwrap_or(default.use_full_trace_for_template),
        use_full_trace_for_rubric: config.use_full_trace_for_rubric.unwrap_or(default.use_full_trace_for_rubric),
        abstention_check: config.abstention_enabled.unwrap_or(default.abstention_check),
        sufficiency_check: config.sufficiency_enabled.unwrap_or(default.sufficiency_check),
        rubric_strategy: config.rubric_evaluation_strategy.unwrap_or(default.rubric_strategy),
        deep_judgment: deep_judgment(config),
    }
}

fn deep_judgment(config: &VerificationConfig) -> DeepJudgmentOptions {
    let default = DeepJudgmentOptions::default();
    DeepJudgmentOptions {
        template: config.deep_judgment_mode.unwrap_or(default.template),
        rubric: config.deep_judgment_rubric_mode.unwrap_or(default.rubric),
        max_excerpts: config.deep_judgment_max_excerpts_per_attribute.unwrap_or(default.max_excerpts),
        rubric_max_excerpts: config.deep_judgment_rubric_max_excerpts_default.unwrap_or(default.rubric_max_excerpts),
        fuzzy_threshold: config.deep_judgment_fuzzy_match_threshold.unwrap_or(default.fuzzy_threshold),
        retries: config.deep_judgment_excerpt_retry_attempts.unwrap_or(default.retries),
    }
}

/// Returns how often each question is asked. The benchmark has the last word but one.
pub(crate) fn replicates(config: &VerificationConfig, benchmark: &Benchmark) -> u32 {
    config.replicates.or(benchmark.defaults.replicates).unwrap_or(1)
}

/// Returns the names of the stages, in order.
pub(crate) fn stages(evaluation: EvaluationOptions) -> Result<Vec<&'static str>, UsageError> {
    let pipeline = Pipeline::new(&evaluation).map_err(|error| usage_error(error.to_string(), None))?;
    Ok(pipeline.stages().map(|stage| stage.name.as_str()).collect())
}

/// Returns the error for parts that do not fit together.
pub(crate) fn invalid(error: &PlanError) -> UsageError {
    let hint = match error {
        PlanError::NoModel => Some("choose one with -m MODEL".to_owned()),
        PlanError::JudgeRequired(_) => Some("choose one with --judge MODEL".to_owned()),
        PlanError::EmbeddingRequired(_) => {
            Some("set `embedding_check_model`, for example to `ollama:nomic-embed-text`".to_owned())
        }
        PlanError::UnknownQuestion { nearest: Some(near), .. } => Some(format!("did you mean `{near}`?")),
        PlanError::UnknownKeyword { nearest: Some(near), .. } | PlanError::UnknownTool { nearest: Some(near), .. } => {
            Some(format!("did you mean `{near}`?"))
        }
        PlanError::UnknownTool { nearest: None, .. } => Some("list the tools with `wharf tools SERVER`".to_owned()),
        PlanError::NoQuestion => Some("check --only, --keyword and --limit".to_owned()),
        PlanError::DuplicateLabel(_) => Some("give each model of the --models file its own `id`".to_owned()),
        PlanError::NothingToCheck { .. } => Some("choose another --mode, or add what the mode evaluates".to_owned()),
        PlanError::SelfJudging { .. } => Some("choose another --judge, or pass --allow-self-judging".to_owned()),
        PlanError::UnavailableTrait { .. }
        | PlanError::ManualWithServers(_)
        | PlanError::ScenarioOfPrepared { .. }
        | PlanError::UnknownQuestion { nearest: None, .. }
        | PlanError::UnknownKeyword { nearest: None, .. }
        | PlanError::UnknownTools { .. } => None,
    };
    usage_error(error.to_string(), hint.as_deref())
}
