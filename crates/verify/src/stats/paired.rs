//! Comparison of two models over the same questions.

use serde::Serialize;
use statrs::distribution::{Binomial, DiscreteCDF as _};

use super::number;
use super::percentile::percentile;

/// Resamples of a bootstrap.
const RESAMPLES: usize = 2_000;
/// Seed of the bootstrap: the same results give the same interval.
const SEED: u64 = 0x5eed_cafe;

/// The pairs in which two models differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Discordance {
    /// Pairs that only the first model passed.
    pub only_first: usize,
    /// Pairs that only the second model passed.
    pub only_second: usize,
}

/// A mean difference with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DifferenceEstimate {
    /// The value.
    pub value: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

/// Returns the two-sided p-value of McNemar's exact test: how likely the models differ at least this much by chance, if
/// both are equally good. 1 if no pair differs.
pub fn mcnemar(pairs: Discordance) -> f64 {
    let discordant = pairs.only_first + pairs.only_second;
    let fewer = pairs.only_first.min(pairs.only_second);
    let Ok(chance) = Binomial::new(0.5, discordant as u64) else { return 1.0 };
    (2.0 * chance.cdf(fewer as u64)).min(1.0)
}

/// Returns the mean difference of paired values, second minus first, with a percentile bootstrap interval. `None` without
/// pairs, or if a value is not a number.
pub fn bootstrap_mean_difference(pairs: &[(f64, f64)]) -> Option<DifferenceEstimate> {
    let differences: Vec<f64> = pairs.iter().map(|(first, second)| second - first).collect();
    if differences.is_empty() || differences.iter().any(|difference| !difference.is_finite()) {
        return None;
    }
    let count = differences.len();
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| (0..count).map(|_| differences[random.usize(..count)]).sum::<f64>() / number(count))
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    Some(DifferenceEstimate {
        value: differences.iter().sum::<f64>() / number(count),
        low: percentile(&means, 2.5)?,
        high: percentile(&means, 97.5)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(only_first: usize, only_second: usize) -> f64 {
        mcnemar(Discordance { only_first, only_second })
    }

    #[test]
    fn mcnemars_test_matches_the_binomial_distribution() {
        // R: binom.test(1, 9)$p.value = 0.0390625; binom.test(2, 12) = 0.03857422.
        assert!((p(1, 8) - 0.039_062_5).abs() < 1e-9);
        assert!((p(10, 2) - 0.038_574_218_75).abs() < 1e-9);
        assert_eq!(p(1, 8).to_bits(), p(8, 1).to_bits());
        assert!((p(5, 5) - 1.0).abs() < 1e-9);
        assert!((p(0, 0) - 1.0).abs() < 1e-9);
        assert!((p(0, 5) - 0.0625).abs() < 1e-9, "five differences are too few for significance");
        assert!(p(400, 600) < 1e-9);
    }

    #[test]
    fn a_constant_difference_has_a_narrow_interval() {
        let estimate = bootstrap_mean_difference(&[(1.0, 3.0), (2.0, 4.0), (5.0, 7.0)]).unwrap();
        assert_eq!(estimate, DifferenceEstimate { value: 2.0, low: 2.0, high: 2.0 });
    }

    #[test]
    fn the_interval_holds_the_difference_and_is_reproducible() {
        let pairs: Vec<(f64, f64)> = (0..200).map(|i| (f64::from(i % 7), f64::from(i % 5) + 1.0)).collect();
        let estimate = bootstrap_mean_difference(&pairs).unwrap();
        assert!(estimate.low < estimate.value && estimate.value < estimate.high, "{estimate:?}");
        assert!(estimate.high - estimate.low < 1.0, "{estimate:?}");
        assert_eq!(bootstrap_mean_difference(&pairs), Some(estimate));
        assert_eq!(bootstrap_mean_difference(&[]), None);
        assert_eq!(bootstrap_mean_difference(&[(f64::NAN, 1.0)]), None);
    }
}
