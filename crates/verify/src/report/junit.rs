//! JUnit XML: every unit is a test case, for CI systems that show test reports.
//!
//! A unit that failed is a failure. A unit that is invalid or indeterminate is an error: it says nothing about the model,
//! and it must not look like a success.

use std::io::{self, Write};

use super::summary::Summary;
use super::visible::{one_line, visible};
use crate::assertion::AssertionResult;
use crate::outcome::{UnitResult, Verdict};
use crate::store::RunSummary;
use crate::template::TemplateResult;

const MAX_NAME_CHARS: usize = 200;
const MAX_MESSAGE_CHARS: usize = 500;
/// Characters of an answer in a failed test case.
const MAX_ANSWER_CHARS: usize = 4_000;

/// The test cases of a run. The file begins with their numbers, and the run may go on meanwhile, so they are collected.
pub(super) struct JUnitWriter {
    cases: Vec<u8>,
    has_several_judges: bool,
}

impl JUnitWriter {
    pub(super) fn new(has_several_judges: bool) -> Self {
        Self { cases: Vec::new(), has_several_judges }
    }

    /// Writes the file. The summary is that of the units that were added.
    pub(super) fn write(self, mut out: impl Write, run: &RunSummary, summary: &Summary) -> io::Result<()> {
        let sum = |of: fn(&super::ModelSummary) -> u64| summary.models.iter().map(of).sum::<u64>();
        let (tests, failures) = (sum(|model| model.units), sum(|model| model.failed));
        let errors = sum(|model| model.invalid + model.indeterminate);
        let counts = format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"0\"");
        let name = attribute(&run.benchmark, MAX_NAME_CHARS);
        writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
        writeln!(out, "<testsuites name=\"{name}\" {counts}>")?;
        writeln!(out, "<testsuite name=\"{name}\" {counts}>")?;
        writeln!(out, "<properties>")?;
        for (property, value) in
            [("run", attribute(&run.id.0, MAX_NAME_CHARS)), ("planned", summary.planned.to_string())]
        {
            writeln!(out, "<property name=\"{property}\" value=\"{value}\"/>")?;
        }
        writeln!(out, "</properties>")?;
        out.write_all(&self.cases)?;
        writeln!(out, "</testsuite>\n</testsuites>")
    }

    /// Adds a unit.
    #[expect(clippy::cast_precision_loss, reason = "a duration for people")]
    pub(super) fn add(&mut self, unit: &UnitResult) -> io::Result<()> {
        let out = &mut self.cases;
        let mut name = attribute(unit.question.as_str(), MAX_NAME_CHARS);
        if unit.replicate > 1 {
            name = format!("{name} #{}", unit.replicate);
        }
        if let Some(judge) = unit.judge.as_ref().filter(|_| self.has_several_judges) {
            name = format!("{name} [{}]", attribute(&judge.label, MAX_NAME_CHARS));
        }
        let model = attribute(&unit.model.label, MAX_NAME_CHARS);
        let seconds = unit.millis as f64 / 1_000.0;
        write!(out, "<testcase classname=\"{model}\" name=\"{name}\" time=\"{seconds:.3}\"")?;
        let (element, kind) = match unit.verdict {
            Verdict::Passed => return writeln!(out, "/>"),
            Verdict::Failed => ("failure", unit.failure.as_ref().map_or("failed", |failure| failure.category.as_str())),
            Verdict::Invalid => ("error", unit.failure.as_ref().map_or("invalid", |failure| failure.category.as_str())),
            Verdict::Indeterminate => ("error", "indeterminate"),
        };
        let failure = unit.failure.as_ref().map(|failure| failure.reason.as_str());
        let message = attribute(failure.or(unit.reason.as_deref()).unwrap_or_default(), MAX_MESSAGE_CHARS);
        writeln!(out, ">")?;
        writeln!(out, "<{element} type=\"{kind}\" message=\"{message}\">{}</{element}>", text(&details(unit)))?;
        writeln!(out, "</testcase>")
    }
}

/// Returns what was found instead: fields, assertions, turns and criteria that do not hold, and the answer.
fn details(unit: &UnitResult) -> String {
    let mut lines = Vec::new();
    add_failures(&mut lines, "", unit.template.as_ref(), &unit.assertions);
    for turn in unit.scenario.iter().flat_map(|scenario| &scenario.turns) {
        let prefix = format!("turn {}: ", one_line(&turn.turn, MAX_NAME_CHARS));
        add_failures(&mut lines, &prefix, turn.template.as_ref(), &turn.assertions);
    }
    let criteria = unit.scenario.iter().flat_map(|scenario| &scenario.outcome);
    for criterion in criteria.filter(|criterion| criterion.passed != Some(true)) {
        let reason = criterion.reason.as_deref().unwrap_or_default();
        let name = one_line(&criterion.name, MAX_NAME_CHARS);
        lines.push(format!("criterion {name}: {}", one_line(reason, MAX_MESSAGE_CHARS)));
    }
    if let Some(response) = &unit.response {
        let mut answer: String = response.chars().take(MAX_ANSWER_CHARS).collect();
        if answer.len() < response.len() {
            answer.push('…');
        }
        lines.push(format!("answer: {answer}"));
    }
    lines.join("\n")
}

/// Adds the fields and assertions that do not hold.
fn add_failures(
    lines: &mut Vec<String>,
    prefix: &str,
    template: Option<&TemplateResult>,
    assertions: &[AssertionResult],
) {
    for field in template.iter().flat_map(|template| &template.fields).filter(|field| field.passed != Some(true)) {
        let name = one_line(&field.name, MAX_NAME_CHARS);
        let reason = one_line(field.reason.as_deref().unwrap_or_default(), MAX_MESSAGE_CHARS);
        lines.push(format!("{prefix}field {name}: {reason}"));
    }
    for assertion in assertions.iter().filter(|assertion| !assertion.passed) {
        let name = one_line(&assertion.assertion, MAX_MESSAGE_CHARS);
        let reason = one_line(assertion.reason.as_deref().unwrap_or_default(), MAX_MESSAGE_CHARS);
        lines.push(format!("{prefix}assertion {name}: {reason}"));
    }
}

/// Returns a text in one line, escaped for an attribute in double quotes.
fn attribute(value: &str, max: usize) -> String {
    escaped(&one_line(value, max))
}

/// Returns a text escaped for the content of an element.
fn text(value: &str) -> String {
    escaped(&visible(value))
}

/// Escapes markup. The characters that XML 1.0 forbids are hidden ones, so the text must be visible already.
fn escaped(visible: &str) -> String {
    let mut escaped = String::with_capacity(visible.len());
    for character in visible.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            other => escaped.push(other),
        }
    }
    escaped
}
