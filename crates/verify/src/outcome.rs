//! Results of units: verdicts, failures and caveats.

mod finding;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wharf_agent::{ModelErrorKind, TraceMessage};
use wharf_protocol::Usage;

use crate::assertion::AssertionResult;
use crate::evidence::Excerpt;
use crate::ids::{QuestionId, TrialId, UnitId};
use crate::rubric::RubricResult;
use crate::scenario::ScenarioResult;
use crate::template::TemplateResult;
pub(crate) use finding::{Finding, classify, shortened};

/// The verdict on a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The answer is right, and every assertion holds.
    Passed,
    /// The answer is wrong, missing or incomplete, or an assertion does not hold.
    Failed,
    /// The unit says nothing about the model: a required server was missing, a call was denied, other tools were offered
    /// than planned, or the provider, the judge or the benchmark failed. Never scored.
    Invalid,
    /// A step that may have had an effect was interrupted. Never scored.
    Indeterminate,
}

/// Why a unit did not pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of failure.
    pub category: FailureCategory,
    /// The group of the category.
    pub group: FailureGroup,
    /// Name of the stage that failed.
    pub stage: String,
    /// The reason, at most 500 characters.
    pub reason: String,
}

/// The kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCategory {
    /// The answer is wrong, or an assertion does not hold.
    Content,
    /// A limit of the run was reached.
    RecursionLimit,
    /// The trace does not end with an answer of the model.
    TraceValidation,
    /// An attribute has no supporting excerpt.
    DeepJudgment,
    /// A trait has no supporting excerpt.
    DeepJudgmentRubric,
    /// The provider did not answer in time, after all retries.
    Timeout,
    /// The provider was unreachable, after all retries.
    Connection,
    /// The provider limited the rate of requests, after all retries.
    RateLimit,
    /// The provider failed, after all retries.
    ServerError,
    /// The model or its provider refused to answer.
    Abstention,
    /// The answer does not contain enough to fill the template.
    Sufficiency,
    /// The template is invalid.
    TemplateValidation,
    /// The judge's output does not match the template.
    Parsing,
    /// Anything else.
    UnexpectedError,
}

/// The groups of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureGroup {
    /// The answer is wrong.
    Content,
    /// The run failed a check before its answer was judged.
    Autofail,
    /// The provider failed after all retries. Not scored; a resumed run tries again.
    Retry,
    /// The model did not answer the question.
    Abstained,
    /// The benchmark, the judge or Wharf failed.
    System,
}

/// A remark on a result that does not change the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Caveat {
    /// The answer is incomplete.
    PartialContent,
    /// The embedding check overruled failed fields.
    EmbeddingOverride,
    /// The judge's output was repaired before it could be parsed.
    ParseDecisionMalformed,
    /// Requests were retried.
    RetriesUsed,
    /// A trait could not be evaluated.
    RubricIncomplete,
}

/// A model in a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelIdentity {
    /// The label of the model in the run.
    pub label: String,
    /// Name of the interface.
    pub interface: String,
    /// The model's name at its provider.
    pub model: String,
    /// The model that responded, according to its provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual_model: Option<String>,
}

/// The complete result of a unit. It contains no clock times, so a replay gives the same bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitResult {
    /// Version of this format.
    pub format: u32,
    /// Id of the unit.
    pub unit: UnitId,
    /// Id of the trial.
    pub trial: TrialId,
    /// Id of the question.
    pub question: QuestionId,
    /// Keywords of the question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// The answering model.
    pub model: ModelIdentity,
    /// The judge. `None` if no judge was needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<ModelIdentity>,
    /// Number of the replicate, from 1.
    pub replicate: u32,
    /// The verdict.
    pub verdict: Verdict,
    /// Why the unit did not pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Why the unit is invalid or indeterminate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Remarks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<Caveat>,
    /// The template's result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<TemplateResult>,
    /// The results of the assertions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assertions: Vec<AssertionResult>,
    /// The turns and criteria of a scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<ScenarioResult>,
    /// The results of the traits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rubric: Option<RubricResult>,
    /// The judge's reasoning about the fields of the template, with deep judgment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_reasoning: Option<String>,
    /// The excerpts of the answer that support fields and traits, with deep judgment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excerpts: Vec<Excerpt>,
    /// The model's final answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// The messages of the model and the tools.
    pub trace: Vec<TraceMessage>,
    /// Whether a limit of the run was reached.
    pub limit_reached: bool,
    /// Number of model responses.
    pub turns: u32,
    /// Number of tool calls that were made.
    pub tool_calls: usize,
    /// Tokens and cost of the answer.
    pub usage: Usage,
    /// Tokens and cost of the judge.
    pub judge_usage: Usage,
    /// Retries of model requests, by kind of error.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub retries: BTreeMap<String, u32>,
    /// Time spent in model requests and tool calls, in milliseconds, as recorded by the journal.
    pub millis: u64,
    /// Digest of the tools that the model was offered.
    pub tool_set: String,
}

impl Verdict {
    /// Returns the verdict on a unit that is neither invalid nor indeterminate for another reason.
    ///
    /// A failure of the provider (group `retry`) or of the benchmark, the judge or Wharf (group `system`) says nothing
    /// about the model, so it is not scored as a wrong answer.
    pub(crate) fn of(failure: Option<&Failure>) -> Self {
        match failure.map(|failure| failure.group) {
            None => Self::Passed,
            Some(FailureGroup::Content | FailureGroup::Autofail | FailureGroup::Abstained) => Self::Failed,
            Some(FailureGroup::Retry | FailureGroup::System) => Self::Invalid,
        }
    }

    /// Returns whether the verdict counts in the accuracy.
    pub fn is_scored(self) -> bool {
        matches!(self, Self::Passed | Self::Failed)
    }
}

impl FailureGroup {
    /// Returns the name of the group, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Autofail => "autofail",
            Self::Retry => "retry",
            Self::Abstained => "abstained",
            Self::System => "system",
        }
    }
}

impl FailureCategory {
    /// Returns the name of the category, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::RecursionLimit => "recursion_limit",
            Self::TraceValidation => "trace_validation",
            Self::DeepJudgment => "deep_judgment",
            Self::DeepJudgmentRubric => "deep_judgment_rubric",
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::RateLimit => "rate_limit",
            Self::ServerError => "server_error",
            Self::Abstention => "abstention",
            Self::Sufficiency => "sufficiency",
            Self::TemplateValidation => "template_validation",
            Self::Parsing => "parsing",
            Self::UnexpectedError => "unexpected_error",
        }
    }

    /// Returns the category of a model error that a retry may fix; `None` for other errors.
    pub fn of_retry(kind: ModelErrorKind) -> Option<Self> {
        Some(match kind {
            ModelErrorKind::Timeout => Self::Timeout,
            ModelErrorKind::Network => Self::Connection,
            ModelErrorKind::RateLimit | ModelErrorKind::Overloaded => Self::RateLimit,
            ModelErrorKind::Server | ModelErrorKind::Malformed => Self::ServerError,
            ModelErrorKind::Auth
            | ModelErrorKind::Quota
            | ModelErrorKind::ContextTooLong
            | ModelErrorKind::Refused
            | ModelErrorKind::Invalid
            | ModelErrorKind::WrongUrl
            | ModelErrorKind::Exhausted => return None,
        })
    }

    /// Returns the group of the category.
    pub fn group(self) -> FailureGroup {
        match self {
            Self::Content => FailureGroup::Content,
            Self::RecursionLimit | Self::TraceValidation | Self::DeepJudgment | Self::DeepJudgmentRubric => {
                FailureGroup::Autofail
            }
            Self::Timeout | Self::Connection | Self::RateLimit | Self::ServerError => FailureGroup::Retry,
            Self::Abstention | Self::Sufficiency => FailureGroup::Abstained,
            Self::TemplateValidation | Self::Parsing | Self::UnexpectedError => FailureGroup::System,
        }
    }
}
