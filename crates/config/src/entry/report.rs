//! Collects what is found while an entry is read.

use crate::cursor::Cursor;
use crate::problem::Problem;

/// The problems of an entry, and whether a variable in it could not be expanded.
#[derive(Default)]
pub(super) struct Report {
    pub(super) problems: Vec<Problem>,
    /// Whether a variable was left as written because it is not set. Such a server must not run.
    pub(super) has_unset_variables: bool,
}

impl Report {
    pub(super) fn push(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    pub(super) fn error(&mut self, at: &Cursor<'_>, message: impl Into<String>, hint: impl Into<String>) {
        self.push(at.error(message).with_hint(hint));
    }

    pub(super) fn warning(&mut self, at: &Cursor<'_>, message: impl Into<String>, hint: impl Into<String>) {
        self.push(at.warning(message).with_hint(hint));
    }
}
