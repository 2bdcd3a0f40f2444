//! The table at the end of a run: one row per model.

use wharf::verify::report::{ModelSummary, Summary};

use crate::term;

/// Renders the summary of a run.
pub(crate) fn of_summary(summary: &Summary) -> String {
    let has_indeterminate = summary.models.iter().any(|model| model.indeterminate > 0);
    let mut head = vec!["model", "accuracy", "95 % interval", "passed", "failed", "invalid"];
    if has_indeterminate {
        head.push("indeterminate");
    }
    head.extend(["cost", "p50 time"]);
    let row = |model: &ModelSummary| {
        let mut cells = vec![
            model.model.clone(),
            model.accuracy.map_or_else(nothing, percent),
            model
                .interval
                .map_or_else(nothing, |interval| format!("{} – {}", percent(interval.low), percent(interval.high))),
            model.passed.to_string(),
            model.failed.to_string(),
            model.invalid.to_string(),
        ];
        if has_indeterminate {
            cells.push(model.indeterminate.to_string());
        }
        cells.push(cost(total_cost(model)));
        cells.push(model.p50_millis.map_or_else(nothing, millis));
        cells
    };
    term::table(&head, summary.models.iter().map(row).collect())
}

/// Returns the cost of answers and judges, if any price is known.
fn total_cost(model: &ModelSummary) -> Option<f64> {
    let costs = [model.answers.cost_usd, model.judging.cost_usd];
    costs.into_iter().flatten().reduce(|sum, cost| sum + cost)
}

pub(crate) fn nothing() -> String {
    "–".to_owned()
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

pub(crate) fn cost(dollars: Option<f64>) -> String {
    match dollars {
        None => nothing(),
        Some(dollars) if dollars < 0.01 => format!("${dollars:.4}"),
        Some(dollars) => format!("${dollars:.2}"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a duration for people")]
pub(crate) fn millis(millis: u64) -> String {
    if millis < 1000 { format!("{millis} ms") } else { format!("{:.1} s", millis as f64 / 1000.0) }
}
