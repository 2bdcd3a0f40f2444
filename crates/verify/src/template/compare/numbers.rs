//! Comparisons of numbers, with partial credit for those that grade.

use serde_json::Value;

use super::super::check::{
    Decay, Direction, DistanceMode, NumericBound, NumericGraded, NumericRange, NumericRangeGraded,
    NumericThresholdGraded, NumericTolerance,
};
use super::{Comparison, Unknown, shown};

pub(super) fn exact(value: &Value, truth: &Value) -> Result<Comparison, Unknown> {
    // Integers beyond 2^53 are equal only if all their digits are.
    let is_equal = match (integer(value), integer(truth)) {
        (Some(value), Some(truth)) => value == truth,
        _ => is_same(number(value)?, number(truth)?),
    };
    Ok(Comparison::binary(is_equal, || unequal(value, truth)))
}

pub(super) fn tolerance(parameters: &NumericTolerance, value: &Value, truth: &Value) -> Result<Comparison, Unknown> {
    let distance = distance(parameters.mode, number(value)?, number(truth)?);
    let passed = distance.is_some_and(|distance| distance <= parameters.tolerance);
    Ok(Comparison::binary(passed, || unequal(value, truth)))
}

pub(super) fn range(parameters: &NumericRange, value: &Value) -> Result<Comparison, Unknown> {
    let number = number(value)?;
    let NumericRange { min, max, exclusive_min, exclusive_max } = *parameters;
    let passed = min.is_none_or(|min| is_above(number, min, exclusive_min))
        && max.is_none_or(|max| is_below(number, max, exclusive_max));
    Ok(Comparison::binary(passed, || format!("{} is out of range", shown(value))))
}

pub(super) fn minimum(parameters: &NumericBound, value: &Value, truth: &Value) -> Result<Comparison, Unknown> {
    let passed = is_above(number(value)?, number(truth)?, parameters.exclusive);
    Ok(Comparison::binary(passed, || format!("{} is less than the minimum {}", shown(value), shown(truth))))
}

pub(super) fn maximum(parameters: &NumericBound, value: &Value, truth: &Value) -> Result<Comparison, Unknown> {
    let passed = is_below(number(value)?, number(truth)?, parameters.exclusive);
    Ok(Comparison::binary(passed, || format!("{} is more than the maximum {}", shown(value), shown(truth))))
}

pub(super) fn graded(parameters: &NumericGraded, value: &Value, truth: &Value) -> Result<Comparison, Unknown> {
    let inner = parameters.full_credit.unwrap_or(0.0);
    let gate = parameters.full_credit.unwrap_or(parameters.cutoff);
    let (passed, score) = match distance(parameters.mode, number(value)?, number(truth)?) {
        Some(distance) => (distance <= gate, credit(distance - inner, parameters.cutoff - inner, parameters.decay)),
        // Any distance from 0 is infinitely many times 0.
        None => (false, 0.0),
    };
    Ok(Comparison::graded(passed, score, || unequal(value, truth)))
}

pub(super) fn range_graded(parameters: &NumericRangeGraded, value: &Value) -> Result<Comparison, Unknown> {
    let number = number(value)?;
    let NumericRangeGraded { min, max, margin, mode, decay, exclusive_min, exclusive_max } = *parameters;
    let passed = is_above(number, min, exclusive_min) && is_below(number, max, exclusive_max);
    let width = match mode {
        DistanceMode::Absolute => margin,
        DistanceMode::Relative => margin * (max - min),
    };
    let gap = if number < min { min - number } else { number - max };
    Ok(Comparison::graded(passed, credit(gap, width, decay), || format!("{} is out of range", shown(value))))
}

pub(super) fn threshold_graded(
    parameters: &NumericThresholdGraded,
    value: &Value,
    truth: &Value,
) -> Result<Comparison, Unknown> {
    let (number, threshold) = (number(value)?, number(truth)?);
    let (passed, gap) = match parameters.direction {
        Direction::Max => (is_below(number, threshold, parameters.exclusive), number - threshold),
        Direction::Min => (is_above(number, threshold, parameters.exclusive), threshold - number),
    };
    let width = match parameters.mode {
        DistanceMode::Absolute => parameters.margin,
        DistanceMode::Relative => parameters.margin * threshold.abs(),
    };
    Ok(Comparison::graded(passed, credit(gap, width, parameters.decay), || unequal(value, truth)))
}

/// Returns the credit at a distance past the region of full credit, which falls to 0 over a width.
fn credit(gap: f64, width: f64, decay: Decay) -> f64 {
    if gap <= 0.0 {
        return 1.0;
    }
    if width <= 0.0 || gap >= width {
        return 0.0;
    }
    let ratio = gap / width;
    match decay {
        Decay::Linear => 1.0 - ratio,
        Decay::Quadratic => 1.0 - ratio * ratio,
    }
}

/// Returns the distance from the truth. `None` if it is relative to 0.
fn distance(mode: DistanceMode, value: f64, truth: f64) -> Option<f64> {
    let distance = (value - truth).abs();
    match mode {
        DistanceMode::Absolute => Some(distance),
        DistanceMode::Relative if is_same(distance, 0.0) => Some(0.0),
        DistanceMode::Relative if is_same(truth, 0.0) => None,
        DistanceMode::Relative => Some(distance / truth.abs()),
    }
}

#[expect(clippy::float_cmp, reason = "equality is what the check asks for; a tolerance is another check")]
fn is_same(one: f64, other: f64) -> bool {
    one == other
}

fn is_above(number: f64, min: f64, exclusive: bool) -> bool {
    if exclusive { number > min } else { number >= min }
}

fn is_below(number: f64, max: f64, exclusive: bool) -> bool {
    if exclusive { number < max } else { number <= max }
}

fn integer(value: &Value) -> Option<i128> {
    match value {
        Value::Number(number) => number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Reads a finite number, or a text that is one.
fn number(value: &Value) -> Result<f64, Unknown> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => parse_number(text),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    number.filter(|number| number.is_finite()).ok_or_else(|| format!("{} is not a number", shown(value)))
}

/// Parses a number in digits; names such as `inf` are not numbers.
pub(in crate::template) fn parse_number(text: &str) -> Option<f64> {
    let text = text.trim();
    let has_digits = text.bytes().any(|byte| byte.is_ascii_digit());
    if has_digits { text.parse().ok().filter(|number: &f64| number.is_finite()) } else { None }
}

fn unequal(value: &Value, truth: &Value) -> String {
    format!("found {}, expected {}", shown(value), shown(truth))
}
