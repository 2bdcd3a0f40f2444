//! Secrets that stand in a file for everybody to see.

use serde_json::{Map, Value};

use crate::looks_secret;

/// Names the places of an entry that seem to hold a secret, and how to keep it out of the file.
pub(super) fn notes(entry: &Map<String, Value>) -> Vec<String> {
    let mut notes = Vec::new();
    for group in ["env", "headers", "oauth"] {
        for (name, value) in entry.get(group).and_then(Value::as_object).into_iter().flatten() {
            let text = value.as_str().unwrap_or_default();
            if looks_secret(name, text) {
                let scheme = text.split_once(' ').map(|(scheme, _)| format!("{scheme} ")).unwrap_or_default();
                let scheme = if group == "headers" { scheme } else { String::new() };
                let better = format!("{scheme}${{{}}}", variable(name));
                notes.push(format!("`{group}.{name}` holds a secret; `{better}` would keep it out of the file"));
            }
        }
    }
    for value in entry.get("args").and_then(Value::as_array).into_iter().flatten() {
        let text = value.as_str().unwrap_or_default();
        // An option may name what it holds.
        let (name, text) = text.split_once('=').unwrap_or(("", text));
        if looks_secret(name, text) {
            notes.push("`args` holds a secret, which other users of this machine can see; use `env`".to_owned());
            break;
        }
    }
    let url = entry.get("url").and_then(Value::as_str).unwrap_or_default();
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let with_secret = |pair: &str| pair.split_once('=').is_some_and(|(name, value)| looks_secret(name, value));
    let person = url.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next()?.split_once('@'));
    if query.split('&').any(with_secret) || person.is_some_and(|(person, _)| !person.contains("${")) {
        notes.push("`url` holds a secret; send it as a header, or as `${VAR}`".to_owned());
    }
    notes
}

/// A name as variables have them.
pub(super) fn variable(name: &str) -> String {
    let mut variable: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    if !variable.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        variable.insert(0, '_');
    }
    variable
}
