//! The fields of a JSON object, parsed one by one, so that a wrong type affects one field only.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::Json;

/// Maximum number of items that are read from one array.
pub(crate) const MAX_ITEMS: usize = 50_000;

/// The fields of an object, in their original order. The last one counts if a key occurs twice.
pub struct Fields<'a> {
    object: &'a Json,
    entries: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> Fields<'a> {
    /// Reads `json` as an object. The error names the actual type.
    pub fn of(json: &'a Json) -> Result<Self, String> {
        if !json.is_object() {
            return Err(format!("is {}, not an object", kind_of(json.as_str())));
        }
        let mut deserializer = serde_json::Deserializer::from_str(json.as_str());
        let entries = deserializer.deserialize_map(Entries).map_err(|error| error.to_string())?;
        Ok(Self { object: json, entries })
    }

    /// Returns a field as written. `null` counts as absent.
    pub fn raw(&self, key: &str) -> Option<&'a RawValue> {
        self.entries.iter().rev().find(|(name, _)| name == key).map(|(_, raw)| *raw).filter(|raw| raw.get() != "null")
    }

    /// Returns all fields, in order.
    pub fn entries(&self) -> impl Iterator<Item = (String, Json)> {
        self.entries.iter().map(|(name, raw)| (name.clone().into_owned(), self.object.slice(raw)))
    }

    /// Returns a field as a slice of the object's text.
    pub fn json(&self, key: &str) -> Option<Json> {
        self.raw(key).map(|raw| self.object.slice(raw))
    }

    /// Returns a string, `None` if it is absent, or an error if it has another type.
    pub fn text(&self, key: &str) -> Result<Option<String>, String> {
        self.typed(key, "a string")
    }

    /// Returns a required string.
    pub fn required_text(&self, key: &str) -> Result<String, String> {
        self.text(key)?.ok_or_else(|| format!("has no `{key}`"))
    }

    /// Returns a boolean, `None` if it is absent, or an error if it has another type.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, String> {
        self.typed(key, "true or false")
    }

    /// Returns a number, `None` if it is absent, or an error if it has another type.
    pub fn number(&self, key: &str) -> Result<Option<f64>, String> {
        self.typed(key, "a number")
    }

    /// Returns an object as a slice, `None` if it is absent, or an error if it has another type.
    pub fn object(&self, key: &str) -> Result<Option<Json>, String> {
        match self.json(key) {
            Some(json) if !json.is_object() => Err(wrong_type(key, "an object", json.as_str())),
            json => Ok(json),
        }
    }

    /// Returns the items of an array as slices, `None` if it is absent, or an error if it has another type.
    pub fn items(&self, key: &str) -> Result<Option<Vec<Json>>, String> {
        let Some(raw) = self.raw(key) else { return Ok(None) };
        if !raw.get().starts_with('[') {
            return Err(wrong_type(key, "an array", raw.get()));
        }
        let Items(items) = serde_json::from_str(raw.get()).map_err(|error| format!("`{key}` is invalid: {error}"))?;
        Ok(Some(items.into_iter().map(|item| self.object.slice(item)).collect()))
    }

    fn typed<T: serde::de::DeserializeOwned>(&self, key: &str, expected: &str) -> Result<Option<T>, String> {
        let Some(raw) = self.raw(key) else { return Ok(None) };
        serde_json::from_str(raw.get()).map(Some).map_err(|error| {
            // A string can have the right type and still be invalid, for example with half of a surrogate pair.
            if kind_of(raw.get()) == expected {
                format!("`{key}` is invalid: {error}")
            } else {
                wrong_type(key, expected, raw.get())
            }
        })
    }
}

/// The items of an array as written. Arrays of more than 50,000 items are rejected: a text can hold millions, and each
/// item costs memory.
pub struct Items<'a>(pub Vec<&'a RawValue>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for Items<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Array;
        impl<'de> Visitor<'de> for Array {
            type Value = Items<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Items<'de>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = array.next_element()? {
                    if items.len() == MAX_ITEMS {
                        return Err(A::Error::custom(format_args!("it has more than {MAX_ITEMS} items")));
                    }
                    items.push(item);
                }
                Ok(Items(items))
            }
        }
        deserializer.deserialize_seq(Array)
    }
}

fn wrong_type(key: &str, expected: &str, text: &str) -> String {
    format!("`{key}` is {}, not {expected}", kind_of(text))
}

fn kind_of(text: &str) -> &'static str {
    match text.as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "true or false",
        Some(b'n') => "null",
        _ => "a number",
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::with_capacity(map.size_hint().unwrap_or(4));
        while let Some(Key(key)) = map.next_key()? {
            entries.push((key, map.next_value()?));
        }
        Ok(entries)
    }
}

/// A key that is borrowed if possible. `Cow` alone always copies.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_type_affects_one_field_and_is_reported() {
        let json = Json::parse(r#"{"name":"x","age":"old","ok":1,"list":{},"bad":"\ud800"}"#).unwrap();
        let fields = Fields::of(&json).unwrap();
        assert_eq!(fields.text("name").unwrap().as_deref(), Some("x"));
        assert_eq!(fields.text("absent").unwrap(), None);
        assert_eq!(fields.number("age").unwrap_err(), "`age` is a string, not a number");
        assert_eq!(fields.flag("ok").unwrap_err(), "`ok` is a number, not true or false");
        assert_eq!(fields.items("list").unwrap_err(), "`list` is an object, not an array");
        assert!(fields.text("bad").unwrap_err().starts_with("`bad` is invalid"));
    }

    #[test]
    fn an_array_of_millions_is_rejected_before_it_costs_memory() {
        let json = Json::parse(format!(r#"{{"list":[1{}]}}"#, ",1".repeat(1_000_000))).unwrap();
        let error = Fields::of(&json).unwrap().items("list").unwrap_err();
        assert!(error.starts_with("`list` is invalid: it has more than 50000 items"), "{error}");
    }

    #[test]
    fn the_last_of_two_equal_keys_counts() {
        let json = Json::parse(r#"{"a":1,"a":2}"#).unwrap();
        assert_eq!(Fields::of(&json).unwrap().number("a").unwrap(), Some(2.0));
    }
}
