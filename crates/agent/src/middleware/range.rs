//! Numbers of settings that must be in a range. A value outside of it is an error where the file is read.

use std::fmt::Display;
use std::ops::RangeBounds;

use serde::de::{Deserialize, Deserializer, Error};

/// Reads a number that must be in `range`.
fn within<'de, D, N>(deserializer: D, range: impl RangeBounds<N>, expected: &str) -> Result<N, D::Error>
where
    D: Deserializer<'de>,
    N: Deserialize<'de> + PartialOrd + Display,
{
    let number = N::deserialize(deserializer)?;
    if range.contains(&number) {
        return Ok(number);
    }
    Err(D::Error::custom(format!("invalid value {number}: expected {expected}")))
}

/// Reads a whole number that must not be 0.
pub(super) fn at_least_one<'de, D, N>(deserializer: D) -> Result<N, D::Error>
where
    D: Deserializer<'de>,
    N: Deserialize<'de> + PartialOrd + Display + From<u8>,
{
    within(deserializer, N::from(1).., "a whole number of at least 1")
}

/// Reads a whole number that must not be 0, or `null`.
pub(super) fn at_least_one_or_null<'de, D, N>(deserializer: D) -> Result<Option<N>, D::Error>
where
    D: Deserializer<'de>,
    N: Deserialize<'de> + PartialOrd + Display + From<u8>,
{
    match Option::<N>::deserialize(deserializer)? {
        Some(number) if number < N::from(1) => {
            Err(D::Error::custom(format!("invalid value {number}: expected a whole number of at least 1, or null")))
        }
        number => Ok(number),
    }
}

/// Reads a part of a whole.
pub(super) fn fraction<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    within(deserializer, 0.0..=1.0, "a number from 0 to 1")
}

/// Reads a duration in seconds, or a factor, which must not be negative.
pub(super) fn not_negative<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    within(deserializer, 0.0..=f64::MAX, "a number of at least 0")
}

/// Reads an amount that must not be negative, or `null`.
pub(super) fn not_negative_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    match Option::<f64>::deserialize(deserializer)? {
        Some(number) if !(0.0..=f64::MAX).contains(&number) => {
            Err(D::Error::custom(format!("invalid value {number}: expected a number of at least 0, or null")))
        }
        number => Ok(number),
    }
}

/// Reads a factor that must not shorten a delay.
pub(super) fn growth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    within(deserializer, 1.0..=f64::MAX, "a number of at least 1")
}
