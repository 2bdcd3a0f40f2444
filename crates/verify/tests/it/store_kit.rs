//! Trials, steps and results for tests.

use std::sync::Arc;

use wharf_protocol::Usage;
use wharf_verify::journal::{StepKind, StepOwner, StepRequest, StepResult};
use wharf_verify::outcome::ModelIdentity;
use wharf_verify::store::NewRun;
use wharf_verify::{RunId, RunStore, Trial, TrialId, Unit, UnitId, UnitResult, Verdict, digest};

/// Returns the id of a run.
pub(crate) fn run_id(name: &str) -> RunId {
    RunId(name.into())
}

/// Returns trials with one unit for each judge.
pub(crate) fn trials(count: u32, judges: &[&str]) -> Vec<Trial> {
    let trial = |number: u32| {
        let question = format!("question-{number}");
        let unit = |judge: &&str| Unit {
            id: UnitId(digest(&(&question, judge)).into()),
            judge: (!judge.is_empty()).then(|| (*judge).to_owned()),
        };
        Trial {
            id: TrialId(digest(&question).into()),
            question: question.parse().unwrap(),
            model: "model-a".to_owned(),
            replicate: 1,
            units: judges.iter().map(unit).collect(),
        }
    };
    (1..=count).map(trial).collect()
}

/// Creates a run with a plan.
pub(crate) async fn planned(store: &dyn RunStore, run: &RunId, trials: &[Trial]) {
    planned_with(store, run, trials, serde_json::json!({"models": ["model-a"]})).await;
}

/// Creates a run with a plan and settings.
pub(crate) async fn planned_with(store: &dyn RunStore, run: &RunId, trials: &[Trial], settings: serde_json::Value) {
    let new = NewRun { id: run.clone(), benchmark: "a-benchmark".to_owned(), settings };
    store.create_run(&new).await.unwrap();
    store.set_plan(run, Arc::new(trials.to_vec())).await.unwrap();
}

/// Returns a step of the answer.
pub(crate) fn step(kind: StepKind, request: &str) -> StepRequest {
    StepRequest { owner: StepOwner::Trial, kind, request: request.to_owned(), occurrence: 0 }
}

/// Returns a result that cost 100 tokens and one cent.
pub(crate) fn answer(body: &str) -> StepResult {
    let usage = Usage { input_tokens: 60, output_tokens: 40, cost_usd: Some(0.01), ..Usage::default() };
    StepResult { body: serde_json::json!(body).to_string(), failed: false, usage, millis: 12, clock: Some(34) }
}

/// Returns a failure of the provider, which cost nothing.
pub(crate) fn failure(body: &str) -> StepResult {
    StepResult { failed: true, usage: Usage::default(), ..answer(body) }
}

/// Returns the result of a unit.
pub(crate) fn unit_result(trial: &Trial, unit: &UnitId, verdict: Verdict) -> UnitResult {
    let judge = trial.units.iter().find(|planned| planned.id == *unit).and_then(|planned| planned.judge.clone());
    let identity = |label: &str| ModelIdentity {
        label: label.to_owned(),
        interface: "scripted".to_owned(),
        model: "scripted".to_owned(),
        actual_model: None,
    };
    UnitResult {
        format: wharf_verify::plan::RESULT_FORMAT,
        unit: unit.clone(),
        trial: trial.id.clone(),
        question: trial.question.clone(),
        keywords: vec!["a-keyword".to_owned()],
        model: identity(&trial.model),
        judge: judge.as_deref().map(identity),
        replicate: trial.replicate,
        verdict,
        failure: None,
        reason: None,
        caveats: Vec::new(),
        template: None,
        assertions: Vec::new(),
        scenario: None,
        rubric: None,
        judge_reasoning: None,
        excerpts: Vec::new(),
        response: Some("It is 42.".to_owned()),
        trace: serde_json::from_value(serde_json::json!([
            {"role": "assistant", "content": "It is 42.", "block_index": 0}
        ]))
        .unwrap(),
        limit_reached: false,
        turns: 1,
        tool_calls: 0,
        usage: Usage { input_tokens: 60, output_tokens: 40, cost_usd: Some(0.01), ..Usage::default() },
        judge_usage: Usage::default(),
        retries: std::collections::BTreeMap::new(),
        millis: 12,
        tool_set: "0".repeat(64),
    }
}
