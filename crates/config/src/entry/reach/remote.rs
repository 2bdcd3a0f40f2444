//! A server at an address: the URL, and what is sent with every request.

use http::{HeaderName, HeaderValue};
use wharf_protocol::Secret;

use super::super::super::address::{self, Family};
use super::super::super::server::{HeadersHelper, RemoteConfig};
use super::super::super::text::At;
use super::super::{Care, Reading};
use super::{launch, oauth};

pub(super) fn read<'a>(reading: &mut Reading<'a>, at: &At<'a>, family: Family) -> Option<RemoteConfig> {
    let url = url(reading, at, family);
    let headers = headers(reading);
    let headers_helper = helper(reading);
    let oauth = oauth::read(reading);
    Some(RemoteConfig { url: url?, headers, headers_helper, oauth })
}

fn url<'a>(reading: &mut Reading<'a>, at: &At<'a>, family: Family) -> Option<String> {
    let written = reading.text(at)?;
    if written.is_empty() {
        reading.error(at, "the server has no URL configured", "write its URL");
        return None;
    }
    let url = reading.expanded(at, written, Care::Strict)?;
    // It names a variable that is not set, so it is no address yet, and is not run.
    if reading.is_incomplete {
        return Some(url);
    }
    if let Err(unusable) = address::check(&url, family) {
        // Only what is written is shown: a variable may hold anything.
        let problem = at.error(format!("`{}` {}", place(written), unusable.why));
        reading.problems.push(match unusable.hint {
            Some(hint) => problem.with_hint(hint),
            None => problem,
        });
        return None;
    }
    Some(url)
}

/// An address without the name and password it may have, and without its query.
fn place(url: &str) -> String {
    let (url, rest) = url.split_at(url.find(['?', '#']).unwrap_or(url.len()));
    let mark = if rest.is_empty() { "" } else { "?…" };
    let after_scheme = url.find("://").map_or(0, |at| at + 3);
    let authority = url[after_scheme..].split(['/', '?', '#']).next().unwrap_or_default();
    match authority.rfind('@') {
        Some(at) => format!("{}…{}{mark}", &url[..after_scheme], &url[after_scheme + at..]),
        None => format!("{url}{mark}"),
    }
}

/// What is sent with every request.
pub(super) fn headers(reading: &mut Reading<'_>) -> Vec<(String, Secret)> {
    let Some(at) = reading.at.field("headers") else { return Vec::new() };
    let mut headers: Vec<(String, Secret)> = Vec::new();
    for (name, at, text) in reading.named_texts(&at) {
        if HeaderName::from_bytes(name.as_bytes()).is_err() {
            reading.error(&at, "is no name of a header", "use letters, digits and `-`");
            continue;
        }
        if wharf_client::is_reserved_header(name) {
            reading.error(&at, "is a header that is always set here, and cannot be another one", "remove it");
            continue;
        }
        if headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            reading.error(&at, "is there twice", "keep one");
            continue;
        }
        launch::secret(reading, &at, name, text);
        let Some(value) = reading.expanded(&at, text, Care::Strict) else { continue };
        if HeaderValue::from_str(&value).is_err() {
            reading.error(&at, "has a character that no header can have", "write it in plain ASCII");
            continue;
        }
        headers.push((name.to_owned(), Secret::new(value)));
    }
    headers
}

/// A command that prints headers: a list of words, or one text that is split as a shell would, and never run by one.
fn helper(reading: &mut Reading<'_>) -> Option<HeadersHelper> {
    let at = reading.at.field("headersHelper")?;
    let words: Vec<String> = match at.text() {
        Some(line) => {
            let Some(words) = shlex::split(line) else {
                reading.error(&at, "has a quote that does not end", "write it as a list of words");
                return None;
            };
            words
        }
        None => reading.texts(&at).into_iter().map(|(_, word)| word.to_owned()).collect(),
    };
    // Variables are put in after splitting, so that what they hold stays one word.
    let words: Option<Vec<String>> = words.iter().map(|word| reading.expanded(&at, word, Care::Argument)).collect();
    let words = words?;
    match words.first() {
        Some(program) if !program.is_empty() => {
            let cwd = launch::home(reading);
            launch::is_findable(reading, &at, program).then_some(HeadersHelper { words, cwd })
        }
        _ => {
            reading.error(&at, "names no program", "write the command that prints the headers, or remove it");
            None
        }
    }
}
