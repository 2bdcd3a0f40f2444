//! An entry as written, before variables are expanded: what a person approves, and what later versions are compared
//! with.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::hidden_chars::visible;

/// The part of an entry that says how the server runs and what its tools may do, in canonical form.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawEntry(Map<String, Value>);

/// Omits values, which may be secrets.
impl fmt::Debug for RawEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawEntry({:?})", self.0.keys().collect::<Vec<_>>())
    }
}

/// One difference between the approved and the current entry, in full: the person who approves must see it.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct EntryChange {
    /// The path of the value, such as `args[1]`.
    pub what: String,
    /// The approved value; `None` if the key was absent.
    pub approved: Option<String>,
    /// The current value; `None` if the key is absent.
    pub now: Option<String>,
}

/// Omits values, which may be secrets.
impl fmt::Debug for EntryChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EntryChange({})", self.what)
    }
}

impl RawEntry {
    /// Sorts the keys, so that the layout of an entry makes no difference.
    pub(crate) fn new(fields: impl IntoIterator<Item = (String, Value)>) -> Self {
        let sorted: BTreeMap<String, Value> = fields.into_iter().map(|(key, value)| (key, sorted(value))).collect();
        Self(sorted.into_iter().collect())
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// Returns the SHA-256 of the canonical form, in hexadecimal.
    pub fn hash(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update(Value::Object(self.0.clone()).to_string());
        hasher.finalize().iter().fold(String::with_capacity(64), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }

    /// Returns the differences from the approved entry.
    pub fn changes_since(&self, approved: &Self) -> Vec<EntryChange> {
        let before = approved.leaves();
        let after = self.leaves();
        let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let differs = |name: &&&String| before.get(**name) != after.get(**name);
        let change = |name: &String| EntryChange {
            what: visible(name),
            approved: before.get(name).map(display),
            now: after.get(name).map(display),
        };
        names.iter().filter(differs).map(|name| change(name)).collect()
    }

    /// Returns all values that are not objects or lists, by path. Empty objects and lists are included.
    pub(crate) fn leaves(&self) -> BTreeMap<String, Value> {
        let mut leaves = BTreeMap::new();
        for (key, value) in &self.0 {
            collect(&segment(key), value, &mut leaves);
        }
        leaves
    }
}

fn collect(path: &str, value: &Value, leaves: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().for_each(|(key, value)| collect(&format!("{path}.{}", segment(key)), value, leaves));
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(index, value)| collect(&format!("{path}[{index}]"), value, leaves));
        }
        leaf => {
            leaves.insert(path.to_owned(), leaf.clone());
        }
    }
}

/// Returns a key as a part of a path. A key that could pass for several parts, or for more than a path, is quoted: two
/// values must never share a path, since the reviewer would see only one of them.
fn segment(key: &str) -> Cow<'_, str> {
    let is_plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_-*/@:".contains(c));
    if is_plain { key.into() } else { Value::from(key).to_string().into() }
}

fn display(value: &Value) -> String {
    match value {
        Value::String(text) => visible(text),
        other => visible(&other.to_string()),
    }
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<String, Value> = fields.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        leaf => leaf,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(value: &Value) -> RawEntry {
        RawEntry::new(value.as_object().unwrap().clone())
    }

    #[test]
    fn keys_that_look_like_paths_hide_no_other_value() {
        let approved = entry(&json!({"tools": {"write": {"x": 1}, "write.x": 2, "a[0]": 3, "a": [4], "": 5, "\"": 6}}));
        let paths: Vec<String> = approved.leaves().into_keys().collect();
        let expected = [r#""""#, r#""\"""#, r#""a[0]""#, r#""write.x""#, "a[0]", "write.x"];
        assert_eq!(paths, expected.map(|path| format!("tools.{path}")));
        let now = entry(&json!({"tools": {"write": {"x": 0}, "write.x": 2, "a[0]": 3, "a": [4], "": 5, "\"": 6}}));
        let changes = now.changes_since(&approved);
        let expected = EntryChange { what: "tools.write.x".into(), approved: Some("1".into()), now: Some("0".into()) };
        assert_eq!(changes, [expected]);
        assert_eq!(entry(&json!({"command.x": 1})).leaves().into_keys().collect::<Vec<_>>(), [r#""command.x""#]);
    }
}
