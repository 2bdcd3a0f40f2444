//! The tables of a comparison: one row per model, and one per question that changed.

use std::fmt::Write as _;

use wharf::verify::comparison::{Comparison, ComparisonOutcome, ModelComparison, QuestionChange};
use wharf::verify::stats::{Attempts, DifferenceEstimate};

use super::table::{nothing, percent};
use crate::term;

/// How many changed questions are shown without `--verbose`.
const SHOWN: usize = 20;

/// Renders a comparison.
pub(crate) fn of(comparison: &Comparison, is_verbose: bool) -> String {
    let head = ["model", "questions", "A", "B", "difference", "95 % interval", "worse", "better", "p", "result"];
    let mut tables = vec![term::table(&head, comparison.models.iter().map(row).collect())];
    if is_verbose {
        let head = ["model", "cost difference", "95 % interval", "time difference", "95 % interval"];
        tables.push(term::table(&head, comparison.models.iter().map(spending).collect()));
    }
    let changes: Vec<(&ModelComparison, &QuestionChange)> =
        comparison.models.iter().flat_map(|model| model.changes.iter().map(move |change| (model, change))).collect();
    if !changes.is_empty() {
        let shown = if is_verbose { changes.len() } else { SHOWN.min(changes.len()) };
        let rows = changes[..shown].iter().map(|(model, change)| change_row(model, change)).collect();
        let mut text = term::table(&["question", "model", "A", "B", "change"], rows);
        if changes.len() > shown {
            let _ = write!(text, "\n… and {} more; -v shows all", changes.len() - shown);
        }
        tables.push(text);
    }
    tables.join("\n\n")
}

fn label(model: &ModelComparison) -> String {
    if model.model_a == model.model_b {
        model.model_a.clone()
    } else {
        format!("{} → {}", model.model_a, model.model_b)
    }
}

fn row(model: &ModelComparison) -> Vec<String> {
    let questions = match model.unscored.len() {
        0 => model.questions.to_string(),
        unscored => format!("{} ({unscored} not scored)", model.questions),
    };
    let (difference, interval) = estimate(model.difference, |share| format!("{:+.1} %", share * 100.0));
    vec![
        label(model),
        questions,
        model.accuracy_a.map_or_else(nothing, percent),
        model.accuracy_b.map_or_else(nothing, percent),
        difference,
        interval,
        model.regressed.to_string(),
        model.improved.to_string(),
        format!("{:.3}", model.p_adjusted),
        outcome(model.outcome).to_owned(),
    ]
}

fn outcome(outcome: ComparisonOutcome) -> &'static str {
    match outcome {
        ComparisonOutcome::Regression => "worse",
        ComparisonOutcome::Improvement => "better",
        ComparisonOutcome::NotSignificant => "not significant",
        ComparisonOutcome::NothingCompared => "nothing compared",
    }
}

fn spending(model: &ModelComparison) -> Vec<String> {
    let (cost, cost_interval) = estimate(model.cost, |dollars| {
        let sign = if dollars < 0.0 { '-' } else { '+' };
        format!("{sign}${:.4}", dollars.abs())
    });
    let (time, time_interval) = estimate(model.millis, |millis| format!("{millis:+.0} ms"));
    vec![label(model), cost, cost_interval, time, time_interval]
}

/// Returns a difference and its interval.
fn estimate(estimate: Option<DifferenceEstimate>, shown: impl Fn(f64) -> String) -> (String, String) {
    match estimate {
        None => (nothing(), nothing()),
        Some(DifferenceEstimate { value, low, high }) => (shown(value), format!("{} to {}", shown(low), shown(high))),
    }
}

fn change_row(model: &ModelComparison, change: &QuestionChange) -> Vec<String> {
    let passed = |attempts: Attempts| format!("{} of {}", attempts.passed, attempts.scored);
    let direction = if change.is_regression() { "worse" } else { "better" };
    vec![change.question.to_string(), label(model), passed(change.a), passed(change.b), direction.to_owned()]
}
