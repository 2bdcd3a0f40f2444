//! Programs and directories: what a path refers to wherever the host runs.

use std::path::{Path, PathBuf};

use super::context::TransportContext;
use crate::cursor::Cursor;
use crate::entry::expander::Expanded;
use crate::entry::report::Report;
use crate::server::Scope;

/// Returns the program of a command. A relative path of a project's entry refers to the project, wherever the host runs.
pub(super) fn resolve_program(
    context: &TransportContext<'_>,
    at: &Cursor<'_>,
    command: Expanded,
    report: &mut Report,
) -> Option<String> {
    let Expanded { text, is_complete } = command;
    if text.starts_with("~/") {
        report.error(at, "`~` is not expanded: commands run without a shell", "write `${HOME}/…`");
        return None;
    }
    // What an unset variable will hold is unknown. Such a command does not run.
    let is_unknown = !is_complete && text.starts_with("${");
    let is_relative = text.contains(['/', '\\']) && !is_absolute(&text) && !is_unknown;
    if !is_relative {
        return Some(text);
    }
    if context.scope != Scope::Project {
        report.warning(at, "relative to the directory in which the host runs", "write an absolute path");
        return Some(text);
    }
    // Without a directory the entry is only stored, and stays as written.
    match context.base_dir.map(|root| root.join(&text).into_os_string().into_string()) {
        None => Some(text),
        Some(Ok(program)) => Some(program),
        Some(Err(_)) => {
            report.error(at, "the path of the project is not UTF-8", "write an absolute path");
            None
        }
    }
}

/// Returns the default directory of a project's processes: its root. The current directory may hold anything.
pub(super) fn default_dir(context: &TransportContext<'_>) -> Option<PathBuf> {
    if context.scope == Scope::Project { context.base_dir.map(Path::to_owned) } else { None }
}

/// Resolves a path relative to the project, where there is one.
pub(super) fn resolve(
    context: &TransportContext<'_>,
    at: &Cursor<'_>,
    path: &str,
    report: &mut Report,
) -> Option<PathBuf> {
    if path.is_empty() {
        report.error(at, "empty path", "remove it");
        return None;
    }
    if path == "~" || path.starts_with("~/") {
        report.error(at, "`~` is not expanded", "write `${HOME}`");
        return None;
    }
    if is_absolute(path) {
        return Some(PathBuf::from(path));
    }
    if let Some(base_dir) = context.base_dir {
        return Some(base_dir.join(path));
    }
    report.warning(at, "relative to the directory in which the host runs", "write an absolute path");
    Some(PathBuf::from(path))
}

/// Whether a path is absolute on this system: `C:/x` is relative where drives do not exist.
fn is_absolute(path: &str) -> bool {
    Path::new(path).is_absolute()
}
