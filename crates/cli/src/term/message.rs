//! Messages on stderr: errors, warnings, notes and hints.

use std::io::Write as _;

use rustix::termios::tcgetwinsize;
use serde::{Serialize, Serializer};
use wharf::config::{Problem, Severity};

use super::line_quoter;
use super::reported;
use super::style::{BOLD, CYAN, DIM, RED, YELLOW};
use super::text::{brief, name, visible, with_visible_blanks};
use super::wrap::{self, columns, filled, marked};
use crate::error::UsageError;
use crate::exit::Exit;

/// A line of a server's output.
#[derive(Debug)]
pub(crate) struct QuotedLine {
    /// Where the server wrote it.
    pub(crate) source: &'static str,
    pub(crate) text: String,
}

impl QuotedLine {
    pub(crate) fn new(source: &'static str, text: &str) -> Self {
        Self { source, text: text.to_owned() }
    }

    /// Returns the line in rows of at most `width` columns, cut to `max_chars`. Every row names the source.
    pub(crate) fn rows(&self, max_chars: usize, width: usize) -> Vec<String> {
        filled(&brief(&self.text, max_chars), &format!("{} │ ", self.source), width)
    }
}

impl Serialize for QuotedLine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{} │ {}", self.source, self.text))
    }
}

fn err(text: &str) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Indents all lines of a message but the first, which follows a label, and wraps them if stderr is a terminal. Only
/// labels of ours begin in the first column.
fn fitting(text: &str, label: &str) -> String {
    wrap::message(&visible(text), label.len(), stderr_width().unwrap_or(usize::MAX))
}

/// Returns the width of the terminal, if stderr is one.
pub(crate) fn stderr_width() -> Option<usize> {
    let size = tcgetwinsize(std::io::stderr()).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// Prints an error, the server's last lines and a hint.
pub(crate) fn error(message: &str, quoted: &[QuotedLine], hint: Option<&str>) {
    reported::add_error(message, hint);
    err(&format!("{RED}error:{RED:#} {}", fitting(message, "error: ")));
    quote(quoted);
    if let Some(text) = hint {
        self::hint(text);
    }
}

/// Prints lines of a server's output. Every row names its source.
pub(crate) fn quote(lines: &[QuotedLine]) {
    for QuotedLine { source, text } in lines {
        let width = stderr_width().unwrap_or(usize::MAX).saturating_sub(columns(&format!("  {source} │ ")));
        for row in filled(&visible(text).replace('\n', "\\n"), "", width) {
            err(&format!("  {DIM}{source} │{DIM:#} {row}"));
        }
    }
}

/// Quotes what begins a row of stderr like a line of ours.
fn unlabeled(text: &str) -> String {
    line_quoter::unlabeled(text, stderr_width())
}

pub(crate) fn warning(message: &str) {
    err(&format!("{YELLOW}warning:{YELLOW:#} {}", fitting(message, "warning: ")));
}

pub(crate) fn note(message: &str) {
    err(&format!("{DIM}{}{DIM:#}", fitting(&unlabeled(message), "")));
}

pub(crate) fn hint(message: &str) {
    // A hint may list names that a server chose.
    err(&format!("{CYAN}hint:{CYAN:#} {}", fitting(&name(message), "hint: ")));
}

/// Prints the title of a block of lines.
pub(crate) fn heading(title: &str) {
    err(&format!("{BOLD}{}{BOLD:#}", unlabeled(&name(title))));
}

/// Prints one line of a block.
pub(crate) fn line(text: &str) {
    err(&unlabeled(&visible(text)));
}

/// Prints a risk that deserves a second look. It may quote what strangers wrote, so its rows are marked.
pub(crate) fn caution(message: &str) {
    const LABEL: &str = "caution: ";
    let text = with_visible_blanks(&name(message));
    for (index, row) in marked(&text, LABEL.len(), stderr_width()).iter().enumerate() {
        err(&if index == 0 { format!("{RED}caution:{RED:#} {row}") } else { row.clone() });
    }
}

/// Prints a usage error and returns its exit code.
pub(crate) fn usage_error(usage_error: &UsageError) -> Exit {
    error(&usage_error.message, &[], usage_error.hint.as_deref());
    Exit::Usage
}

/// Prints a problem of the configuration: where, what and how to fix it.
pub(crate) fn problem(problem: &Problem) {
    let without_hint = Problem { hint: None, ..problem.clone() };
    let hint = problem.hint.as_deref();
    match problem.severity {
        Severity::Error => error(&without_hint.to_string(), &[], hint),
        Severity::Warning => {
            warning(&without_hint.to_string());
            if let Some(text) = hint {
                self::hint(text);
            }
        }
        Severity::Note => note(&problem.to_string()),
    }
}
