//! Comparisons of lists of texts.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::check::{ExactMatch, SetContainment, SetMode};
use super::super::normalize::normalized;
use super::{Comparison, Unknown, shown, text};

pub(super) fn set_containment(
    parameters: &SetContainment,
    value: &Value,
    truth: &Value,
) -> Result<Comparison, Unknown> {
    let found: BTreeSet<String> = items(value)?.into_iter().collect();
    let expected: BTreeSet<String> = items(truth)?.into_iter().collect();
    let passed = match parameters.mode {
        SetMode::Exact => found == expected,
        SetMode::Subset => found.is_subset(&expected),
        SetMode::Superset => found.is_superset(&expected),
        SetMode::Overlap => found.intersection(&expected).count() >= parameters.min_overlap.unwrap_or(1),
    };
    Ok(Comparison::binary(passed, || unequal(value, truth)))
}

pub(super) fn ordered(parameters: &ExactMatch, value: &Value, truth: &Value) -> Result<Comparison, Unknown> {
    let normalize = |value: &Value| -> Result<Vec<String>, Unknown> {
        Ok(items(value)?.iter().map(|item| normalized(&parameters.normalize, item)).collect())
    };
    Ok(Comparison::binary(normalize(value)? == normalize(truth)?, || unequal(value, truth)))
}

fn items(value: &Value) -> Result<Vec<String>, Unknown> {
    match value {
        Value::Array(items) => items.iter().map(text).collect(),
        other => Err(format!("{} is not a list", shown(other))),
    }
}

fn unequal(value: &Value, truth: &Value) -> String {
    format!("found {}, expected {}", shown(value), shown(truth))
}
