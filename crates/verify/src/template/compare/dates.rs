//! Comparisons of dates and times. A text that is not a date is a wrong answer; a value that is not a text is unknown.

use serde_json::Value;

use super::super::check::{DateRange, DateTolerance, TimeUnit};
use super::super::date::DateTime;
use super::{Comparison, Unknown, shown, text};
use crate::problem::quoted;

pub(super) fn on_day(
    parse: impl Fn(&str) -> Option<DateTime>,
    value: &Value,
    truth: &Value,
) -> Result<Comparison, Unknown> {
    let expected = text(truth)?;
    let expected = parse(&expected).ok_or_else(|| not_a_date(&expected))?;
    let found = text(value)?;
    Ok(match parse(&found) {
        Some(found) => Comparison::binary(found.day == expected.day, || unequal(value, truth)),
        None => Comparison::binary(false, || not_a_date(&found)),
    })
}

pub(super) fn tolerance(parameters: &DateTolerance, value: &Value, truth: &Value) -> Result<Comparison, Unknown> {
    let seconds = match parameters.unit {
        TimeUnit::Days => 86_400,
        TimeUnit::Hours => 3_600,
        TimeUnit::Minutes => 60,
    };
    let tolerance = u64::from(parameters.tolerance) * seconds;
    let expected = instant(&text(truth)?)?;
    let found = text(value)?;
    Ok(match instant(&found) {
        Ok(found) => Comparison::binary(found.abs_diff(expected) <= tolerance, || unequal(value, truth)),
        Err(reason) => Comparison::binary(false, || reason),
    })
}

pub(super) fn range(parameters: &DateRange, value: &Value) -> Result<Comparison, Unknown> {
    let bound = |text: &Option<String>| text.as_deref().map(instant).transpose();
    let (min, max) = (bound(&parameters.min)?, bound(&parameters.max)?);
    let found = text(value)?;
    Ok(match instant(&found) {
        Ok(found) => {
            let inside = min.is_none_or(|min| found >= min) && max.is_none_or(|max| found <= max);
            Comparison::binary(inside, || format!("{} is out of range", shown(value)))
        }
        Err(reason) => Comparison::binary(false, || reason),
    })
}

fn instant(text: &str) -> Result<i64, Unknown> {
    DateTime::parse(text).map(DateTime::instant).ok_or_else(|| not_a_date(text))
}

fn not_a_date(text: &str) -> Unknown {
    format!("{} is not a date", quoted(text))
}

fn unequal(value: &Value, truth: &Value) -> String {
    format!("found {}, expected {}", shown(value), shown(truth))
}
