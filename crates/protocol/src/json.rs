//! JSON text exactly as it came over the wire. Slices of one message share its allocation.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::scan;
use crate::unambiguous::UnambiguousValue;

/// JSON text, byte for byte as it was received or written, cheap to clone and to slice.
///
/// Invariant: the text is one complete JSON value.
#[derive(Clone)]
pub struct Json {
    text: Arc<String>,
    span: Range<usize>,
}

impl Json {
    /// Checks that `text` is one JSON value and stores it unchanged.
    pub fn parse(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        let text = text.into();
        let raw: &RawValue = serde_json::from_str(&text)?;
        let span = span_of(&text, raw);
        Ok(Self { text: Arc::new(text), span })
    }

    /// Serializes a value to JSON text.
    pub fn of(value: &(impl Serialize + ?Sized)) -> Result<Self, serde_json::Error> {
        let text = serde_json::to_string(value)?;
        let span = 0..text.len();
        Ok(Self { text: Arc::new(text), span })
    }

    /// `null`.
    pub(crate) fn null() -> Self {
        Self::trusted("null".to_owned())
    }

    /// Wraps text that is known to be one JSON value.
    pub(crate) fn trusted(text: String) -> Self {
        let span = 0..text.len();
        Self { text: Arc::new(text), span }
    }

    /// Returns a part of `text` that has been parsed already, without copying it.
    ///
    /// `part` must borrow from `text`; if it does not, it is copied.
    pub fn part_of(text: &Arc<String>, part: &RawValue) -> Self {
        match span_within(text, part.get()) {
            Some(span) => Self { text: Arc::clone(text), span },
            None => Self::from(part.to_owned()),
        }
    }

    /// Returns a part of this value that was found in its text and is a complete value.
    pub(crate) fn part(&self, part: &str) -> Self {
        match span_within(&self.text, part) {
            Some(span) => Self { text: Arc::clone(&self.text), span },
            None => Self { text: Arc::new(part.to_owned()), span: 0..part.len() },
        }
    }

    /// Returns a part of this value that shares its text.
    #[must_use]
    pub fn slice(&self, part: &RawValue) -> Self {
        Self::part_of(&self.text, part)
    }

    /// Copies the value into its own allocation, so that storing it does not keep the whole message in memory.
    #[must_use]
    pub fn detached(&self) -> Self {
        let text = self.as_str().to_owned();
        let span = 0..text.len();
        Self { text: Arc::new(text), span }
    }

    /// Replaces some values of an object and returns a copy; all other bytes stay the same. `change` receives the name
    /// and the text of every field. Returns `None` if nothing changes or the value is not an object.
    pub fn with_values(&self, change: impl Fn(&str, &str) -> Option<Self>) -> Option<Self> {
        let whole = self.as_str();
        let mut text = String::new();
        let mut copied = 0;
        for (name, value) in scan::entries(whole) {
            let (Some(changed), Some(span)) = (change(&name, value), span_within(whole, value)) else { continue };
            text.push_str(&whole[copied..span.start]);
            text.push_str(changed.as_str());
            copied = span.end;
        }
        if copied == 0 {
            return None;
        }
        text.push_str(&whole[copied..]);
        text.shrink_to_fit();
        let span = 0..text.len();
        Some(Self { text: Arc::new(text), span })
    }

    /// Returns the JSON text.
    pub fn as_str(&self) -> &str {
        self.text.get(self.span.clone()).unwrap_or("null")
    }

    /// Deserializes the text into any type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }

    /// Parses the text into a tree. Nesting deeper than 128 levels is an error, not a stack overflow.
    pub fn to_value(&self) -> Result<serde_json::Value, serde_json::Error> {
        self.decode()
    }

    /// Parses the text into a tree like [`to_value`](Self::to_value), but fails if an object has two fields of one name.
    pub fn to_unambiguous_value(&self) -> Result<serde_json::Value, serde_json::Error> {
        self.decode::<UnambiguousValue>().map(|value| value.0)
    }

    /// Whether the text is an object. The text is known to be valid, so its first character decides.
    pub fn is_object(&self) -> bool {
        self.as_str().starts_with('{')
    }

    /// Whether the text is `null`.
    pub fn is_null(&self) -> bool {
        self.as_str() == "null"
    }
}

/// Finds `part` in the text that it borrows from.
fn span_within(text: &str, part: &str) -> Option<Range<usize>> {
    let offset = (part.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
    let span = offset..offset.saturating_add(part.len());
    text.get(span.clone()).is_some_and(|slice| std::ptr::eq(slice, part)).then_some(span)
}

fn span_of(text: &str, part: &RawValue) -> Range<usize> {
    let start = part.get().as_ptr() as usize - text.as_ptr() as usize;
    start..start + part.get().len()
}

impl From<Box<RawValue>> for Json {
    fn from(raw: Box<RawValue>) -> Self {
        let text = String::from(Box::<str>::from(raw));
        let span = 0..text.len();
        Self { text: Arc::new(text), span }
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        let text = value.to_string();
        let span = 0..text.len();
        Self { text: Arc::new(text), span }
    }
}

/// Compares byte for byte: two spellings of one value are not equal.
impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(self.as_str()).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer).map_err(D::Error::custom)?;
        Ok(Self::from(raw))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_byte_equal_to_what_was_sent_and_shares_its_text() {
        let whole = Json::parse(r#" {"a": {"n": 1.50, "s": "\u00e9"} } "#).unwrap();
        let parts: std::collections::HashMap<&str, &RawValue> = serde_json::from_str(whole.as_str()).unwrap();
        let part = whole.slice(parts["a"]);
        assert_eq!(part.as_str(), r#"{"n": 1.50, "s": "\u00e9"}"#);
        assert!(Arc::ptr_eq(&part.text, &whole.text));
        assert!(!Arc::ptr_eq(&part.detached().text, &whole.text));
        assert_eq!(part.detached(), part);
    }

    #[test]
    fn replacing_values_leaves_all_other_bytes_unchanged() {
        let json = Json::parse(r#" {"a" : "x", "b":{ "a":"x" }, "\u0061":"y" } "#).unwrap();
        let change = |name: &str, value: &str| (name == "a").then(|| Json::of(&value.len()).unwrap());
        assert_eq!(json.with_values(change).unwrap().as_str(), r#"{"a" : 3, "b":{ "a":"x" }, "\u0061":3 }"#);
        assert_eq!(json.with_values(|_, _| None), None);
        assert_eq!(Json::parse("[1]").unwrap().with_values(change), None);
    }

    #[test]
    fn a_part_of_another_text_is_copied() {
        let text = Arc::new(String::from("[1,2]"));
        let other = RawValue::from_string("[3]".into()).unwrap();
        assert_eq!(Json::part_of(&text, &other).as_str(), "[3]");
    }

    #[test]
    fn deep_nesting_is_stored_as_text_and_rejected_as_a_tree() {
        let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
        let json = Json::parse(deep.clone()).unwrap();
        assert_eq!(json.as_str(), deep);
        assert!(json.to_value().is_err());
    }
}
