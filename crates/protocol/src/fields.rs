//! The fields of one JSON object, looked at one by one, so that a wrong type in one of them spoils only that one.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::Json;

/// The most items that are read of one array.
pub(crate) const MOST_ITEMS: usize = 50_000;

/// The fields of an object, in the order they were written. Where a key stands twice, the last one counts.
pub struct Fields<'a> {
    of: &'a Json,
    entries: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> Fields<'a> {
    /// Reads `json` as an object, or says what it is instead.
    pub fn of(json: &'a Json) -> Result<Self, String> {
        if !json.is_object() {
            return Err(format!("is {}, not an object", kind_of(json.as_str())));
        }
        let mut deserializer = serde_json::Deserializer::from_str(json.as_str());
        let entries = deserializer.deserialize_map(Entries).map_err(|error| error.to_string())?;
        Ok(Self { of: json, entries })
    }

    /// A field as it was written, `null` counting as absent.
    pub fn raw(&self, key: &str) -> Option<&'a RawValue> {
        self.entries.iter().rev().find(|(name, _)| name == key).map(|(_, raw)| *raw).filter(|raw| raw.get() != "null")
    }

    /// All fields, in their order.
    pub fn entries(&self) -> impl Iterator<Item = (String, Json)> {
        self.entries.iter().map(|(name, raw)| (name.clone().into_owned(), self.of.slice(raw)))
    }

    /// A field as a slice of the object's own text.
    pub fn json(&self, key: &str) -> Option<Json> {
        self.raw(key).map(|raw| self.of.slice(raw))
    }

    /// A string, `None` where it is absent, an error where it is something else.
    pub fn text(&self, key: &str) -> Result<Option<String>, String> {
        self.typed(key, "a string")
    }

    /// A string that has to be there.
    pub fn required_text(&self, key: &str) -> Result<String, String> {
        self.text(key)?.ok_or_else(|| format!("has no `{key}`"))
    }

    /// A boolean, `None` where it is absent, an error where it is something else.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, String> {
        self.typed(key, "true or false")
    }

    /// A number, `None` where it is absent, an error where it is something else.
    pub fn number(&self, key: &str) -> Result<Option<f64>, String> {
        self.typed(key, "a number")
    }

    /// An object as a slice, `None` where it is absent, an error where it is something else.
    pub fn object(&self, key: &str) -> Result<Option<Json>, String> {
        match self.json(key) {
            Some(json) if !json.is_object() => Err(wrong(key, "an object", json.as_str())),
            json => Ok(json),
        }
    }

    /// The items of an array as slices, `None` where it is absent, an error where it is something else.
    pub fn items(&self, key: &str) -> Result<Option<Vec<Json>>, String> {
        let Some(raw) = self.raw(key) else { return Ok(None) };
        if !raw.get().starts_with('[') {
            return Err(wrong(key, "an array", raw.get()));
        }
        let Items(items) =
            serde_json::from_str(raw.get()).map_err(|error| format!("`{key}` cannot be read: {error}"))?;
        Ok(Some(items.into_iter().map(|item| self.of.slice(item)).collect()))
    }

    fn typed<T: serde::de::DeserializeOwned>(&self, key: &str, expected: &str) -> Result<Option<T>, String> {
        let Some(raw) = self.raw(key) else { return Ok(None) };
        serde_json::from_str(raw.get()).map(Some).map_err(|error| {
            // A string can be a string and still be unreadable, for example with half a surrogate pair in it.
            if kind_of(raw.get()) == expected {
                format!("`{key}` cannot be read: {error}")
            } else {
                wrong(key, expected, raw.get())
            }
        })
    }
}

/// The items of an array, each as it was written, and at most 50,000 of them: a text can hold millions, and each costs
/// memory.
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
                    if items.len() == MOST_ITEMS {
                        return Err(A::Error::custom(format_args!("it has more than {MOST_ITEMS} items")));
                    }
                    items.push(item);
                }
                Ok(Items(items))
            }
        }
        deserializer.deserialize_seq(Array)
    }
}

fn wrong(key: &str, expected: &str, text: &str) -> String {
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

/// A key that borrows where it can; `Cow` alone always copies.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_fails_alone_and_says_what_it_is_instead() {
        let json = Json::parse(r#"{"name":"x","age":"old","ok":1,"list":{},"bad":"\ud800"}"#).unwrap();
        let fields = Fields::of(&json).unwrap();
        assert_eq!(fields.text("name").unwrap().as_deref(), Some("x"));
        assert_eq!(fields.text("absent").unwrap(), None);
        assert_eq!(fields.number("age").unwrap_err(), "`age` is a string, not a number");
        assert_eq!(fields.flag("ok").unwrap_err(), "`ok` is a number, not true or false");
        assert_eq!(fields.items("list").unwrap_err(), "`list` is an object, not an array");
        assert!(fields.text("bad").unwrap_err().starts_with("`bad` cannot be read"));
    }

    #[test]
    fn an_array_of_millions_is_refused_before_it_costs_memory() {
        let json = Json::parse(format!(r#"{{"list":[1{}]}}"#, ",1".repeat(1_000_000))).unwrap();
        let refusal = Fields::of(&json).unwrap().items("list").unwrap_err();
        assert!(refusal.starts_with("`list` cannot be read: it has more than 50000 items"), "{refusal}");
    }

    #[test]
    fn of_two_equal_keys_the_last_one_counts() {
        let json = Json::parse(r#"{"a":1,"a":2}"#).unwrap();
        assert_eq!(Fields::of(&json).unwrap().number("a").unwrap(), Some(2.0));
    }
}
