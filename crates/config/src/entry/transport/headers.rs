//! Reads the headers of requests, and the command that prints more of them.

use http::{HeaderName, HeaderValue};
use wharf_protocol::Secret;

use super::context::TransportContext;
use super::{paths, secrets};
use crate::entry::expander::{Expanded, HiddenCharPolicy};
use crate::entry::report::Report;
use crate::entry::values::{NamedString, named_strings, strings};
use crate::server::HeadersHelper;

/// Reads `headers`: they are sent with every request.
pub(super) fn read(context: &TransportContext<'_>, report: &mut Report) -> Vec<(String, Secret)> {
    let Some(object) = context.entry.field("headers") else { return Vec::new() };
    let mut headers: Vec<(String, Secret)> = Vec::new();
    for NamedString { name, at, text } in named_strings(&object, report) {
        if HeaderName::from_bytes(name.as_bytes()).is_err() {
            report.error(&at, "invalid header name", "use letters, digits and `-`");
            continue;
        }
        if wharf_client::is_reserved_header(name) {
            report.error(&at, "the client sets this header", "remove it");
            continue;
        }
        if headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            report.error(&at, "duplicate header", "keep one");
            continue;
        }
        secrets::check(&at, context.scope, name, report);
        let Some(value) = context.expander.expand(&at, text, HiddenCharPolicy::Reject, report) else { continue };
        if HeaderValue::from_str(&value).is_err() {
            report.error(&at, "invalid character in a header value", "use visible ASCII characters");
            continue;
        }
        headers.push((name.to_owned(), Secret::new(value)));
    }
    headers
}

/// Reads `headersHelper`: a list of words, or one string that is split like a shell would split it. No shell runs it.
pub(super) fn read_helper(context: &TransportContext<'_>, report: &mut Report) -> Option<HeadersHelper> {
    let at = context.entry.field("headersHelper")?;
    let written: Vec<String> = match at.text() {
        Some(line) => {
            let Some(words) = shlex::split(line) else {
                report.error(&at, "unclosed quote", "write it as a list of strings");
                return None;
            };
            words
        }
        None => strings(&at, report).into_iter().map(|(_, word)| word.to_owned()).collect(),
    };
    // Variables are expanded after splitting, so that each value stays one word.
    let expand = |word: &String| context.expander.expand_or_keep(&at, word, HiddenCharPolicy::Allow, report);
    let expanded: Option<Vec<Expanded>> = written.iter().map(expand).collect();
    let expanded = expanded?;
    let mut expanded = expanded.into_iter();
    match expanded.next() {
        Some(program) if !program.text.is_empty() => {
            let program = paths::resolve_program(context, &at, program, report)?;
            let words = std::iter::once(program).chain(expanded.map(|word| word.text)).collect();
            Some(HeadersHelper { words, cwd: paths::default_dir(context) })
        }
        _ => {
            report.error(&at, "no program", "write the command that prints the headers, or remove it");
            None
        }
    }
}
