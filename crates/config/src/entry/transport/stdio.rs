//! Reads a process to start: its program, arguments, environment and directory.

use std::collections::BTreeMap;
use std::path::PathBuf;

use wharf_protocol::Secret;

use super::context::TransportContext;
use super::{paths, secrets};
use crate::cursor::Cursor;
use crate::danger;
use crate::entry::expander::HiddenCharPolicy;
use crate::entry::report::Report;
use crate::entry::values::{NamedString, named_strings, string, strings};
use crate::hidden_chars;
use crate::problem::{Problem, ProblemKind};
use crate::server::{Scope, StdioConfig};

pub(super) fn read<'a>(
    context: &TransportContext<'a>,
    command_at: &Cursor<'a>,
    report: &mut Report,
) -> Option<StdioConfig> {
    let command = read_command(context, command_at, report);
    let args = read_args(context, report);
    let env = read_env(context, report);
    let cwd = read_cwd(context, report);
    let process = StdioConfig { command: command?, args: args?, env, cwd };
    note_unpinned(&context.entry, command_at, report);
    Some(process)
}

/// Notes a package without a version, from what is written: values of variables are not shown.
fn note_unpinned(entry: &Cursor<'_>, command_at: &Cursor<'_>, report: &mut Report) {
    let args = entry.field("args").into_iter().flat_map(|args| args.items());
    let args: Vec<String> = args.filter_map(|arg| arg.text().map(str::to_owned)).collect();
    let Some(fetch) = danger::fetched_package(command_at.text().unwrap_or_default(), &args) else { return };
    let Some(package) = fetch.unpinned else { return };
    let note = command_at.note(format!("fetches the latest version of `{package}`"));
    let hint = format!("pin a version: `{}@1.2.3`", package.trim_end_matches("@latest"));
    let kind = if fetch.is_silent_npm { ProblemKind::UnpinnedPackage } else { ProblemKind::Other };
    report.push(Problem { kind, ..note.with_hint(hint) });
}

fn read_command<'a>(context: &TransportContext<'a>, at: &Cursor<'a>, report: &mut Report) -> Option<String> {
    let written = string(at, report)?;
    let command = context.expander.expand_or_keep(at, written, HiddenCharPolicy::Reject, report)?;
    if command.text.is_empty() {
        report.error(at, "no command configured", "name the program");
        return None;
    }
    if written.contains(char::is_whitespace) && !written.contains(['/', '\\']) && !written.contains("${") {
        let program = written.split_whitespace().next().unwrap_or_default();
        let hint = format!("set \"command\" to \"{program}\", and put the other words into the list \"args\"");
        report.error(at, "`command` contains spaces, but must be one program", hint);
        return None;
    }
    paths::resolve_program(context, at, command, report)
}

fn read_args(context: &TransportContext<'_>, report: &mut Report) -> Option<Vec<String>> {
    let Some(list) = context.entry.field("args") else { return Some(Vec::new()) };
    let written = strings(&list, report);
    let expand = |(at, text): &(Cursor<'_>, &str)| context.expander.expand(at, text, HiddenCharPolicy::Allow, report);
    // Collected first, so that the problems of all arguments are reported.
    let expanded: Vec<Option<String>> = written.iter().map(expand).collect();
    expanded.into_iter().collect()
}

fn read_env(context: &TransportContext<'_>, report: &mut Report) -> BTreeMap<String, Secret> {
    let Some(object) = context.entry.field("env") else { return BTreeMap::new() };
    let mut env = BTreeMap::new();
    for NamedString { name, at, text } in named_strings(&object, report) {
        if name.is_empty() || name.contains(['=', '\0']) || hidden_chars::find(name).is_some() {
            report.error(&at, "invalid environment variable name", "use letters, digits and `_`");
            continue;
        }
        report_code_loading(&at, context.scope, name, report);
        secrets::check(&at, context.scope, name, report);
        if let Some(value) = context.expander.expand(&at, text, HiddenCharPolicy::AllowLineBreaks, report) {
            env.insert(name.to_owned(), Secret::new(value));
        }
    }
    env
}

/// Reports a variable that makes programs load code. In a project it would run code that nobody approved.
fn report_code_loading(at: &Cursor<'_>, scope: Scope, name: &str, report: &mut Report) {
    if !danger::loads_code(name) {
        return;
    }
    let message = format!("`{name}` controls which code programs load");
    if scope == Scope::Project {
        report.error(at, message, "a project must not set it; set it in your user configuration if you need it");
    } else {
        report.push(at.warning(message));
    }
}

fn read_cwd(context: &TransportContext<'_>, report: &mut Report) -> Option<PathBuf> {
    let Some(at) = context.entry.field("cwd") else { return paths::default_dir(context) };
    let text = string(&at, report)?;
    let dir = context.expander.expand(&at, text, HiddenCharPolicy::Reject, report)?;
    paths::resolve(context, &at, &dir, report)
}
