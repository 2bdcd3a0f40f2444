//! Templates: typed fields that a judge fills, and the checks that compare them with the truth. Pure functions, no I/O.

mod check;
mod compare;
mod date;
mod judgment;
mod normalize;
pub(crate) mod notation;
mod strategy;
mod validate;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use check::{
    Check, Contains, DateMatch, DateRange, DateTolerance, Decay, Direction, DistanceMode, ExactMatch, LengthUnit,
    NumericBound, NumericGraded, NumericRange, NumericRangeGraded, NumericThresholdGraded, NumericTolerance,
    RegexMatch, SemanticMatch, SetContainment, SetMode, TimeUnit, TraceContains, TraceLength, TraceRegex,
};
pub(crate) use compare::compare_value_of;
pub use date::{DateFormat, InvalidDateFormat};
pub use judgment::InvalidJudgment;
pub use normalize::Normalizer;
pub use strategy::Strategy;
pub use validate::InvalidTemplate;
pub(crate) use validate::{comparison_findings, is_identifier};

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
    /// The type of the value that the judge extracts. Checks of the response itself are `bool`.
    #[serde(rename = "type", default = "default_type")]
    pub kind: FieldType,
    /// What the field means, for the judge.
    #[serde(default, skip_serializing_if = "String::is_empty")]
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
    /// The cosine similarity of value and truth, if their meanings were compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub similarity: Option<f64>,
    /// Why the judge let the field pass although its check failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overruled: Option<String>,
}

/// The result of a template.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TemplateResult {
    /// Whether the strategy is satisfied. `None` if checks that could not be made decide it.
    pub passed: Option<bool>,
    /// The weighted mean of the fields' scores, from 0 to 1. With `any_of` only the best field counts, with `at_least_n`
    /// the best `n`.
    pub score: Option<f64>,
    /// The results of the fields, in order.
    pub fields: Vec<FieldResult>,
}

fn default_weight() -> f64 {
    1.0
}

fn default_type() -> FieldType {
    FieldType::Bool
}

impl FieldType {
    /// Returns the name of the type in files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Str => "str",
            Self::Int => "int",
            Self::Float => "float",
            Self::ListStr => "list_str",
            Self::Literal(_) => "literal",
            Self::Date => "date",
        }
    }
}

impl Template {
    /// Returns whether a judge must extract values.
    pub fn needs_judge(&self) -> bool {
        self.judged_fields().next().is_some()
    }

    /// Returns the fields that the judge fills: those that are not checked on the response itself.
    pub fn judged_fields(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|field| !field.check.is_on_response())
    }

    /// Compares the values that the judge extracted, and the response itself, with the truth.
    pub fn evaluate(&self, extracted: &Map<String, Value>, response: &str) -> TemplateResult {
        let fields: Vec<FieldResult> = self
            .fields
            .iter()
            .map(|field| {
                let value = if field.check.is_on_response() { None } else { extracted.get(&field.name) };
                let comparison = compare::compare(field, value, response);
                FieldResult {
                    name: field.name.clone(),
                    passed: comparison.passed,
                    score: comparison.score,
                    extracted: value.cloned(),
                    truth: field.truth.clone(),
                    reason: comparison.reason,
                    similarity: None,
                    overruled: None,
                }
            })
            .collect();
        self.conclude(fields)
    }

    /// Returns the result of a template with these results of its fields.
    pub(crate) fn conclude(&self, fields: Vec<FieldResult>) -> TemplateResult {
        let results: BTreeMap<&str, Option<bool>> =
            fields.iter().map(|field| (field.name.as_str(), field.passed)).collect();
        let all = || Strategy::AllOf(self.fields.iter().map(|field| Strategy::Field(field.name.clone())).collect());
        let passed = self.pass.clone().unwrap_or_else(all).decide(&results);
        let score = strategy::granular_score(self.pass.as_ref(), &self.fields, &fields);
        TemplateResult { passed, score, fields }
    }
}
