//! Scenarios: conversations of several turns whose path depends on the answers.

mod judges;
mod ledger;
mod paths;

use std::sync::Arc;

use serde_json::{Value, json};
use wharf_verify::UnitResult;

use crate::pipeline_kit::*;
pub(crate) use ledger::setup as two_turns;

/// A question with a scenario.
#[expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]
pub(crate) fn question(scenario: Value) -> Value {
    json!({"id": "talk", "scenario": scenario})
}

/// A template without a judge: the answer contains a text.
pub(crate) fn contains(text: &str) -> Value {
    json!({"fields": [{"name": "says", "check": {"trace_contains": {"substring": text}}}]})
}

/// A template whose field a judge reads.
pub(crate) fn city() -> Value {
    json!({"fields": [{"name": "city", "type": "str", "description": "The city that the answer names",
        "truth": format!("Paris {TRUTH}"), "check": "exact_match"}]})
}

/// A model that answers with these texts in order.
pub(crate) fn talking(answers: &[&str]) -> Arc<Fake> {
    Fake::script("fake-1", answers.iter().map(|text| Ok(says(text))).collect())
}

/// The path of a result and its outcome, for example `ask, push: passed`.
pub(crate) fn shown(result: &UnitResult) -> String {
    let path = result.scenario.as_ref().map(|scenario| scenario.path().join(", ")).unwrap_or_default();
    format!("{path}: {}", outcome(result))
}

/// Runs a scenario that needs no judge.
pub(crate) async fn run(scenario: Value, answers: &[&str]) -> UnitResult {
    Setup::new(question(scenario), &talking(answers), &judge_says(json!({}))).run_one().await
}
