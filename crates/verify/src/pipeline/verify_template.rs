//! Code compares the extracted values with the truth, and checks the assertions on the trace.

use wharf_protocol::BoxFuture;

use super::context::UnitContext;
use super::stage::{Artifact, Stage, StageError};
use crate::assertion::{AssertionResult, TraceFacts};
use crate::outcome::Finding;
use crate::stage_name::StageName;
use crate::template::TemplateResult;

pub(super) struct VerifyTemplate;

impl Stage for VerifyTemplate {
    fn name(&self) -> StageName {
        StageName::VerifyTemplate
    }

    fn needs(&self) -> &'static [Artifact] {
        &[Artifact::Template, Artifact::Answer, Artifact::Extraction]
    }

    fn makes(&self) -> &'static [Artifact] {
        &[Artifact::Verification]
    }

    fn run<'a>(&'a self, unit: &'a mut UnitContext) -> BoxFuture<'a, Result<(), StageError>> {
        Box::pin(async move {
            let answer = unit.needed_answer(self.name())?;
            let question = &unit.trial.question;
            // What a prepared trace could have called is not on record.
            let tools = (!unit.trial.model.settings.is_manual()).then_some(&unit.trial.tools.tools);
            let facts = TraceFacts { messages: &answer.trace, tools };
            unit.assertions = question.trace.iter().map(|assertion| assertion.check(&facts)).collect();
            let extraction = unit.extraction.take().unwrap_or_default();
            let response = answer.response.as_deref().unwrap_or_default();
            unit.template_result = question.template.as_ref().map(|template| template.evaluate(&extraction, response));
            decide(unit);
            Ok(())
        })
    }
}

/// Adds the finding of what failed or could not be checked.
pub(super) fn decide(unit: &mut UnitContext) {
    let template_passed = unit.template_result.as_ref().map_or(Some(true), |result| result.passed);
    let assertions_passed = unit.assertions.iter().all(|result| result.passed);
    if template_passed == Some(false) || !assertions_passed {
        let reason = failures(unit.template_result.as_ref(), &unit.assertions);
        unit.findings.push(Finding::Content(reason));
    } else if let (None, Some(result)) = (template_passed, &unit.template_result) {
        unit.findings.push(undecided(result));
    }
}

/// Lists the fields and assertions that failed.
fn failures(template: Option<&TemplateResult>, assertions: &[AssertionResult]) -> String {
    let mut failures = Vec::new();
    for field in template.iter().flat_map(|template| &template.fields) {
        if field.passed == Some(false) {
            let reason = field.reason.as_deref().unwrap_or("failed");
            failures.push(format!("field `{}`: {reason}", field.name));
        }
    }
    for result in assertions.iter().filter(|result| !result.passed) {
        let reason = result.reason.as_deref().unwrap_or("failed");
        failures.push(format!("assertion `{}`: {reason}", result.assertion));
    }
    if failures.is_empty() { "the template failed".to_owned() } else { failures.join("; ") }
}

/// Decides about a template whose fields could not all be checked. An answer without the values is a wrong answer; a value
/// that cannot be compared is not the model's fault.
fn undecided(template: &TemplateResult) -> Finding {
    let fields = || template.fields.iter().filter(|field| field.passed.is_none());
    let reasons = fields().map(|field| {
        let reason = field.reason.as_deref().unwrap_or("could not be checked");
        format!("field `{}`: {reason}", field.name)
    });
    let reasons = reasons.collect::<Vec<_>>().join("; ");
    if fields().all(|field| field.extracted.as_ref().is_some_and(serde_json::Value::is_null)) {
        Finding::Content(reasons)
    } else {
        Finding::Unexpected(StageName::VerifyTemplate, format!("the template could not be checked: {reasons}"))
    }
}
