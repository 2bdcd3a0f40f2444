//! Confidence intervals of proportions.

use serde::Serialize;

/// The quantile of the normal distribution for 95 %.
const Z: f64 = 1.959_963_984_540_054;

/// A 95 % confidence interval, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

/// Returns the Wilson interval of a proportion. `None` without observations.
///
/// Unlike the normal approximation it stays within 0 and 1, and is not empty when all or none passed.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub fn wilson(passed: u64, total: u64) -> Option<Interval> {
    if total == 0 {
        return None;
    }
    let n = total as f64;
    let share = passed as f64 / n;
    let z2 = Z * Z;
    let scale = 1.0 + z2 / n;
    let center = (share + z2 / (2.0 * n)) / scale;
    let margin = Z * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt() / scale;
    Some(Interval { low: (center - margin).max(0.0), high: (center + margin).min(1.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(passed: u64, total: u64, low: f64, high: f64) {
        let found = wilson(passed, total).unwrap();
        assert!((found.low - low).abs() < 5e-5 && (found.high - high).abs() < 5e-5, "{found:?}");
    }

    #[test]
    fn intervals_match_published_values() {
        // Values of R's `prop.test(…, correct = FALSE)`.
        check(8, 10, 0.4902, 0.9433);
        check(0, 10, 0.0, 0.2775);
        check(10, 10, 0.7225, 1.0);
        check(50, 100, 0.4038, 0.5962);
        assert_eq!(wilson(0, 0), None);
    }
}
