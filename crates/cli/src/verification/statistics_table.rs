//! The second table of a run: repeated attempts, tools, percentiles and failures by group. Columns without values are left
//! out.

use wharf::verify::FailureGroup;
use wharf::verify::report::{ModelStatistics, ModelSummary, Summary};

use super::table::{cost, millis, nothing, percent};
use crate::term;

/// A column: its title, and its cell if the model has one.
type StatisticsColumn = (&'static str, fn(&ModelStatistics) -> Option<String>);

const COLUMNS: [StatisticsColumn; 9] = [
    ("k", |found| Some(found.repeated?.k.to_string())),
    ("pass@k", |found| found.repeated?.pass_at_k.map(percent)),
    ("pass^k", |found| found.repeated?.pass_all_k.map(percent)),
    ("stable", |found| found.repeated?.agreement.map(percent)),
    ("tools", |found| found.tool_success.map(percent)),
    ("path", |found| found.path_efficiency.map(percent)),
    ("answer cost p50 / p95", |found| {
        found.answer_cost.map(|answer| format!("{} / {}", cost(Some(answer.p50)), cost(Some(answer.p95))))
    }),
    ("p95 time", |found| found.p95_millis.map(|p95| millis(whole(p95)))),
    ("failures", |found| Some(failures(found)).filter(|text| !text.is_empty())),
];

/// Returns whether the run asked questions more than once, so that the table says something the first one does not.
pub(crate) fn is_repeated(summary: &Summary) -> bool {
    summary.models.iter().any(|model| model.statistics.repeated.is_some())
}

/// Renders the statistics of a run.
pub(crate) fn of(summary: &Summary) -> String {
    let has_value =
        |column: &&StatisticsColumn| summary.models.iter().any(|model| column.1(&model.statistics).is_some());
    let columns: Vec<&StatisticsColumn> = COLUMNS.iter().filter(has_value).collect();
    let mut head = vec!["model"];
    head.extend(columns.iter().map(|(title, _)| *title));
    let row = |model: &ModelSummary| {
        let cells = columns.iter().map(|(_, cell)| cell(&model.statistics).unwrap_or_else(nothing));
        std::iter::once(model.model.clone()).chain(cells).collect()
    };
    term::table(&head, summary.models.iter().map(row).collect())
}

/// Returns the number of units that did not pass, by group.
fn failures(found: &ModelStatistics) -> String {
    let counts = found.failures_by_group().into_iter();
    let counts = counts.map(|count| format!("{} {}", count.group.map_or("other", FailureGroup::as_str), count.units));
    counts.collect::<Vec<_>>().join(", ")
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a duration for people, never negative")]
fn whole(millis: f64) -> u64 {
    millis.round() as u64
}
