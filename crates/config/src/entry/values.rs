//! Reads typed values. A value of the wrong type is reported and skipped.

use std::time::Duration;

use super::report::Report;
use crate::cursor::{Cursor, Kind};
use crate::problem::{Problem, ProblemKind};

/// Smaller values are assumed to be in seconds.
const MIN_MILLISECONDS: u64 = 1000;

/// A key, its value, and the string that the value holds.
pub(super) struct NamedString<'a> {
    pub(super) name: &'a str,
    pub(super) at: Cursor<'a>,
    pub(super) text: &'a str,
}

pub(super) fn string<'a>(at: &Cursor<'a>, report: &mut Report) -> Option<&'a str> {
    let text = at.text();
    if text.is_none() {
        let problem = at.wrong_type("a string");
        report.push(match &at.node.kind {
            Kind::Bool(value) => problem.with_hint(format!("write \"{value}\"")),
            // Without the number, which may be a secret.
            Kind::Number(_) => problem.with_hint("put it in quotes"),
            _ => problem,
        });
    }
    text
}

/// Reads a list of strings.
pub(super) fn strings<'a>(at: &Cursor<'a>, report: &mut Report) -> Vec<(Cursor<'a>, &'a str)> {
    if !at.is_list() {
        let problem = at.wrong_type("a list of strings");
        report.push(match at.text() {
            // Without the text, which may hold a secret.
            Some(_) => problem.with_hint("write each word as a separate item: [\"…\", \"…\"]"),
            None => problem,
        });
    }
    at.items().filter_map(|item| string(&item, report).map(|text| (item, text))).collect()
}

/// Reads an object whose values are strings.
pub(super) fn named_strings<'a>(at: &Cursor<'a>, report: &mut Report) -> Vec<NamedString<'a>> {
    check_object(at, report);
    at.fields().filter_map(|(name, at)| string(&at, report).map(|text| NamedString { name, at, text })).collect()
}

/// Reports a value that is not an object, and duplicate keys.
pub(super) fn check_object(at: &Cursor<'_>, report: &mut Report) {
    if !at.is_object() {
        report.push(at.wrong_type("an object"));
    }
    report.problems.extend(at.duplicate_keys());
}

pub(super) fn boolean(at: &Cursor<'_>, report: &mut Report) -> Option<bool> {
    if let Kind::Bool(value) = at.node.kind {
        return Some(value);
    }
    report.push(at.wrong_type("true or false"));
    None
}

/// Returns a whole number; `30000.0` counts as one.
pub(super) fn whole_number(at: &Cursor<'_>) -> Option<u64> {
    let Kind::Number(number) = &at.node.kind else { return None };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "only whole numbers that a double represents exactly are cast"
    )]
    let from_double = |double: f64| (double.fract() == 0.0 && (0.0..9e15).contains(&double)).then_some(double as u64);
    number.as_u64().or_else(|| number.as_f64().and_then(from_double))
}

/// Reads a duration in milliseconds. A value so small that seconds must be meant is ignored, as other hosts do.
pub(super) fn milliseconds(at: &Cursor<'_>, report: &mut Report) -> Option<Duration> {
    let Some(milliseconds) = whole_number(at) else {
        report.push(at.wrong_type("a whole number of milliseconds"));
        return None;
    };
    if milliseconds < MIN_MILLISECONDS {
        let note = at.note(format!("{milliseconds} is less than {MIN_MILLISECONDS} milliseconds and has no effect"));
        let hint = match milliseconds {
            0 => "remove it to use the default".to_owned(),
            seconds => format!("did you mean {}?", seconds * 1000),
        };
        report.push(Problem { kind: ProblemKind::IgnoredTimeout, ..note.with_hint(hint) });
        return None;
    }
    Some(Duration::from_millis(milliseconds))
}

pub(super) fn port(at: &Cursor<'_>, report: &mut Report) -> Option<u16> {
    let port = whole_number(at).and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
    if port.is_none() {
        report.error(at, format!("invalid port {}", at.node.to_value()), "use a port from 1 to 65535");
    }
    port
}
