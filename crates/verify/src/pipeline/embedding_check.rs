//! Compares the meanings of values and truths: decides `semantic_match`, and may overrule other failed texts.
//!
//! A failed text passes if its meaning is similar to the truth's and the judge confirms that both mean the same. An
//! expression that does not match is never overruled. Without an embedding model the stage does nothing. If a model does
//! not respond, a text that it could have let pass is not wrong: the unit is invalid.

use std::sync::Arc;

use serde_json::Value;
use wharf_protocol::BoxFuture;

use super::context::{TrialContext, UnitContext};
use super::stage::{Artifact, Stage, StageError};
use super::verify_template;
use crate::embedding::EmbeddingModel;
use crate::journaled::{EmbeddingError, TextPair, similarities};
use crate::judge::JudgeError;
use crate::judge_prompt::compare_meanings;
use crate::outcome::{Caveat, Finding};
use crate::stage_name::StageName;
use crate::template::{Check, Field, FieldResult, FieldType, Template};

/// How many characters of a text are compared: embedding models have short contexts.
const MAX_COMPARED_CHARS: usize = 4000;

pub(super) struct EmbeddingCheck;

/// A field whose value is compared with the truth.
struct Candidate {
    /// Position of the field in the template.
    index: usize,
    texts: TextPair,
    /// The minimum similarity of a `semantic_match`. `None` for a failed text, which the judge decides about.
    decides_from: Option<f64>,
}

impl Stage for EmbeddingCheck {
    fn name(&self) -> StageName {
        StageName::EmbeddingCheck
    }

    fn needs(&self) -> &'static [Artifact] {
        &[Artifact::Verification]
    }

    fn run<'a>(&'a self, unit: &'a mut UnitContext) -> BoxFuture<'a, Result<(), StageError>> {
        Box::pin(async move {
            let trial = Arc::clone(&unit.trial);
            match (&trial.embedding, &trial.question.template) {
                (Some(model), Some(template)) => check(unit, &trial, model, template).await,
                _ => Ok(()),
            }
        })
    }
}

async fn check(
    unit: &mut UnitContext,
    trial: &TrialContext,
    model: &EmbeddingModel,
    template: &Template,
) -> Result<(), StageError> {
    let Some(mut fields) = unit.template_result.as_ref().map(|result| result.fields.clone()) else { return Ok(()) };
    let has_passed = unit.template_result.as_ref().is_some_and(|result| result.passed == Some(true));
    let mut candidates = candidates(template, &fields);
    // Nothing is overruled in a template that passed.
    candidates.retain(|of| of.decides_from.is_some() || !has_passed);
    if candidates.is_empty() {
        return Ok(());
    }
    let judge = unit.needed_judge(StageName::EmbeddingCheck)?;
    let pairs: Vec<TextPair> = candidates.iter().map(|of| of.texts.clone()).collect();
    let compared = match similarities(&judge.steps(), model, &pairs, trial.is_replay).await {
        Ok(compared) => compared,
        Err(EmbeddingError::Stopped(cause)) => return unit.judge_stopped(cause),
        Err(EmbeddingError::Model(error)) => {
            tracing::warn!(%error, "the embedding model did not respond");
            let indexes: Vec<usize> = candidates.iter().map(|of| of.index).collect();
            replace_content(unit, template, &indexes, Finding::ModelFailed(StageName::EmbeddingCheck, error));
            return Ok(());
        }
    };
    judge.add_usage(compared.usage);
    let mut suggested = Vec::new();
    for (candidate, cosine) in candidates.into_iter().zip(compared.cosines) {
        let Some(cosine) = cosine else { continue };
        let field = &mut fields[candidate.index];
        field.similarity = Some(cosine);
        match candidate.decides_from {
            Some(threshold) => decide(field, cosine, threshold),
            None if cosine >= model.threshold => suggested.push(candidate),
            None => {}
        }
    }
    let result = template.conclude(fields);
    let has_passed = result.passed == Some(true);
    unit.template_result = Some(result);
    // The texts about which the judge gave no usable answer, and why.
    let mut open = Vec::new();
    let mut failure = None;
    for candidate in suggested.into_iter().filter(|_| !has_passed) {
        // A judge that does not respond is not asked again.
        if matches!(failure, Some(Finding::ModelFailed(..))) {
            open.push(candidate.index);
            continue;
        }
        let confirmed = confirm(unit, trial, template, &candidate).await?;
        if unit.is_decided() {
            return Ok(());
        }
        if let Err(finding) = confirmed {
            open.push(candidate.index);
            failure = Some(finding);
        }
    }
    unit.findings.retain(|finding| !finding.is_of(StageName::VerifyTemplate));
    verify_template::decide(unit);
    if let Some(failure) = failure {
        replace_content(unit, template, &open, failure);
    }
    Ok(())
}

/// Replaces the finding that the template failed by a failure of a model, if the unit could pass with these fields.
fn replace_content(unit: &mut UnitContext, template: &Template, open: &[usize], failure: Finding) {
    let Some(result) = &unit.template_result else { return };
    let mut fields = result.fields.clone();
    for index in open {
        let field = &mut fields[*index];
        (field.passed, field.score) = (Some(true), Some(1.0));
    }
    let could_pass = template.conclude(fields).passed != Some(false);
    let has_passed = result.passed == Some(true);
    if could_pass && !has_passed && unit.assertions.iter().all(|assertion| assertion.passed) {
        unit.findings.retain(|finding| !matches!(finding, Finding::Content(_)));
        unit.findings.push(failure);
    }
}

/// Returns the fields whose meanings are compared.
fn candidates(template: &Template, results: &[FieldResult]) -> Vec<Candidate> {
    let candidate = |(index, (field, result)): (usize, (&Field, &FieldResult))| {
        let (Some(Value::String(value)), Value::String(truth)) = (&result.extracted, &field.truth) else { return None };
        let decides_from = match &field.check {
            Check::SemanticMatch(parameters) => Some(parameters.threshold),
            Check::RegexMatch(_) => return None,
            _ if field.kind == FieldType::Str && result.passed == Some(false) => None,
            _ => return None,
        };
        let cut = |text: &str| text.chars().take(MAX_COMPARED_CHARS).collect::<String>();
        let has_text = !value.trim().is_empty() && !truth.trim().is_empty();
        has_text.then(|| Candidate { index, texts: TextPair { first: cut(value), second: cut(truth) }, decides_from })
    };
    template.fields.iter().zip(results).enumerate().filter_map(candidate).collect()
}

/// Decides a `semantic_match`.
fn decide(field: &mut FieldResult, cosine: f64, threshold: f64) {
    let passed = cosine >= threshold;
    field.passed = Some(passed);
    field.score = Some(cosine.clamp(0.0, 1.0));
    field.reason = (!passed).then(|| format!("the similarity {cosine:.2} is below {threshold:.2}"));
}

/// Asks the judge whether both texts mean the same, and lets the field pass if they do. Returns why there is no answer.
async fn confirm(
    unit: &mut UnitContext,
    trial: &TrialContext,
    template: &Template,
    candidate: &Candidate,
) -> Result<Result<(), Finding>, StageError> {
    let stage = StageName::EmbeddingCheck;
    let TextPair { first, second } = &candidate.texts;
    let prompt = compare_meanings(&trial.question.question, first, second);
    let read = |value: &Value| {
        let equivalent = value.get("equivalent").and_then(Value::as_bool);
        let equivalent = equivalent.ok_or_else(|| "`equivalent`: expected a boolean".to_owned())?;
        let reason = value.get("reason").and_then(Value::as_str).unwrap_or_default();
        Ok((equivalent, reason.to_owned()))
    };
    let (is_equivalent, reason) = match unit.needed_judge(stage)?.ask(prompt, read).await {
        Ok(judged) => {
            if judged.repairs > 0 {
                unit.caveats.insert(Caveat::ParseDecisionMalformed);
            }
            judged.value
        }
        Err(JudgeError::Stopped(cause)) => return unit.judge_stopped(cause).map(Ok),
        Err(JudgeError::Unparseable(reason)) => return Ok(Err(Finding::Unparseable(stage, reason))),
        Err(JudgeError::Model(error)) => return Ok(Err(Finding::ModelFailed(stage, error))),
    };
    let Some(result) = unit.template_result.take() else { return Ok(Ok(())) };
    let mut fields = result.fields;
    if is_equivalent {
        let field = &mut fields[candidate.index];
        (field.passed, field.score, field.reason) = (Some(true), Some(1.0), None);
        field.overruled = Some(reason);
        unit.caveats.insert(Caveat::EmbeddingOverride);
    }
    unit.template_result = Some(template.conclude(fields));
    Ok(Ok(()))
}
