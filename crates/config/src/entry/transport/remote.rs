//! Reads a server with a URL: the URL, headers and OAuth settings.

use super::context::TransportContext;
use super::{headers, oauth};
use crate::address::{self, Family};
use crate::cursor::Cursor;
use crate::entry::expander::HiddenCharPolicy;
use crate::entry::report::Report;
use crate::entry::values::string;
use crate::problem::Problem;
use crate::server::RemoteConfig;

pub(super) fn read<'a>(
    context: &TransportContext<'a>,
    url_at: &Cursor<'a>,
    family: Family,
    report: &mut Report,
) -> Option<RemoteConfig> {
    let url = read_url(context, url_at, family, report);
    let headers = headers::read(context, report);
    let headers_helper = headers::read_helper(context, report);
    let oauth = oauth::read(context, report);
    Some(RemoteConfig { url: url?, headers, headers_helper, oauth })
}

fn read_url<'a>(
    context: &TransportContext<'a>,
    at: &Cursor<'a>,
    family: Family,
    report: &mut Report,
) -> Option<String> {
    let written = string(at, report)?;
    if written.is_empty() {
        report.error(at, "no URL configured", "set the URL");
        return None;
    }
    let url = context.expander.expand_or_keep(at, written, HiddenCharPolicy::Reject, report)?;
    // With an unset variable in it, it is not a URL yet, and is not used as one.
    if !url.is_complete {
        return Some(url.text);
    }
    if let Err(invalid) = address::check(&url.text, family) {
        // Shows only what is written: a variable may hold a secret.
        let message = format!("invalid URL `{}`: {}", without_secrets(written), invalid.reason);
        report.push(Problem { message, ..invalid.problem(at) });
        return None;
    }
    Some(url.text)
}

/// Returns a URL without user name, password and query.
fn without_secrets(url: &str) -> String {
    let (url, rest) = url.split_at(url.find(['?', '#']).unwrap_or(url.len()));
    let mark = if rest.is_empty() { "" } else { "?…" };
    let after_scheme = url.find("://").map_or(0, |at| at + 3);
    let authority = url[after_scheme..].split(['/', '?', '#']).next().unwrap_or_default();
    match authority.rfind('@') {
        Some(at) => format!("{}…{}{mark}", &url[..after_scheme], &url[after_scheme + at..]),
        None => format!("{url}{mark}"),
    }
}
