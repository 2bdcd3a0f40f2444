//! JSON objects whose fields keep their original text.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use wharf_protocol::{Fields, Json};

/// A JSON object whose values are written back exactly as they were read.
#[derive(Debug, Default)]
pub(super) struct Object(pub(super) Vec<(String, Json)>);

impl Object {
    pub(super) fn read(json: &Json) -> Result<Self, String> {
        Ok(Self(Fields::of(json)?.entries().collect()))
    }

    pub(super) fn get(&self, key: &str) -> Option<&Json> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Removes every occurrence of a field and returns the last value.
    pub(super) fn take(&mut self, key: &str) -> Option<Json> {
        let value = self.get(key).cloned();
        self.0.retain(|(name, _)| name != key);
        value
    }

    /// Removes `_meta` and returns it without the fields that only this client may set.
    pub(super) fn split_meta(&mut self) -> Option<Self> {
        let mut meta = Self::read(&self.take("_meta")?).ok()?;
        meta.0.retain(|(name, _)| !name.starts_with("io.modelcontextprotocol/"));
        Some(meta)
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}
