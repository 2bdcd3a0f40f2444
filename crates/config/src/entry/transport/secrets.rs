//! Finds secrets that are written in a file instead of a variable.

use crate::cursor::Cursor;
use crate::danger;
use crate::entry::report::Report;
use crate::problem::Severity;
use crate::server::Scope;

/// Reports a value that looks like a secret. In a project, everyone with access to the repository can read it.
pub(super) fn check(at: &Cursor<'_>, scope: Scope, name: &str, report: &mut Report) {
    let text = at.text().unwrap_or_default();
    if !danger::looks_secret(name, text) {
        return;
    }
    let severity = if scope == Scope::Project { Severity::Warning } else { Severity::Note };
    let scheme = ["Bearer ", "Basic "].into_iter().find(|scheme| text.starts_with(scheme)).unwrap_or_default();
    let name = if scheme.is_empty() { name } else { "TOKEN" };
    let variable: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    let problem = at.problem(severity, "looks like a plaintext secret");
    report.push(problem.with_hint(format!("use a variable: `{scheme}${{{variable}}}`")));
}
