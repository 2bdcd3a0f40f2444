//! The table at the end of a run: one row per model.

use wharf::verify::panel::{Agreement, JudgeVotes, PanelRule};
use wharf::verify::report::{Interval, ModelSummary, Summary};

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
            interval(model.interval),
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
    let table = term::table(&head, summary.models.iter().map(row).collect());
    match &summary.agreement {
        Some(agreement) => [table, of_panel(summary), of_judges(agreement), of_agreement(agreement)].join("\n\n"),
        None => table,
    }
}

/// Renders the verdicts of all judges together.
fn of_panel(summary: &Summary) -> String {
    let row = |model: &ModelSummary| {
        let panel = model.panel.as_ref()?;
        let rule = match panel.rule {
            PanelRule::Majority => "majority",
            PanelRule::Unanimity => "unanimity",
        };
        Some(vec![
            model.model.clone(),
            rule.to_owned(),
            panel.accuracy.map_or_else(nothing, percent),
            interval(panel.interval),
            panel.passed.to_string(),
            panel.failed.to_string(),
            panel.unscored.to_string(),
        ])
    };
    let head = ["model", "panel", "accuracy", "95 % interval", "passed", "failed", "unscored"];
    term::table(&head, summary.models.iter().filter_map(row).collect())
}

/// Renders how strict each judge is.
fn of_judges(agreement: &Agreement) -> String {
    let row = |votes: &JudgeVotes| vec![votes.judge.clone(), votes.passed.to_string(), votes.failed.to_string()];
    term::table(&["judge", "passed", "failed"], agreement.judges.iter().map(row).collect())
}

/// Renders how far the judges agree.
fn of_agreement(agreement: &Agreement) -> String {
    let kappa = |kappa: Option<f64>| kappa.map_or_else(nothing, |kappa| format!("{kappa:.2}"));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for pair in &agreement.pairs {
        let cells = [pair.trials.to_string(), pair.agreed.map_or_else(nothing, percent), kappa(pair.cohen_kappa)];
        rows.push([pair.judges.join(", ")].into_iter().chain(cells).collect());
    }
    if agreement.pairs.len() > 1 {
        let unanimous = agreement.unanimous.map_or_else(nothing, percent);
        let cells = [agreement.trials.to_string(), unanimous, kappa(agreement.fleiss_kappa)];
        rows.push(["all".to_owned()].into_iter().chain(cells).collect());
    }
    term::table(&["judges", "answers", "agree", "kappa"], rows)
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

fn interval(interval: Option<Interval>) -> String {
    interval.map_or_else(nothing, |Interval { low, high }| format!("{} – {}", percent(low), percent(high)))
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
