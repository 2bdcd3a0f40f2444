//! The units that did not pass, with the reason.

use std::fmt::Write as _;

use wharf::verify::report::{NotPassed, not_passed};
use wharf::verify::{RunId, RunStore, StoreError, UnitResult, Verdict};

use crate::globals::Globals;
use crate::term;

/// How many units are shown without `--verbose`.
const SHOWN: usize = 20;
/// How much of a reason is shown.
const REASON_CHARS: usize = 160;

/// Renders the units that did not pass. `None` if all did.
pub(crate) async fn table(globals: &Globals, store: &dyn RunStore, run: &RunId) -> Result<Option<String>, StoreError> {
    let limit = if globals.verbose { usize::MAX } else { SHOWN };
    let found = not_passed(store, run, limit).await?;
    if found.first.is_empty() {
        return Ok(None);
    }
    Ok(Some(of(&found)))
}

/// Renders units that did not pass.
pub(crate) fn of(found: &NotPassed) -> String {
    let has_replicates = found.first.iter().any(|unit| unit.replicate > 1);
    let rows = found.first.iter().map(|unit| row(unit, has_replicates)).collect();
    let mut text = term::table(&["question", "model", "verdict", "reason"], rows);
    if found.count > found.first.len() {
        let more = found.count - found.first.len();
        let _ = write!(text, "\n… and {more} more; -v shows all");
    }
    text
}

fn row(unit: &UnitResult, has_replicates: bool) -> Vec<String> {
    let question =
        if has_replicates { format!("{} #{}", unit.question, unit.replicate) } else { unit.question.to_string() };
    vec![question, unit.model.label.clone(), verdict(unit.verdict).to_owned(), term::brief(&reason(unit), REASON_CHARS)]
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
