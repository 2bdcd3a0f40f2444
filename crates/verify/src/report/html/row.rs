//! What lists, filters and the matrix show of a unit. A row is a JSON list, because a run has many of them.

use serde::Serialize;

use super::overview::Place;
use crate::outcome::{FailureCategory, UnitResult, Verdict};
use crate::report::statistics::ToolResults;

/// A unit: its id, the numbers of its question, model and judge, replicate, verdict, category of the failure, cost in
/// dollars, time in milliseconds, score, tool results, failed tool results, input tokens and output tokens.
#[derive(Serialize)]
pub(super) struct Row(
    String,
    usize,
    usize,
    Option<usize>,
    u32,
    Verdict,
    Option<FailureCategory>,
    Option<f64>,
    u64,
    Option<f64>,
    u64,
    u64,
    u64,
    u64,
);

impl Row {
    pub(super) fn new(unit: &UnitResult, place: Place) -> Self {
        let (answer, judge) = (&unit.usage, &unit.judge_usage);
        let cost = match (answer.cost_usd, judge.cost_usd) {
            (None, None) => None,
            (answer, judge) => Some(answer.unwrap_or_default() + judge.unwrap_or_default()),
        };
        let tools = ToolResults::of(unit);
        Self(
            unit.unit.to_string(),
            place.question,
            place.model,
            place.judge,
            unit.replicate,
            unit.verdict,
            unit.failure.as_ref().map(|failure| failure.category),
            cost,
            unit.millis,
            unit.template.as_ref().and_then(|template| template.score),
            tools.all,
            tools.failed,
            answer.input_tokens.saturating_add(judge.input_tokens),
            answer.output_tokens.saturating_add(judge.output_tokens),
        )
    }
}
