//! The units that did not pass, with the reason.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use wharf::verify::report::{NotPassed, not_passed};
use wharf::verify::{RunId, RunStore, StoreError, UnitResult, Verdict};

use crate::globals::Globals;
use crate::term;

/// How many units are shown without `--verbose`.
const SHOWN: usize = 20;
/// How much of a reason is shown without `--verbose`.
pub(crate) const REASON_CHARS: usize = 160;

/// Renders the units that did not pass. `None` if all did.
pub(crate) async fn table(globals: &Globals, store: &dyn RunStore, run: &RunId) -> Result<Option<String>, StoreError> {
    let (limit, reason_chars) = if globals.is_verbose() { (usize::MAX, usize::MAX) } else { (SHOWN, REASON_CHARS) };
    let found = not_passed(store, run, limit).await?;
    if found.first.is_empty() {
        return Ok(None);
    }
    Ok(Some(of(&found, reason_chars)))
}

/// Renders units that did not pass. Judges are named if there are several.
pub(crate) fn of(found: &NotPassed, reason_chars: usize) -> String {
    let judges: BTreeSet<&str> =
        found.first.iter().filter_map(|unit| unit.judge.as_ref()).map(|judge| judge.label.as_str()).collect();
    let columns =
        Columns { replicate: found.first.iter().any(|unit| unit.replicate > 1), judge: judges.len() > 1, reason_chars };
    let rows = found.first.iter().map(|unit| columns.row(unit)).collect();
    let mut head = vec!["question", "model", "verdict", "reason"];
    if columns.judge {
        head.insert(2, "judge");
    }
    let mut text = term::table(&head, rows);
    if found.count > found.first.len() {
        let more = found.count - found.first.len();
        let _ = write!(text, "\n… and {more} more; -v shows all");
    }
    text
}

/// What the rows show.
struct Columns {
    replicate: bool,
    judge: bool,
    reason_chars: usize,
}

impl Columns {
    fn row(&self, unit: &UnitResult) -> Vec<String> {
        let mut question = unit.question.to_string();
        if self.replicate {
            let _ = write!(question, " #{}", unit.replicate);
        }
        let reason = term::brief(&reason(unit), self.reason_chars);
        let mut row = vec![question, unit.model.label.clone(), verdict(unit.verdict).to_owned(), reason];
        if self.judge {
            row.insert(2, unit.judge.as_ref().map(|judge| judge.label.clone()).unwrap_or_default());
        }
        row
    }
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
fn reason(unit: &UnitResult) -> String {
    let failure = unit.failure.as_ref().map(|failure| failure.reason.clone());
    failure.or_else(|| unit.reason.clone()).unwrap_or_default()
}
