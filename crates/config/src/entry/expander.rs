//! Expands variables in strings, and rejects characters that a reader cannot see.

use super::report::Report;
use crate::cursor::Cursor;
use crate::expand::{ExpandError, Variables};
use crate::hidden_chars::{self, is_hidden};

/// What an entry is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadPurpose {
    /// The server is run: an unset variable is an error.
    Run,
    /// The entry is only stored: an unset variable is a warning, because it may be set when the server starts.
    Store,
}

/// Which hidden characters a string may contain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HiddenCharPolicy {
    /// None: URLs, commands, headers.
    Reject,
    /// Line breaks, as in keys and documents.
    AllowLineBreaks,
    /// All that a program accepts. Only NUL is rejected, which no process can receive.
    Allow,
}

/// Expands the strings of one entry.
#[derive(Clone, Copy)]
pub(super) struct Expander<'a> {
    pub(super) variables: &'a Variables,
    pub(super) purpose: ReadPurpose,
    /// Whether the entry is disabled. Then an unset variable is harmless.
    pub(super) is_disabled: bool,
}

/// A string after expansion.
pub(super) struct Expanded {
    pub(super) text: String,
    /// Whether all variables were set. If not, the text is as written.
    pub(super) is_complete: bool,
}

impl Expander<'_> {
    /// Expands a string; reports what is wrong with it and returns `None` if it cannot be used.
    pub(super) fn expand(
        &self,
        at: &Cursor<'_>,
        text: &str,
        policy: HiddenCharPolicy,
        report: &mut Report,
    ) -> Option<String> {
        self.expand_or_keep(at, text, policy, report).map(|expanded| expanded.text)
    }

    /// Like [`expand`](Self::expand), and says whether all variables were set.
    pub(super) fn expand_or_keep(
        &self,
        at: &Cursor<'_>,
        text: &str,
        policy: HiddenCharPolicy,
        report: &mut Report,
    ) -> Option<Expanded> {
        if !check_hidden(at, &Checked { text, prefix: "" }, policy, report) {
            return None;
        }
        let expanded = match self.variables.expand(text) {
            Ok(expanded) => expanded,
            Err(error) => {
                let is_kept = self.report_error(at, error, report);
                return is_kept.then(|| Expanded { text: text.to_owned(), is_complete: false });
            }
        };
        let checked = Checked { text: &expanded, prefix: "after variable expansion: " };
        let is_usable = expanded == text || check_hidden(at, &checked, policy, report);
        is_usable.then_some(Expanded { text: expanded, is_complete: true })
    }

    /// Reports a string that could not be expanded. Returns whether it may stay as written.
    fn report_error(&self, at: &Cursor<'_>, error: ExpandError, report: &mut Report) -> bool {
        let problem = match error {
            ExpandError::Unset(name) if self.purpose == ReadPurpose::Store && name != "IFS" => {
                report.push(at.warning(format!("variable `{name}` is not set: the server cannot start until it is")));
                report.has_unset_variables = true;
                return true;
            }
            ExpandError::Unset(name) if self.is_disabled => {
                report.push(at.warning(format!("variable `{name}` is not set")));
                report.has_unset_variables = true;
                return true;
            }
            ExpandError::Unset(name) if name == "IFS" => {
                at.error("`${IFS}` disguises spaces").with_hint("write the spaces")
            }
            ExpandError::Unset(name) => at
                .error(format!("variable `{name}` is not set"))
                .with_hint(format!("set it, or add a default: `${{{name}:-default}}`")),
            ExpandError::Malformed(found) if found.starts_with("${input:") => {
                at.error(format!("`{found}` needs a prompt of an editor")).with_hint("use a variable: `${NAME}`")
            }
            ExpandError::Malformed(found) => at
                .error(format!("invalid variable reference `{found}`"))
                .with_hint("write `${NAME}` or `${NAME:-default}`, or `$${` for a literal `${`"),
        };
        report.push(problem);
        false
    }
}

/// A string to check, and how messages about it begin.
struct Checked<'a> {
    text: &'a str,
    prefix: &'static str,
}

/// Reports hidden characters. Returns whether the string can be used.
fn check_hidden(at: &Cursor<'_>, checked: &Checked<'_>, policy: HiddenCharPolicy, report: &mut Report) -> bool {
    let Checked { text, prefix } = checked;
    if text.contains('\0') {
        report.error(at, format!("{prefix}contains a NUL character"), "remove it");
        return false;
    }
    let Some(found) = hidden_chars::find(text) else { return true };
    let is_allowed = match policy {
        HiddenCharPolicy::Reject => false,
        HiddenCharPolicy::AllowLineBreaks => found.is_inner_line_break,
        HiddenCharPolicy::Allow => true,
    };
    if !is_allowed {
        report.error(at, format!("{prefix}{}", found.description), "remove it");
        return false;
    }
    let is_document = text.starts_with("-----BEGIN") || text.trim_start().starts_with(['{', '[']);
    let is_only_space = policy == HiddenCharPolicy::Allow && text.chars().all(|c| !is_hidden(c));
    if !is_document && !is_only_space {
        report.push(at.warning(format!("{prefix}{}", found.description)));
    }
    true
}
