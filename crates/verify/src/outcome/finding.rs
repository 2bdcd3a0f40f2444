//! The failure taxonomy: what stages find, and which finding decides about the unit.

use wharf_agent::{ModelError, ModelErrorKind};

use super::{Failure, FailureCategory};
use crate::stage_name::StageName;

/// The maximum length of a reason, in characters.
const MAX_REASON_CHARS: usize = 500;

/// A reason why a unit does not pass.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Finding {
    /// A limit of the run was reached.
    LimitReached(String),
    /// The trace does not end with an answer.
    TraceInvalid(String),
    /// Fields or assertions failed.
    Content(String),
    /// Fields have a value that no excerpt of the answer supports.
    UnsupportedFields(String),
    /// Traits have no supporting excerpt.
    UnsupportedTraits(String),
    /// A model request failed.
    ModelFailed(StageName, ModelError),
    /// The model refused to answer.
    Abstained(StageName, String),
    /// The answer does not contain enough to fill the template.
    Insufficient(String),
    /// The template is invalid.
    TemplateInvalid(String),
    /// The judge's output does not match the template.
    Unparseable(String),
    /// Anything else.
    Unexpected(StageName, String),
}

impl Finding {
    fn category(&self) -> FailureCategory {
        match self {
            Self::LimitReached(_) => FailureCategory::RecursionLimit,
            Self::TraceInvalid(_) => FailureCategory::TraceValidation,
            Self::Content(_) => FailureCategory::Content,
            Self::UnsupportedFields(_) => FailureCategory::DeepJudgment,
            Self::UnsupportedTraits(_) => FailureCategory::DeepJudgmentRubric,
            Self::ModelFailed(stage, error) => match FailureCategory::of_retry(error.kind) {
                Some(category) => category,
                // A judge that refuses says nothing about the answer.
                None if error.kind == ModelErrorKind::Refused && *stage == StageName::GenerateAnswer => {
                    FailureCategory::Abstention
                }
                None => FailureCategory::UnexpectedError,
            },
            Self::Abstained(..) => FailureCategory::Abstention,
            Self::Insufficient(_) => FailureCategory::Sufficiency,
            Self::TemplateInvalid(_) => FailureCategory::TemplateValidation,
            Self::Unparseable(_) => FailureCategory::Parsing,
            Self::Unexpected(..) => FailureCategory::UnexpectedError,
        }
    }

    fn stage(&self) -> StageName {
        match self {
            Self::LimitReached(_) => StageName::LimitAutofail,
            Self::TraceInvalid(_) => StageName::TraceValidationAutofail,
            Self::Content(_) => StageName::VerifyTemplate,
            Self::UnsupportedFields(_) => StageName::DeepJudgmentAutofail,
            Self::UnsupportedTraits(_) => StageName::DeepJudgmentRubricAutofail,
            Self::ModelFailed(stage, _) | Self::Abstained(stage, _) | Self::Unexpected(stage, _) => *stage,
            Self::Insufficient(_) => StageName::SufficiencyCheck,
            Self::TemplateInvalid(_) => StageName::ValidateTemplate,
            Self::Unparseable(_) => StageName::ParseTemplate,
        }
    }

    /// Returns whether a stage made the finding.
    pub(crate) fn is_of(&self, stage: StageName) -> bool {
        self.stage() == stage
    }

    fn reason(&self) -> String {
        match self {
            Self::ModelFailed(_, error) => error.to_string(),
            Self::LimitReached(reason)
            | Self::TraceInvalid(reason)
            | Self::Content(reason)
            | Self::UnsupportedFields(reason)
            | Self::UnsupportedTraits(reason)
            | Self::Abstained(_, reason)
            | Self::Insufficient(reason)
            | Self::TemplateInvalid(reason)
            | Self::Unparseable(reason)
            | Self::Unexpected(_, reason) => reason.clone(),
        }
    }
}

/// The rule that applies to a category, from 0. The first rule that applies decides.
fn precedence(category: FailureCategory) -> u8 {
    match category {
        FailureCategory::RecursionLimit
        | FailureCategory::TraceValidation
        | FailureCategory::DeepJudgment
        | FailureCategory::DeepJudgmentRubric => 0,
        FailureCategory::Content => 1,
        FailureCategory::Timeout
        | FailureCategory::Connection
        | FailureCategory::RateLimit
        | FailureCategory::ServerError => 2,
        FailureCategory::Abstention | FailureCategory::Sufficiency => 3,
        FailureCategory::TemplateValidation => 4,
        FailureCategory::Parsing => 5,
        FailureCategory::UnexpectedError => 6,
    }
}

/// Returns the failure of a unit. Of several findings, the first one of the first rule that applies decides.
pub(crate) fn classify(findings: &[Finding]) -> Option<Failure> {
    let finding = findings.iter().min_by_key(|finding| precedence(finding.category()))?;
    let category = finding.category();
    Some(Failure {
        category,
        group: category.group(),
        stage: finding.stage().as_str().to_owned(),
        reason: shortened(&finding.reason()),
    })
}

/// Cuts a reason to its maximum length and marks the cut.
pub(crate) fn shortened(reason: &str) -> String {
    if reason.chars().count() <= MAX_REASON_CHARS {
        return reason.to_owned();
    }
    reason.chars().take(MAX_REASON_CHARS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{FailureGroup, Verdict};

    fn model_failed(kind: ModelErrorKind) -> Finding {
        Finding::ModelFailed(StageName::GenerateAnswer, ModelError::new(kind, "no"))
    }

    /// One finding of every rule, in the order of the rules.
    fn by_rule() -> Vec<Finding> {
        let text = || "why".to_owned();
        vec![
            Finding::LimitReached(text()),
            Finding::Content(text()),
            model_failed(ModelErrorKind::Network),
            Finding::Abstained(StageName::AbstentionCheck, text()),
            Finding::TemplateInvalid(text()),
            Finding::Unparseable(text()),
            Finding::Unexpected(StageName::GenerateAnswer, text()),
        ]
    }

    #[test]
    fn the_first_rule_that_applies_decides_in_whatever_order_findings_were_made() {
        let rules = by_rule();
        for first in 0..rules.len() {
            let mut findings = rules[first..].to_vec();
            let expected = classify(&rules[first..=first]);
            assert!(expected.is_some());
            assert_eq!(classify(&findings), expected);
            findings.reverse();
            assert_eq!(classify(&findings), expected);
        }
        assert_eq!(classify(&[]), None);
    }

    #[test]
    fn every_finding_has_its_category_group_stage_and_verdict() {
        let text = || "why".to_owned();
        let mut findings = by_rule();
        findings.push(Finding::TraceInvalid(text()));
        findings.push(Finding::Insufficient(text()));
        findings.push(Finding::UnsupportedFields(text()));
        findings.push(Finding::UnsupportedTraits(text()));
        findings.extend(
            [
                ModelErrorKind::Timeout,
                ModelErrorKind::RateLimit,
                ModelErrorKind::Overloaded,
                ModelErrorKind::Server,
                ModelErrorKind::Malformed,
                ModelErrorKind::Refused,
                ModelErrorKind::Auth,
                ModelErrorKind::Quota,
                ModelErrorKind::ContextTooLong,
                ModelErrorKind::Invalid,
                ModelErrorKind::WrongUrl,
                ModelErrorKind::Exhausted,
            ]
            .map(model_failed),
        );
        let row = |finding: Finding| {
            let failure = classify(&[finding]).unwrap();
            let group = serde_json::to_string(&failure.group).unwrap();
            let verdict = serde_json::to_string(&Verdict::of(Some(&failure))).unwrap();
            format!("{} {group} {} {verdict}", failure.category.as_str(), failure.stage).replace('"', "")
        };
        insta::assert_snapshot!(findings.into_iter().map(row).collect::<Vec<_>>().join("\n"), @"
        recursion_limit autofail limit_autofail failed
        content content verify_template failed
        connection retry generate_answer invalid
        abstention abstained abstention_check failed
        template_validation system validate_template invalid
        parsing system parse_template invalid
        unexpected_error system generate_answer invalid
        trace_validation autofail trace_validation_autofail failed
        sufficiency abstained sufficiency_check failed
        deep_judgment autofail deep_judgment_autofail failed
        deep_judgment_rubric autofail deep_judgment_rubric_autofail failed
        timeout retry generate_answer invalid
        rate_limit retry generate_answer invalid
        rate_limit retry generate_answer invalid
        server_error retry generate_answer invalid
        server_error retry generate_answer invalid
        abstention abstained generate_answer failed
        unexpected_error system generate_answer invalid
        unexpected_error system generate_answer invalid
        unexpected_error system generate_answer invalid
        unexpected_error system generate_answer invalid
        unexpected_error system generate_answer invalid
        unexpected_error system generate_answer invalid
        ");
        assert_eq!(Verdict::of(None), Verdict::Passed);
        assert_eq!(FailureCategory::DeepJudgment.group(), FailureGroup::Autofail);
        assert_eq!(precedence(FailureCategory::DeepJudgmentRubric), 0);
        let scored = [Verdict::Passed, Verdict::Failed, Verdict::Invalid, Verdict::Indeterminate];
        assert_eq!(scored.map(Verdict::is_scored), [true, true, false, false]);
    }

    #[test]
    fn a_reason_has_at_most_500_characters() {
        let long = classify(&[Finding::Content("é".repeat(600))]).unwrap().reason;
        assert_eq!(long.chars().count(), 500);
        assert!(long.ends_with("é…"));
        let exact = classify(&[Finding::Content("é".repeat(500))]).unwrap().reason;
        assert_eq!((exact.chars().count(), exact.ends_with('é')), (500, true));
    }
}
