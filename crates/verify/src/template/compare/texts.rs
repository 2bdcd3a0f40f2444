//! Comparisons of texts.

use serde_json::Value;

use super::super::check::{Contains, ExactMatch, RegexMatch};
use super::super::normalize::normalized;
use super::{Comparison, Unknown, text, unequal};
use crate::problem::quoted;

pub(super) fn exact(parameters: &ExactMatch, value: &Value, truth: &Value) -> Result<Comparison, Unknown> {
    let (value, truth) = (text(value)?, text(truth)?);
    let is_equal = normalized(&parameters.normalize, &value) == normalized(&parameters.normalize, &truth);
    Ok(Comparison::binary(is_equal, || unequal(&value, &truth)))
}

pub(super) fn contains_any(parameters: &Contains, value: &Value) -> Result<Comparison, Unknown> {
    let missing = missing_substrings(parameters, value)?;
    let passed = missing.len() < parameters.substrings.len();
    Ok(Comparison::binary(passed, || format!("the text contains none of {}", list(&missing))))
}

pub(super) fn contains_all(parameters: &Contains, value: &Value) -> Result<Comparison, Unknown> {
    let missing = missing_substrings(parameters, value)?;
    Ok(Comparison::binary(missing.is_empty(), || format!("the text does not contain {}", list(&missing))))
}

fn missing_substrings<'a>(parameters: &'a Contains, value: &Value) -> Result<Vec<&'a String>, Unknown> {
    let text = normalized(&parameters.normalize, &text(value)?);
    let is_missing = |substring: &&String| !text.contains(&normalized(&parameters.normalize, substring));
    Ok(parameters.substrings.iter().filter(is_missing).collect())
}

fn list(texts: &[&String]) -> String {
    let shown: Vec<String> = texts.iter().take(5).map(|text| quoted(text)).collect();
    shown.join(", ")
}

pub(super) fn regex(parameters: &RegexMatch, value: &Value) -> Result<Comparison, Unknown> {
    let text = text(value)?;
    let passed = parameters.pattern.is_match(&text);
    Ok(Comparison::binary(passed, || {
        format!("{} does not match {}", quoted(&text), quoted(parameters.pattern.as_str()))
    }))
}
