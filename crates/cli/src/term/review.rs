//! The review of a server before it is approved: what it would run, its risks, and the question.

use std::io::{IsTerminal as _, Write as _};

use wharf::config::{Approval, EntryChange};

use super::input::drop_typed_input;
use super::message::{caution, heading, line as line_of};
use super::text::name;
use crate::error::{UsageError, usage_error};

/// Prints what the user must review.
pub(crate) fn show(approval: &Approval) {
    heading(&format!("{} would", approval.name));
    let line = |key: &str, value: &str| line_of(&format!("  {key:<9} {}", name(value)));
    approval.command_line.iter().for_each(|command| line("run", command));
    approval.url.iter().for_each(|url| line("connect", url));
    approval.cwd.iter().for_each(|cwd| line("in", cwd));
    approval.headers_helper.iter().for_each(|helper| line("also run", helper));
    for (variable, value) in &approval.env {
        line("with", &format!("{variable}={value}"));
    }
    for (header, value) in &approval.headers {
        line("sending", &format!("{header}: {value}"));
    }
    for (path, value) in &approval.more {
        line("and", &format!("{path} = {value}"));
    }
    if !approval.reads.is_empty() {
        line("reading", &format!("your {}", approval.reads.join(", ")));
    }
    for danger in &approval.dangers {
        caution(&format!("it {danger}"));
    }
    if !approval.changes.is_empty() {
        heading("changes since you approved it");
        approval.changes.iter().for_each(print_change);
    }
}

fn print_change(change: &EntryChange) {
    let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "(none)".to_owned());
    let text = format!("{:<9} {} → {}", change.what, shown(&change.approved), shown(&change.now));
    line_of(&format!("  {}", name(&text)));
}

/// Asks the user, which needs a terminal. `without_terminal` is the hint where none exists.
pub(crate) fn ask(approval: &Approval, without_terminal: &str) -> Result<bool, UsageError> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() || !std::io::stderr().is_terminal() {
        return Err(usage_error(
            format!("cannot ask for approval of `{}` without a terminal", approval.name),
            Some(without_terminal),
        ));
    }
    drop_typed_input();
    let mut stderr = anstream::stderr();
    let _ = write!(stderr, "Approve? [y/N] ").and_then(|()| stderr.flush());
    let mut answer = String::new();
    let read = stdin.read_line(&mut answer);
    read.map_err(|error| usage_error(format!("cannot read stdin: {error}"), None))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
