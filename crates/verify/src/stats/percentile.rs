//! Percentiles.

use super::number;

/// Returns a percentile of sorted values, from 0 to 100, with linear interpolation between neighbors. `None` without
/// values.
pub fn percentile(sorted: &[f64], percent: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = number(last) * (percent / 100.0).clamp(0.0, 1.0);
    let below = position.floor();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the last index")]
    let index = below as usize;
    let next = sorted[(index + 1).min(last)];
    Some(sorted[index] + (next - sorted[index]) * (position - below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_interpolate() {
        let values = [10.0, 20.0, 30.0, 40.0];
        for (percent, expected) in [(0.0, 10.0), (50.0, 25.0), (100.0, 40.0), (25.0, 17.5), (150.0, 40.0), (-1.0, 10.0)]
        {
            assert_eq!(percentile(&values, percent), Some(expected), "{percent}");
        }
        assert_eq!(percentile(&[7.0], 95.0), Some(7.0));
        assert_eq!(percentile(&[], 50.0), None);
    }
}
