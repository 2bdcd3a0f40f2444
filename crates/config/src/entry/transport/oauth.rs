//! Reads the `oauth` object: OAuth settings that are not discovered from the server.

use wharf_protocol::Secret;

use super::context::TransportContext;
use super::secrets;
use crate::address::{Family, check};
use crate::cursor::Cursor;
use crate::entry::expander::HiddenCharPolicy;
use crate::entry::report::Report;
use crate::entry::values::{check_object, port, string, strings};
use crate::server::OAuthSettings;
use crate::suggest::{brief, suggest};

const KEYS: [&str; 5] = ["clientId", "clientSecret", "callbackPort", "scopes", "authServerMetadataUrl"];

pub(super) fn read(context: &TransportContext<'_>, report: &mut Report) -> OAuthSettings {
    let Some(object) = context.entry.field("oauth") else { return OAuthSettings::default() };
    check_object(&object, report);
    // Other hosts have more keys, and none of them identifies the client.
    for (key, at) in object.fields().filter(|(key, _)| !KEYS.contains(key)) {
        let note = at.note(format!("ignored: unknown `oauth` key `{}`", brief(key)));
        report.push(suggest(note, key, &KEYS));
    }
    let client_id = object.field("clientId").and_then(|at| non_empty(context, &at, report));
    let client_secret = object.field("clientSecret").and_then(|at| {
        string(&at, report)?;
        secrets::check(&at, context.scope, "client_secret", report);
        non_empty(context, &at, report).map(Secret::new)
    });
    if let (None, Some(at)) = (object.field("clientId"), object.field("clientSecret")) {
        report.error(&at, "`clientSecret` requires `clientId`", "add the `clientId`");
    }
    let callback_port = object.field("callbackPort").and_then(|at| port(&at, report));
    let scopes = object.field("scopes").map(|at| read_scopes(context, &at, report));
    let metadata_url = object.field("authServerMetadataUrl").and_then(|at| read_url(context, &at, report));
    OAuthSettings { client_id, client_secret, callback_port, scopes, metadata_url }
}

fn non_empty<'a>(context: &TransportContext<'a>, at: &Cursor<'a>, report: &mut Report) -> Option<String> {
    let text = string(at, report)?;
    let expanded = context.expander.expand(at, text, HiddenCharPolicy::Reject, report)?;
    if expanded.is_empty() {
        report.error(at, "empty value", "set a value, or remove it");
        return None;
    }
    Some(expanded)
}

fn read_url<'a>(context: &TransportContext<'a>, at: &Cursor<'a>, report: &mut Report) -> Option<String> {
    let url = non_empty(context, at, report)?;
    match check(&url, Family::Http) {
        Ok(()) => Some(url),
        Err(invalid) => {
            report.push(invalid.problem(at));
            None
        }
    }
}

/// Reads a list of scopes, or one string separated by spaces, as OAuth writes it.
fn read_scopes<'a>(context: &TransportContext<'a>, at: &Cursor<'a>, report: &mut Report) -> Vec<String> {
    let written: Vec<(Cursor<'a>, &str)> = match at.text() {
        Some(line) => line.split_whitespace().map(|word| (at.clone(), word)).collect(),
        None => strings(at, report),
    };
    let mut scopes = Vec::new();
    for (at, word) in written {
        let Some(scope) = context.expander.expand(&at, word, HiddenCharPolicy::Reject, report) else { continue };
        // The characters of a scope (RFC 6749, section 3.3).
        let is_allowed = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        if scope.is_empty() || !scope.bytes().all(is_allowed) {
            report.error(&at, "invalid OAuth scope", "write each scope as a separate item");
            continue;
        }
        scopes.push(scope);
    }
    scopes
}
