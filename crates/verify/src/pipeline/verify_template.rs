//! Code compares the extracted values with the truth, and checks the assertions on the trace.

use std::sync::Arc;

use wharf_agent::TraceMessage;
use wharf_protocol::BoxFuture;

use super::context::UnitContext;
use super::conversation::{Conversation, TurnChecks};
use super::stage::{Artifact, Stage, StageError};
use crate::assertion::AssertionResult;
use crate::outcome::Finding;
use crate::scenario::{CriterionResult, Evaluation, Facts, Scenario, TurnFacts};
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
            let trial = Arc::clone(&unit.trial);
            let question = &trial.question;
            let facts = trial.trace_facts(&answer.trace);
            unit.assertions = question.trace.iter().map(|assertion| assertion.check(&facts)).collect();
            let extraction = unit.extraction.take().unwrap_or_default();
            let response = answer.response.as_deref().unwrap_or_default();
            unit.template_result = question.template.as_ref().map(|template| template.evaluate(&extraction, response));
            decide(unit);
            if let (Some(scenario), Some(conversation)) = (&question.scenario, &answer.conversation) {
                verify_turns(unit, scenario, conversation, &answer.trace);
            }
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

/// Checks the turns of a scenario and its criteria. The criteria decide; without any, every turn must pass.
fn verify_turns(unit: &mut UnitContext, scenario: &Scenario, conversation: &Conversation, trace: &[TraceMessage]) {
    let trial = Arc::clone(&unit.trial);
    let mut facts = Vec::new();
    for (index, taken) in conversation.turns.iter().enumerate() {
        let trace = trial.trace_facts(&trace[taken.messages.clone()]);
        let response = taken.response.as_deref().unwrap_or_default();
        let values = unit.turn_values.get(index).and_then(Option::as_ref);
        let checks = scenario.turn(&taken.name).map(|turn| TurnChecks::new(turn, response, &trace, values));
        let checks = checks.unwrap_or_default();
        let passed = checks.passed();
        let reason = (passed == Some(false)).then(|| failures(checks.template.as_ref(), &checks.assertions));
        let lacks_values = checks.template.as_ref().is_some_and(lacks_values);
        facts.push(TurnFacts { name: &taken.name, response, trace, values, passed, reason, lacks_values });
        unit.turn_checks.push(checks);
    }
    let facts = Facts { scenario, turns: &facts, state: &conversation.state };
    let evaluations: Vec<Evaluation> =
        scenario.outcome.iter().map(|criterion| criterion.when.evaluate(&facts)).collect();
    let results = scenario.outcome.iter().zip(&evaluations);
    unit.criteria = results.map(|(criterion, evaluation)| criterion.result(evaluation)).collect();
    if scenario.outcome.is_empty() {
        let findings: Vec<Finding> = unit
            .turn_checks
            .iter()
            .zip(&conversation.turns)
            .filter_map(|(checks, taken)| turn_finding(checks, &taken.name))
            .collect();
        unit.findings.extend(findings);
        return;
    }
    unit.findings.extend(criteria_finding(&unit.criteria, &evaluations));
}

/// Returns the finding of criteria that do not hold. As for fields, what lacks a value is wrong, and what cannot be
/// compared is not the model's fault.
fn criteria_finding(criteria: &[CriterionResult], evaluations: &[Evaluation]) -> Option<Finding> {
    let mut failed = Vec::new();
    let mut unknown = Vec::new();
    for (criterion, evaluation) in criteria.iter().zip(evaluations) {
        let text = || format!("criterion `{}`: {}", criterion.name, evaluation.reason.as_deref().unwrap_or("failed"));
        match evaluation.holds {
            Some(true) => {}
            None if !evaluation.lacks_value => unknown.push(text()),
            Some(false) | None => failed.push(text()),
        }
    }
    if !failed.is_empty() {
        return Some(Finding::Content(failed.join("; ")));
    }
    let reason = || format!("the criteria could not be checked: {}", unknown.join("; "));
    (!unknown.is_empty()).then(|| Finding::Unexpected(StageName::VerifyTemplate, reason()))
}

/// Returns the finding of a turn that did not pass.
fn turn_finding(checks: &TurnChecks, name: &str) -> Option<Finding> {
    let template = checks.template.as_ref();
    match (checks.passed(), template) {
        (Some(false), _) => {
            Some(Finding::Content(format!("turn `{name}`: {}", failures(template, &checks.assertions))))
        }
        (None, Some(template)) => Some(match undecided(template) {
            Finding::Content(reason) => Finding::Content(format!("turn `{name}`: {reason}")),
            other => other,
        }),
        (Some(true), _) | (None, None) => None,
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

/// Returns whether every field that could not be checked lacks a value in the answer.
fn lacks_values(template: &TemplateResult) -> bool {
    let mut fields = template.fields.iter().filter(|field| field.passed.is_none());
    fields.all(|field| field.extracted.as_ref().is_some_and(serde_json::Value::is_null))
}

/// Decides about a template whose fields could not all be checked. An answer without the values is a wrong answer; a value
/// that cannot be compared is not the model's fault.
fn undecided(template: &TemplateResult) -> Finding {
    let fields = template.fields.iter().filter(|field| field.passed.is_none());
    let reasons = fields.map(|field| {
        let reason = field.reason.as_deref().unwrap_or("could not be checked");
        format!("field `{}`: {reason}", field.name)
    });
    let reasons = reasons.collect::<Vec<_>>().join("; ");
    if lacks_values(template) {
        Finding::Content(reasons)
    } else {
        Finding::Unexpected(StageName::VerifyTemplate, format!("the template could not be checked: {reasons}"))
    }
}
