//! Delays that grow with each failure, and random jitter for them.
//!
//! Clients that failed together would otherwise retry together.

use std::time::Duration;

/// The range of factors that a delay is multiplied with at random.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter {
    /// The smallest factor.
    pub min: f64,
    /// The largest factor.
    pub max: f64,
}

impl Jitter {
    /// Leaves delays as they are.
    pub const NONE: Self = Self { min: 1.0, max: 1.0 };
    /// Lengthens delays by up to a quarter. A server that names the earliest time for a retry is respected.
    pub const LONGER: Self = Self { min: 1.0, max: 1.25 };
    /// Lengthens or shortens delays by up to a quarter.
    pub const AROUND: Self = Self { min: 0.75, max: 1.25 };

    /// Returns the delay with jitter. `fraction`, between 0 and 1, selects the factor from the range.
    #[must_use]
    pub fn apply(self, delay: Duration, fraction: f64) -> Duration {
        let factor = self.min + (self.max - self.min) * fraction;
        // Adding the difference keeps the precision of the delay, and never shortens it by rounding.
        if factor >= 1.0 {
            delay.saturating_add(scale(delay, factor - 1.0))
        } else {
            delay.saturating_sub(scale(delay, 1.0 - factor))
        }
    }

    /// Returns the delay with a random factor of the range.
    #[must_use]
    pub fn apply_random(self, delay: Duration) -> Duration {
        self.apply(delay, fastrand::f64())
    }
}

/// Returns the delay lengthened at random by up to a quarter.
#[must_use]
pub fn jittered(delay: Duration) -> Duration {
    Jitter::LONGER.apply_random(delay)
}

/// Delays between the attempts of an operation that keeps failing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The delay after the first failure.
    pub initial: Duration,
    /// How much longer each delay is than the one before.
    pub factor: f64,
    /// The longest delay, before jitter.
    pub max: Duration,
    /// The jitter of each delay.
    pub jitter: Jitter,
}

impl Backoff {
    /// Returns the delay after the given number of failures in a row, starting at 1, with random jitter.
    #[must_use]
    pub fn delay(&self, failures: u32) -> Duration {
        self.delay_at(failures, fastrand::f64())
    }

    /// Returns the delay after the given number of failures in a row. `fraction`, between 0 and 1, replaces the random
    /// number.
    #[must_use]
    pub fn delay_at(&self, failures: u32, fraction: f64) -> Duration {
        let exponent = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
        let growth = self.factor.max(0.0).powi(exponent);
        self.jitter.apply(scale(self.initial, growth).min(self.max), fraction)
    }
}

/// Multiplies without a panic: what does not fit is the longest duration.
fn scale(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff =
        Backoff { initial: Duration::from_secs(2), factor: 2.0, max: Duration::from_secs(10), jitter: Jitter::AROUND };

    #[test]
    fn delays_double_up_to_the_maximum() {
        let delays: Vec<u128> = (0..=5).map(|failures| BACKOFF.delay_at(failures, 0.5).as_millis()).collect();
        assert_eq!(delays, [2000, 2000, 4000, 8000, 10_000, 10_000]);
        assert_eq!(BACKOFF.delay_at(u32::MAX, 0.5).as_millis(), 10_000);
    }

    #[test]
    fn the_fraction_selects_the_factor_from_the_range() {
        let delays = |jitter: Jitter| {
            [0.0, 0.5, 1.0].map(|fraction| Backoff { jitter, ..BACKOFF }.delay_at(1, fraction).as_millis())
        };
        assert_eq!(delays(Jitter::AROUND), [1500, 2000, 2500]);
        assert_eq!(delays(Jitter::LONGER), [2000, 2250, 2500]);
        assert_eq!(delays(Jitter::NONE), [2000, 2000, 2000]);
        assert_eq!(delays(Jitter { min: 0.9, max: 1.0 }), [1800, 1900, 2000]);
    }

    #[test]
    fn random_jitter_stays_in_its_range_and_varies() {
        let delay = Duration::from_secs(100);
        let drawn: Vec<Duration> = (0..50).map(|_| jittered(delay)).collect();
        assert!(drawn.iter().all(|drawn| (delay..=delay * 5 / 4).contains(drawn)));
        assert!(drawn.iter().any(|one| *one != drawn[0]));
        assert!((0..50).all(|_| (1500..=2500).contains(&BACKOFF.delay(1).as_millis())));
    }

    #[test]
    fn extreme_values_do_not_panic() {
        assert_eq!(jittered(Duration::ZERO), Duration::ZERO);
        assert_eq!(jittered(Duration::MAX), Duration::MAX);
        for factor in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            for initial in [Duration::ZERO, Duration::from_secs(1), Duration::MAX] {
                let backoff = Backoff { initial, factor, jitter: Jitter::NONE, ..BACKOFF };
                assert!(backoff.delay(u32::MAX) <= BACKOFF.max);
            }
        }
    }
}
