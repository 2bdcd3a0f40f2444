//! Markdown: the summary of a run, short enough for a comment on a pull request.
//!
//! Every text of a run is a code span, so that it is neither a link, a mention nor markup.

use std::io::{self, Write};

use super::export::NotPassed;
use super::summary::{ModelSummary, Summary};
use super::visible::one_line;
use crate::outcome::{FailureGroup, UnitResult, Verdict};
use crate::store::RunSummary;

/// How many units that did not pass are listed. GitHub accepts comments of 65,536 characters.
pub(super) const MAX_UNITS: usize = 50;
/// How many models and flaky questions are listed.
const MAX_ROWS: usize = 50;
const MAX_NAME_CHARS: usize = 80;
const MAX_REASON_CHARS: usize = 240;
/// Below this number of scored units an interval is wide, and the summary says so.
const SMALL_SAMPLE: u64 = 30;

/// Writes the summary of a run.
pub(super) fn write(
    out: &mut impl Write,
    run: &RunSummary,
    summary: &Summary,
    not_passed: &NotPassed,
) -> io::Result<()> {
    writeln!(out, "## Verification: {}\n", code(&run.benchmark, MAX_NAME_CHARS))?;
    let done: u64 = summary.models.iter().map(|model| model.units).sum();
    writeln!(out, "Run {}, {done} of {} units.", code(&run.id.0, MAX_NAME_CHARS), summary.planned)?;
    if done < summary.planned {
        writeln!(out, "**The run is not complete.**")?;
    }
    let is_small = |model: &&ModelSummary| model.passed + model.failed < SMALL_SAMPLE;
    if summary.models.iter().any(|model| is_small(&model)) {
        writeln!(out, "Fewer than {SMALL_SAMPLE} scored units: read the interval, not the percentage.")?;
    }
    writeln!(out)?;
    write_models(out, summary)?;
    write_flaky(out, summary)?;
    write_not_passed(out, not_passed)
}

fn write_models(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    let is_repeated = summary.models.iter().any(|model| model.statistics.repeated.is_some());
    let mut head = vec!["model", "accuracy", "95 % interval", "passed", "failed", "not scored"];
    if is_repeated {
        head.extend(["pass@k", "pass^k", "k"]);
    }
    head.extend(["tools", "cost", "p50", "p95", "failures"]);
    writeln!(out, "| {} |", head.join(" | "))?;
    writeln!(out, "|---|{}---|", "--:|".repeat(head.len() - 2))?;
    for model in summary.models.iter().take(MAX_ROWS) {
        let statistics = &model.statistics;
        let interval = model.interval.map(|interval| format!("{} – {}", percent(interval.low), percent(interval.high)));
        let mut cells = vec![
            code(&model.model, MAX_NAME_CHARS),
            model.accuracy.map_or_else(nothing, percent),
            interval.unwrap_or_else(nothing),
            model.passed.to_string(),
            model.failed.to_string(),
            (model.invalid + model.indeterminate).to_string(),
        ];
        if is_repeated {
            let repeated = statistics.repeated;
            cells.extend([
                repeated.and_then(|found| found.pass_at_k).map_or_else(nothing, percent),
                repeated.and_then(|found| found.pass_all_k).map_or_else(nothing, percent),
                repeated.map_or_else(nothing, |found| found.k.to_string()),
            ]);
        }
        let costs = [model.answers.cost_usd, model.judging.cost_usd];
        cells.extend([
            statistics.tool_success.map_or_else(nothing, percent),
            costs
                .into_iter()
                .flatten()
                .reduce(|sum, cost| sum + cost)
                .map_or_else(nothing, |cost| format!("${cost:.4}")),
            model.p50_millis.map_or_else(nothing, |millis| format!("{millis} ms")),
            statistics.p95_millis.map_or_else(nothing, |millis| format!("{millis:.0} ms")),
            failures(model),
        ]);
        writeln!(out, "| {} |", cells.join(" | "))?;
    }
    let more = summary.models.len().saturating_sub(MAX_ROWS);
    if more > 0 {
        writeln!(out, "\n… and {more} more models")?;
    }
    Ok(())
}

/// Returns the number of units that did not pass, by group.
fn failures(model: &ModelSummary) -> String {
    let counts = model.statistics.failures_by_group().into_iter();
    let counts = counts.map(|count| format!("{} {}", count.group.map_or("other", FailureGroup::as_str), count.units));
    let counts: Vec<String> = counts.collect();
    if counts.is_empty() { nothing() } else { counts.join(", ") }
}

fn write_flaky(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    let flaky = &summary.statistics.flaky;
    if flaky.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n<details><summary>Flaky questions: {}</summary>\n", flaky.len())?;
    writeln!(out, "| question | model | passed |\n|---|---|--:|")?;
    for entry in flaky.iter().take(MAX_ROWS) {
        let (question, model) = (code(entry.question.as_str(), MAX_NAME_CHARS), code(&entry.model, MAX_NAME_CHARS));
        writeln!(out, "| {question} | {model} | {} of {} |", entry.passed, entry.scored)?;
    }
    writeln!(out, "\n</details>")
}

fn write_not_passed(out: &mut impl Write, not_passed: &NotPassed) -> io::Result<()> {
    if not_passed.first.is_empty() {
        return writeln!(out, "\nEvery unit passed.");
    }
    writeln!(out, "\n<details><summary>Units that did not pass: {}</summary>\n", not_passed.count)?;
    writeln!(out, "| question | model | verdict | reason |\n|---|---|---|---|")?;
    for unit in &not_passed.first {
        let question = code(unit.question.as_str(), MAX_NAME_CHARS);
        let question = if unit.replicate > 1 { format!("{question} #{}", unit.replicate) } else { question };
        let model = code(&unit.model.label, MAX_NAME_CHARS);
        writeln!(
            out,
            "| {question} | {model} | {} | {} |",
            verdict(unit.verdict),
            code(reason(unit), MAX_REASON_CHARS)
        )?;
    }
    let more = not_passed.count - not_passed.first.len();
    if more > 0 {
        writeln!(out, "\n… and {more} more")?;
    }
    writeln!(out, "\n</details>")
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "passed",
        Verdict::Failed => "failed",
        Verdict::Invalid => "invalid",
        Verdict::Indeterminate => "indeterminate",
    }
}

/// Returns why a unit did not pass.
fn reason(unit: &UnitResult) -> &str {
    let failure = unit.failure.as_ref().map(|failure| failure.reason.as_str());
    failure.or(unit.reason.as_deref()).unwrap_or_default()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn nothing() -> String {
    "–".to_owned()
}

/// Returns a text as a code span in one line, for a table or a line of text.
fn code(text: &str, max: usize) -> String {
    let line = one_line(text, max);
    if line.is_empty() {
        return nothing();
    }
    // The delimiter is longer than any run of backticks in the text.
    let mut longest = 0;
    let mut run = 0;
    for character in line.chars() {
        run = if character == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let delimiter = "`".repeat(longest + 1);
    // A table is split into cells before code spans are recognized. A space beside a backtick is not part of the text.
    let line = line.replace('|', "\\|");
    let space = if longest > 0 { " " } else { "" };
    format!("{delimiter}{space}{line}{space}{delimiter}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_code_spans_that_they_cannot_end() {
        assert_eq!(code("plain", 80), "`plain`");
        assert_eq!(code("a`b``c", 80), "``` a`b``c ```");
        assert_eq!(code("`", 80), "`` ` ``");
        assert_eq!(code("a | b\\|c", 80), "`a \\| b\\\\|c`");
        assert_eq!(code("two\nlines <b>", 80), "`two lines <b>`");
        assert_eq!(code(" \n ", 80), "–");
    }
}
