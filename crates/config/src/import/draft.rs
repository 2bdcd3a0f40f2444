//! An entry under construction: what was read of the other host's entry, and the notes about it.

use serde_json::{Map, Value, json};

use super::placeholders::Placeholders;

/// Minimum timeout in milliseconds. A smaller value was not meant in milliseconds.
const MIN_TIMEOUT: f64 = 1000.0;
/// Maximum timeout in milliseconds.
const MAX_TIMEOUT: f64 = 1e12;

/// A converted entry and the notes about it.
pub(super) struct ConvertedEntry {
    pub(super) entry: Map<String, Value>,
    pub(super) notes: Vec<String>,
    /// Whether the entry contains the directory of the current project in place of a placeholder.
    pub(super) is_for_project: bool,
}

/// An entry under construction. Tracks which keys were read, so that the others are noted.
pub(super) struct Draft<'a> {
    theirs: &'a Map<String, Value>,
    read: Vec<&'static str>,
    pub(super) entry: Map<String, Value>,
    pub(super) notes: Vec<String>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(theirs: &'a Map<String, Value>) -> Self {
        Self { theirs, read: Vec::new(), entry: Map::new(), notes: Vec::new() }
    }

    /// Returns the entry, with a note for every key that was not read. `reasons` explains known ones.
    pub(super) fn finish(mut self, reasons: &[(&str, &str)]) -> ConvertedEntry {
        for key in self.theirs.keys().filter(|key| !self.read.contains(&key.as_str())) {
            let reason = reasons.iter().find(|(other, _)| other == key).map_or("not supported", |(_, reason)| reason);
            self.notes.push(format!("ignored `{key}`: {reason}"));
        }
        ConvertedEntry { entry: self.entry, notes: self.notes, is_for_project: false }
    }

    /// Returns whether the other entry has a key. Does not mark it as read.
    pub(super) fn has(&self, key: &str) -> bool {
        self.theirs.contains_key(key)
    }

    /// Returns a value and marks its key as read. `null` counts as absent.
    pub(super) fn take(&mut self, key: &'static str) -> Option<&'a Value> {
        self.read.push(key);
        self.theirs.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<&'a str>, String> {
        let Some(value) = self.take(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| format!("`{key}` is not a string"))
    }

    pub(super) fn flag(&mut self, key: &'static str) -> Result<Option<bool>, String> {
        let Some(value) = self.take(key) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| format!("`{key}` is not a boolean"))
    }

    /// Reads a list of strings. Numbers and booleans are converted, as a shell would.
    pub(super) fn texts(&mut self, key: &'static str) -> Result<Option<Vec<String>>, String> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let texts = value.as_array().and_then(|items| items.iter().map(scalar).collect());
        texts.map(Some).ok_or_else(|| format!("`{key}` is not a list of strings"))
    }

    /// Reads an object of strings. A `null` value, with which editors unset a variable, is noted and ignored.
    pub(super) fn table(&mut self, key: &'static str) -> Result<Option<Vec<(String, String)>>, String> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let wrong = || format!("`{key}` is not an object of strings");
        let mut pairs = Vec::new();
        for (name, value) in value.as_object().ok_or_else(wrong)? {
            if value.is_null() {
                self.notes.push(format!("ignored `{key}.{name}`: no value"));
                continue;
            }
            pairs.push((name.clone(), scalar(value).ok_or_else(wrong)?));
        }
        Ok(Some(pairs))
    }

    /// Converts a timeout to milliseconds. `factor` is the unit of the other host in milliseconds.
    pub(super) fn milliseconds(&mut self, key: &'static str, ours: &str, factor: f64) -> Result<(), String> {
        let Some(value) = self.take(key) else { return Ok(()) };
        let timeout = value.as_f64().ok_or_else(|| format!("`{key}` is not a number"))? * factor;
        if !(MIN_TIMEOUT..=MAX_TIMEOUT).contains(&timeout) {
            self.notes.push(format!("ignored `{key}`: {value} is out of range"));
            return Ok(());
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked above")]
        self.put(ours, timeout.round() as u64);
        Ok(())
    }

    pub(super) fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.entry.insert(key.to_owned(), value.into());
    }

    pub(super) fn put_some(&mut self, key: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.put(key, value);
        }
    }

    pub(super) fn put_table(
        &mut self,
        key: &str,
        pairs: Option<Vec<(String, String)>>,
        placeholders: &Placeholders<'_>,
    ) {
        let mut table = Map::new();
        for (name, text) in pairs.into_iter().flatten() {
            table.insert(name, json!(placeholders.text(&text, &mut self.notes)));
        }
        if !table.is_empty() {
            self.put(key, table);
        }
    }

    pub(super) fn translate_all(&mut self, placeholders: &Placeholders<'_>, texts: &[String]) -> Vec<String> {
        texts.iter().map(|text| placeholders.text(text, &mut self.notes)).collect()
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}
