//! Comparison of an extracted value, or of the response, with the truth.
//!
//! A value of the wrong type cannot be compared: the result is unknown, with the reason, and never a guess.

mod dates;
mod lists;
pub(super) mod numbers;
mod texts;

use serde_json::Value;

use super::Field;
use super::check::{Check, LengthUnit, TraceLength, TraceRegex};
use crate::problem::{quoted, shown_json};

/// The result of one comparison.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Comparison {
    /// `None` if the comparison could not be made.
    pub(super) passed: Option<bool>,
    /// Credit from 0 to 1. `None` if the comparison could not be made.
    pub(super) score: Option<f64>,
    pub(super) reason: Option<String>,
}

impl Comparison {
    /// Returns a comparison without partial credit.
    fn binary(passed: bool, reason: impl FnOnce() -> String) -> Self {
        Self::graded(passed, if passed { 1.0 } else { 0.0 }, reason)
    }

    fn graded(passed: bool, score: f64, reason: impl FnOnce() -> String) -> Self {
        let score = score.clamp(0.0, 1.0);
        Self { passed: Some(passed), score: Some(score), reason: (!passed).then(reason) }
    }

    fn unknown(reason: impl Into<String>) -> Self {
        Self { passed: None, score: None, reason: Some(reason.into()) }
    }
}

/// Why a comparison could not be made.
type Unknown = String;

/// Compares the value of a field, or the response for a check of the response itself.
pub(super) fn compare(field: &Field, extracted: Option<&Value>, response: &str) -> Comparison {
    if field.check.is_on_response() {
        return on_response(&field.check, &field.truth, response);
    }
    let Some(value) = extracted.filter(|value| !value.is_null()) else {
        return Comparison::unknown("the judge found no value");
    };
    compare_value(&field.check, value, &field.truth).unwrap_or_else(Comparison::unknown)
}

/// Compares a value with the truth of a field, or the response for a check of the response itself. Returns whether the check
/// passed, if it could be made, and why it did not.
pub(crate) fn compare_value_of(field: &Field, value: Option<&Value>, response: &str) -> (Option<bool>, Option<String>) {
    let Comparison { passed, reason, .. } = compare(field, value, response);
    (passed, reason)
}

fn compare_value(check: &Check, value: &Value, truth: &Value) -> Result<Comparison, Unknown> {
    match check {
        Check::BooleanMatch => {
            let (value, truth) = (boolean(value)?, boolean(truth)?);
            Ok(Comparison::binary(value == truth, || format!("found {value}, expected {truth}")))
        }
        Check::ExactMatch(parameters) => texts::exact(parameters, value, truth),
        Check::ContainsAny(parameters) => texts::contains_any(parameters, value),
        Check::ContainsAll(parameters) => texts::contains_all(parameters, value),
        Check::RegexMatch(parameters) => texts::regex(parameters, value),
        Check::SemanticMatch(_) => Err("comparing meanings needs an embedding endpoint".to_owned()),
        Check::LiteralMatch => {
            let (value, truth) = (text(value)?, text(truth)?);
            Ok(Comparison::binary(value == truth, || unequal(&value, &truth)))
        }
        Check::NumericExact => numbers::exact(value, truth),
        Check::NumericTolerance(parameters) => numbers::tolerance(parameters, value, truth),
        Check::NumericRange(parameters) => numbers::range(parameters, value),
        Check::NumericMinimum(parameters) => numbers::minimum(parameters, value, truth),
        Check::NumericMaximum(parameters) => numbers::maximum(parameters, value, truth),
        Check::NumericGraded(parameters) => numbers::graded(parameters, value, truth),
        Check::NumericRangeGraded(parameters) => numbers::range_graded(parameters, value),
        Check::NumericThresholdGraded(parameters) => numbers::threshold_graded(parameters, value, truth),
        Check::SetContainment(parameters) => lists::set_containment(parameters, value, truth),
        Check::OrderedMatch(parameters) => lists::ordered(parameters, value, truth),
        Check::DateMatch(_) => dates::on_day(|text| check.parse_date(text), value, truth),
        Check::DateTolerance(parameters) => dates::tolerance(parameters, value, truth),
        Check::DateRange(parameters) => dates::range(parameters, value),
        Check::TraceRegex(_) | Check::TraceContains(_) | Check::TraceLength(_) => {
            Err("the check applies to the response".to_owned())
        }
    }
}

/// Checks the response itself. A truth of `false` expects the check to fail.
fn on_response(check: &Check, truth: &Value, response: &str) -> Comparison {
    let (holds, what) = match check {
        Check::TraceRegex(TraceRegex { pattern, count_min }) => {
            let count = count_min.unwrap_or(1);
            let what = format!("at least {count} matches of {}", quoted(pattern.as_str()));
            (pattern.matches_at_least(response, count), what)
        }
        Check::TraceContains(parameters) => {
            (response.contains(&parameters.substring), format!("the text {}", quoted(&parameters.substring)))
        }
        Check::TraceLength(TraceLength { min, max, unit }) => {
            let (length, unit) = match unit {
                LengthUnit::Chars => (response.chars().count(), "characters"),
                LengthUnit::Words => (response.split_whitespace().count(), "words"),
            };
            let holds = min.is_none_or(|min| length >= min) && max.is_none_or(|max| length <= max);
            (holds, format!("a length in the range, it has {length} {unit}"))
        }
        _ => return Comparison::unknown("the check does not apply to the response"),
    };
    let expected = !matches!(truth, Value::Bool(false));
    Comparison::binary(holds == expected, || {
        let verb = if holds { "has" } else { "does not have" };
        format!("the response {verb} {what}")
    })
}

/// Reads a truth value: a boolean, 0 or 1, or its usual names.
fn boolean(value: &Value) -> Result<bool, Unknown> {
    let known = match value {
        Value::Bool(value) => Some(*value),
        Value::Number(number) => match number.as_f64() {
            Some(0.0) => Some(false),
            Some(1.0) => Some(true),
            _ => None,
        },
        Value::String(text) => named_boolean(text),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    known.ok_or_else(|| format!("{} is not a boolean", shown(value)))
}

/// Reads the usual names of truth values.
pub(super) fn named_boolean(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "1" | "on" | "t" | "y" => Some(true),
        "false" | "no" | "0" | "off" | "f" | "n" => Some(false),
        _ => None,
    }
}

/// Reads a text; numbers and booleans are written out.
fn text(value: &Value) -> Result<String, Unknown> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => Err(format!("{} is not a text", shown(value))),
    }
}

fn unequal(value: &str, truth: &str) -> String {
    format!("found {}, expected {}", quoted(value), quoted(truth))
}

/// Shows a value in a reason, cut if it is long.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text).trim_matches('"').to_owned(),
        other => shown_json(other),
    }
}
