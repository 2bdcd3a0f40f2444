//! The names of the stages, in the order in which they run.

use serde::{Deserialize, Serialize};

/// A stage of the pipeline. The order of the variants is the order of the stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageName {
    /// Checks the template before anything is paid for.
    ValidateTemplate,
    /// The model answers, with its tools.
    GenerateAnswer,
    /// Fails a run that reached a limit.
    LimitAutofail,
    /// Fails a run that does not end with an answer.
    TraceValidationAutofail,
    /// Ends a unit whose provider failed after all retries.
    RetriesExhaustedAutofail,
    /// A judge decides whether the model refused to answer.
    AbstentionCheck,
    /// A judge decides whether the answer contains enough to fill the template.
    SufficiencyCheck,
    /// The judge fills the template.
    ParseTemplate,
    /// Code compares the values with the truth, and checks the assertions.
    VerifyTemplate,
    /// Meanings are compared, and similar ones overrule failed texts.
    EmbeddingCheck,
    /// Fails values without a supporting excerpt.
    DeepJudgmentAutofail,
    /// A judge and expressions evaluate the traits.
    RubricEvaluation,
    /// Fails traits without a supporting excerpt.
    DeepJudgmentRubricAutofail,
    /// Builds the result. Always runs, and runs last.
    Finalize,
}

impl StageName {
    /// Returns the name, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ValidateTemplate => "validate_template",
            Self::GenerateAnswer => "generate_answer",
            Self::LimitAutofail => "limit_autofail",
            Self::TraceValidationAutofail => "trace_validation_autofail",
            Self::RetriesExhaustedAutofail => "retries_exhausted_autofail",
            Self::AbstentionCheck => "abstention_check",
            Self::SufficiencyCheck => "sufficiency_check",
            Self::ParseTemplate => "parse_template",
            Self::VerifyTemplate => "verify_template",
            Self::EmbeddingCheck => "embedding_check",
            Self::DeepJudgmentAutofail => "deep_judgment_autofail",
            Self::RubricEvaluation => "rubric_evaluation",
            Self::DeepJudgmentRubricAutofail => "deep_judgment_rubric_autofail",
            Self::Finalize => "finalize",
        }
    }
}
