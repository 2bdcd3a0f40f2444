//! Finds plaintext secrets in imported entries.

use serde_json::{Map, Value};

use crate::danger::looks_secret;

/// Returns a note for every value that looks like a secret, with an alternative.
pub(super) fn notes(entry: &Map<String, Value>) -> Vec<String> {
    let mut notes = Vec::new();
    for group in ["env", "headers", "oauth"] {
        for (name, value) in entry.get(group).and_then(Value::as_object).into_iter().flatten() {
            let text = value.as_str().unwrap_or_default();
            if looks_secret(name, text) {
                let scheme = text.split_once(' ').map(|(scheme, _)| format!("{scheme} ")).unwrap_or_default();
                let scheme = if group == "headers" { scheme } else { String::new() };
                let alternative = format!("{scheme}${{{}}}", variable_name(name));
                notes.push(format!(
                    "`{group}.{name}` contains a secret; use `{alternative}` to keep it out of the file"
                ));
            }
        }
    }
    for value in entry.get("args").and_then(Value::as_array).into_iter().flatten() {
        let text = value.as_str().unwrap_or_default();
        // The name of an option may reveal a secret.
        let (name, text) = text.split_once('=').unwrap_or(("", text));
        if looks_secret(name, text) {
            notes.push("`args` contains a secret, which other users of this machine can see; use `env`".to_owned());
            break;
        }
    }
    let url = entry.get("url").and_then(Value::as_str).unwrap_or_default();
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let with_secret = |pair: &str| pair.split_once('=').is_some_and(|(name, value)| looks_secret(name, value));
    let credentials = url.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next()?.split_once('@'));
    if query.split('&').any(with_secret) || credentials.is_some_and(|(credentials, _)| !credentials.contains("${")) {
        notes.push("`url` contains a secret; use a header, or `${VAR}`".to_owned());
    }
    notes
}

/// Converts a name to a variable name.
pub(crate) fn variable_name(name: &str) -> String {
    let mut variable: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    if !variable.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        variable.insert(0, '_');
    }
    variable
}
