//! Templates: typed fields that a judge fills, and the checks that compare them with the truth. Pure functions, no I/O.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The fields of an answer, and the rule that decides from their checks whether it passed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// The fields, in the order of the file.
    pub fields: Vec<Field>,
    /// Which fields must pass. `None` requires all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass: Option<Strategy>,
}

/// One field of a template.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// Name of the field, unique in its template.
    pub name: String,
    /// The type of the value that the judge extracts.
    #[serde(rename = "type")]
    pub kind: FieldType,
    /// What the field means, for the judge.
    pub description: String,
    /// How to find the value in an answer, for the judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extraction_hint: Option<String>,
    /// The expected value. The judge never sees it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub truth: Value,
    /// How the extracted value is compared with the expected one.
    pub check: Check,
    /// Share of the field in the granular score.
    #[serde(default = "default_weight")]
    pub weight: f64,
}

/// The types of fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldType {
    /// `true` or `false`.
    Bool,
    /// Text.
    Str,
    /// An integer.
    Int,
    /// A number.
    Float,
    /// A list of texts.
    ListStr,
    /// One of the given texts.
    Literal(Vec<String>),
    /// A date, `YYYY-MM-DD`.
    Date,
}

/// A comparison of an extracted value with the expected one, by its name in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Both are the same truth value.
    BooleanMatch,
}

/// Which fields must pass for the answer to pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// All of them.
    AllOf(Vec<Strategy>),
    /// At least one of them.
    AnyOf(Vec<Strategy>),
    /// At least `n` of them.
    AtLeastN {
        /// The minimum number.
        n: usize,
        /// The candidates.
        of: Vec<Strategy>,
    },
    /// The field with this name.
    #[serde(untagged)]
    Field(String),
}

/// The result of one field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldResult {
    /// Name of the field.
    pub name: String,
    /// Whether the check passed. `None` if it could not be made.
    pub passed: Option<bool>,
    /// Credit from 0 to 1. `None` if the check could not be made.
    pub score: Option<f64>,
    /// The value that the judge extracted; absent for checks of the response itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extracted: Option<Value>,
    /// The expected value.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub truth: Value,
    /// Why the check failed or could not be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The result of a template.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TemplateResult {
    /// Whether the strategy is satisfied. `None` if checks that could not be made decide it.
    pub passed: Option<bool>,
    /// The weighted mean of the fields' scores, from 0 to 1.
    pub score: Option<f64>,
    /// The results of the fields, in order.
    pub fields: Vec<FieldResult>,
}

fn default_weight() -> f64 {
    1.0
}

impl Template {
    /// Returns the JSON Schema of what the judge extracts: without expected values, and without the fields that are
    /// checked on the response itself. `None` if the judge has nothing to extract.
    pub fn judge_schema(&self) -> Option<Value> {
        None
    }

    /// Compares the values that the judge extracted, and the response itself, with the truth.
    pub fn evaluate(&self, extracted: &Map<String, Value>, response: &str) -> TemplateResult {
        let _ = (extracted, response);
        TemplateResult { passed: None, score: None, fields: Vec::new() }
    }
}
