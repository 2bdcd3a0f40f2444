//! What is known beforehand about signing in: the `oauth` object of an entry.

use super::super::super::address::{Family, Unusable, check};
use super::super::super::server::OAuthSettings;
use super::super::super::text::At;
use super::super::keys::brief;
use super::super::settings::whole;
use super::super::{Care, Reading};
use super::launch;
use wharf_protocol::{Secret, nearest};

const KEYS: [&str; 5] = ["clientId", "clientSecret", "callbackPort", "scopes", "authServerMetadataUrl"];

pub(super) fn read(reading: &mut Reading<'_>) -> OAuthSettings {
    let Some(at) = reading.at.field("oauth") else { return OAuthSettings::default() };
    reading.object(&at);
    // Other hosts have more in it, none of which says who we are.
    for (key, field) in at.fields().filter(|(key, _)| !KEYS.contains(key)) {
        let note = field.note(format!("is passed over: `{}` is no key of `oauth`", brief(key)));
        reading.problems.push(match nearest(key, KEYS) {
            Some(ours) => note.with_hint(format!("did you mean `{ours}`?")),
            None => note,
        });
    }
    let client_id = text(reading, at.field("clientId"));
    let client_secret = at.field("clientSecret").and_then(|field| {
        let written = reading.text(&field)?;
        launch::secret(reading, &field, "client_secret", written);
        text(reading, Some(field)).map(Secret::new)
    });
    if let (None, Some(field)) = (at.field("clientId"), at.field("clientSecret")) {
        reading.error(&field, "stands there without `clientId`", "add the `clientId` it belongs to");
    }
    let callback_port = port(reading, at.field("callbackPort"));
    let scopes = scopes(reading, at.field("scopes"));
    let metadata_url = place(reading, at.field("authServerMetadataUrl"));
    OAuthSettings { client_id, client_secret, callback_port, scopes, metadata_url }
}

/// A text that has something in it.
fn text<'a>(reading: &mut Reading<'a>, at: Option<At<'a>>) -> Option<String> {
    let at = at?;
    let written = reading.text(&at)?;
    let expanded = reading.expanded(&at, written, Care::Strict)?;
    if expanded.is_empty() {
        reading.error(&at, "is empty", "write what it is, or leave it out");
        return None;
    }
    Some(expanded)
}

/// An address that can be asked for a description.
fn place<'a>(reading: &mut Reading<'a>, at: Option<At<'a>>) -> Option<String> {
    let at = at?;
    let url = text(reading, Some(at.clone()))?;
    match check(&url, Family::Http) {
        Ok(()) => Some(url),
        Err(Unusable { why, hint }) => {
            reading.error(&at, why, hint.unwrap_or("write where the authorization server describes itself"));
            None
        }
    }
}

fn port<'a>(reading: &mut Reading<'a>, at: Option<At<'a>>) -> Option<u16> {
    let at = at?;
    let port = whole(&at).and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
    if port.is_none() {
        reading.error(&at, format!("{} is no port", at.node.to_value()), "ports are 1 to 65535");
    }
    port
}

/// A list of texts, or one text with blanks between them, as OAuth itself writes it.
fn scopes<'a>(reading: &mut Reading<'a>, at: Option<At<'a>>) -> Option<Vec<String>> {
    let at = at?;
    let written: Vec<(At<'a>, &str)> = match at.text() {
        Some(line) => line.split_whitespace().map(|word| (at.clone(), word)).collect(),
        None => reading.texts(&at),
    };
    let mut scopes = Vec::new();
    for (at, word) in written {
        let Some(scope) = reading.expanded(&at, word, Care::Strict) else { continue };
        // What OAuth lets a scope have in it (RFC 6749, 3.3).
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        if scope.is_empty() || !scope.bytes().all(is_plain) {
            reading.error(&at, "has something in it that is no scope", "write each scope as an item of its own");
            continue;
        }
        scopes.push(scope);
    }
    Some(scopes)
}
