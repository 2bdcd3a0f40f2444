//! The checkpoint file: JSON-LD with the vocabulary of schema.org. Keys that are not read here have no meaning for Wharf.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Checkpoint {
    #[serde(rename = "@context", default)]
    pub(super) context: Value,
    #[serde(rename = "@type", default)]
    pub(super) kind: Option<String>,
    #[serde(rename = "@id", default)]
    pub(super) id: Option<String>,
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: Option<String>,
    #[serde(default)]
    pub(super) version: Option<String>,
    /// A name, or a person.
    #[serde(default)]
    pub(super) creator: Value,
    #[serde(default)]
    pub(super) date_created: String,
    #[serde(default)]
    pub(super) date_modified: String,
    /// Traits of all questions.
    #[serde(default)]
    pub(super) rating: Option<Vec<Rating>>,
    pub(super) data_feed_element: Vec<Item>,
    /// Scenarios. They are read one by one, so that an invalid one does not spoil the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) has_part: Option<Vec<Value>>,
    #[serde(default)]
    pub(super) additional_property: Option<Vec<Property>>,
}

/// A question with its dates.
#[expect(clippy::struct_field_names, reason = "the keys of the file")]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Item {
    #[serde(rename = "@type", default)]
    pub(super) kind: Option<String>,
    #[serde(rename = "@id", default)]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) date_created: String,
    #[serde(default)]
    pub(super) date_modified: String,
    /// Keywords of older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) keywords: Option<Vec<String>>,
    pub(super) item: Question,
}

/// A question.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Question {
    #[serde(rename = "@type", default)]
    pub(super) kind: Option<String>,
    pub(super) text: String,
    pub(super) accepted_answer: Answer,
    #[serde(default)]
    pub(super) has_part: Option<SourceCode>,
    #[serde(default)]
    pub(super) rating: Option<Vec<Rating>>,
    #[serde(default)]
    pub(super) additional_property: Option<Vec<Property>>,
    #[serde(default)]
    pub(super) keywords: Option<Vec<String>>,
}

/// A reference answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    #[serde(rename = "@type", default)]
    pub(super) kind: Option<String>,
    pub(super) text: String,
}

/// A template.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SourceCode {
    #[serde(rename = "@type", default)]
    pub(super) kind: Option<String>,
    #[serde(default)]
    pub(super) name: String,
    pub(super) text: String,
    #[serde(default)]
    pub(super) programming_language: Option<String>,
}

/// A trait.
#[expect(clippy::struct_field_names, reason = "the keys of the file")]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rating {
    #[serde(rename = "@type", default)]
    pub(super) kind: Option<String>,
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: Option<String>,
    #[serde(default)]
    pub(super) best_rating: f64,
    #[serde(default)]
    pub(super) worst_rating: f64,
    #[serde(default)]
    pub(super) additional_type: String,
    #[serde(default)]
    pub(super) additional_property: Option<Vec<Property>>,
}

/// A further property.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Property {
    #[serde(rename = "@type", default)]
    pub(super) kind: Option<String>,
    pub(super) name: String,
    #[serde(default)]
    pub(super) value: Value,
}

impl Property {
    pub(super) fn new(name: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { kind: Some("PropertyValue".to_owned()), name: name.into(), value: value.into() }
    }
}

/// Returns properties by name. For a repeated name, the last one counts.
pub(super) fn properties(list: Option<&Vec<Property>>) -> Map<String, Value> {
    let properties = list.into_iter().flatten();
    properties.map(|property| (property.name.clone(), property.value.clone())).collect()
}

/// Returns a value that may be written as JSON in a text.
pub(super) fn unwrapped(value: Value) -> Value {
    match value {
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        other => other,
    }
}
