//! Builds the result of a unit, whatever happened before.

use wharf_protocol::BoxFuture;

use super::context::UnitContext;
use super::conversation::Conversation;
use super::stage::{Artifact, Stage, StageError};
use crate::model_under_test::ModelSettings;
use crate::outcome::{Caveat, ModelIdentity, UnitResult, Verdict, classify};
use crate::plan::RESULT_FORMAT;
use crate::rubric::{TraitOutcome, TraitResult};
use crate::scenario::{ScenarioResult, TurnResult};
use crate::stage_name::StageName;

pub(super) struct Finalize;

impl Stage for Finalize {
    fn name(&self) -> StageName {
        StageName::Finalize
    }

    fn makes(&self) -> &'static [Artifact] {
        &[Artifact::Result]
    }

    fn run<'a>(&'a self, unit: &'a mut UnitContext) -> BoxFuture<'a, Result<(), StageError>> {
        unit.result = Some(result(unit));
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Builds the result from what the stages have made and found.
pub(super) fn result(unit: &UnitContext) -> UnitResult {
    let trial = &unit.trial;
    let answer = unit.answer().map(|answer| &**answer);
    let conversation = answer.and_then(|answer| answer.conversation.as_ref());
    let label = unit.judge().map(|judge| judge.judge().label.as_str());
    // What the steering judge did counts once: in the unit of that judge.
    let steering = conversation.and_then(|of| of.steering.as_ref()).filter(|of| Some(of.judge.as_str()) == label);
    let mut judge_totals = unit.judge().map(crate::judge::UnitJudge::totals).unwrap_or_default();
    let mut judge_usage = unit.judge().map(crate::judge::UnitJudge::usage).unwrap_or_default();
    if let Some(steering) = steering {
        judge_totals.merge(steering.totals.clone());
        judge_usage += steering.usage;
    }
    let failure = classify(&unit.findings);
    let (verdict, reason) = match (&unit.indeterminate, &unit.invalid) {
        (Some(reason), _) => (Verdict::Indeterminate, Some(reason.clone())),
        (None, Some(reason)) => (Verdict::Invalid, Some(reason.clone())),
        (None, None) => match (Verdict::of(failure.as_ref()), &failure) {
            (Verdict::Invalid, Some(failure)) => (Verdict::Invalid, Some(failure.reason.clone())),
            (verdict, _) => (verdict, None),
        },
    };
    let mut caveats = unit.caveats.clone();
    let mut retries = answer.map(|answer| answer.totals.retries.clone()).unwrap_or_default();
    for (kind, count) in &judge_totals.retries {
        let total = retries.entry(kind.clone()).or_default();
        *total = total.saturating_add(*count);
    }
    if !retries.is_empty() {
        caveats.insert(Caveat::RetriesUsed);
    }
    if steering.is_some_and(|steering| steering.was_repaired) {
        caveats.insert(Caveat::ParseDecisionMalformed);
    }
    let is_failed = |of: &TraitResult| matches!(of.outcome, TraitOutcome::Failed(_));
    if unit.rubric.as_ref().is_some_and(|rubric| rubric.traits.iter().any(is_failed)) {
        caveats.insert(Caveat::RubricIncomplete);
    }
    UnitResult {
        format: RESULT_FORMAT,
        unit: unit.id.clone(),
        trial: trial.id.clone(),
        question: trial.question.id.clone(),
        keywords: trial.question.keywords.clone(),
        model: identity(&trial.model.label, &trial.model.settings, answer.and_then(|of| of.actual_model.clone())),
        judge: unit.judge().map(|of| {
            let actual_model = of.actual_model().or(steering.and_then(|of| of.actual_model.as_deref()));
            identity(&of.judge().label, &of.judge().settings, actual_model.map(str::to_owned))
        }),
        replicate: trial.replicate,
        verdict,
        failure,
        reason: reason.map(|reason| crate::outcome::shortened(&reason)),
        caveats: caveats.into_iter().collect(),
        template: unit.template_result.clone(),
        assertions: unit.assertions.clone(),
        scenario: conversation.map(|conversation| scenario_result(unit, conversation)),
        rubric: unit.rubric.clone(),
        judge_reasoning: unit.judge_reasoning.clone(),
        excerpts: unit.excerpts.clone(),
        response: answer.and_then(|answer| answer.response.clone()),
        trace: answer.map(|answer| answer.trace.clone()).unwrap_or_default(),
        limit_reached: answer.is_some_and(|answer| answer.limits.is_some()),
        turns: answer.map_or(0, |answer| answer.turns),
        tool_calls: answer.map_or(0, |answer| answer.tool_calls),
        usage: answer.map(|answer| answer.usage).unwrap_or_default(),
        judge_usage,
        retries,
        millis: answer.map_or(0, |answer| answer.totals.millis).saturating_add(judge_totals.millis),
        tool_set: trial.tools.digest.clone(),
    }
}

/// Builds the result of a scenario. The checks of its turns are missing if no stage made them.
fn scenario_result(unit: &UnitContext, conversation: &Conversation) -> ScenarioResult {
    let turns = conversation.turns.iter().enumerate().map(|(index, taken)| {
        let checks = unit.turn_checks.get(index).cloned().unwrap_or_default();
        TurnResult {
            turn: taken.name.clone(),
            prompt: taken.prompt.clone(),
            response: taken.response.clone(),
            messages: taken.messages.len(),
            passed: checks.passed(),
            template: checks.template,
            assertions: checks.assertions,
        }
    });
    ScenarioResult {
        end: conversation.end,
        turns: turns.collect(),
        state: conversation.state.values().clone(),
        outcome: unit.criteria.clone(),
        steering_judge: conversation.steering.as_ref().map(|steering| steering.judge.clone()),
    }
}

fn identity(label: &str, settings: &ModelSettings, actual_model: Option<String>) -> ModelIdentity {
    let ModelSettings { interface, name, .. } = settings;
    ModelIdentity { label: label.to_owned(), interface: interface.clone(), model: name.clone(), actual_model }
}
