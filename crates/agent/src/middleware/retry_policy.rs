//! `retry_policy` of model files: separate retries for each kind of model error.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use wharf_io::{Backoff, Jitter};

use super::range::{growth, not_negative, not_negative_or_null};
use crate::ModelErrorKind;

/// Retries of model requests by kind of error. Missing kinds have their defaults; unknown keys are an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryPolicy {
    /// The provider is unreachable, or the connection broke.
    #[serde(deserialize_with = "category")]
    pub connection: CategoryRetry,
    /// The provider did not respond in time.
    #[serde(deserialize_with = "category")]
    pub timeout: CategoryRetry,
    /// Too many requests, or the provider is overloaded.
    #[serde(deserialize_with = "category")]
    pub rate_limit: CategoryRetry,
    /// The provider failed, or its response could not be parsed.
    #[serde(deserialize_with = "category")]
    pub server_error: CategoryRetry,
    /// Longer timeouts for the attempts after one that timed out.
    pub timeout_escalation: Option<TimeoutEscalation>,
}

/// Retries of one kind of error.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CategoryRetry {
    /// Maximum number of retries after the first attempt.
    pub max_attempts: u32,
    /// Maximum delay before the first retry, in seconds.
    pub backoff_min: f64,
    /// Maximum delay, in seconds.
    pub backoff_max: f64,
    /// Factor between two delays.
    pub backoff_multiplier: f64,
}

/// How the timeout of an attempt grows with every attempt that timed out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeoutEscalation {
    /// How it grows.
    pub strategy: EscalationStrategy,
    /// Seconds that are added each time, for `additive`.
    #[serde(default, deserialize_with = "not_negative")]
    pub increment: f64,
    /// Factor, for `multiplicative`.
    #[serde(default = "one", deserialize_with = "growth")]
    pub multiplier: f64,
    /// Maximum timeout in seconds. `linear` reaches it with the last attempt.
    #[serde(default, deserialize_with = "not_negative_or_null")]
    pub max_timeout: Option<f64>,
}

/// How a timeout grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EscalationStrategy {
    /// By the same number of seconds each time.
    Additive,
    /// By the same factor each time.
    Multiplicative,
    /// In equal steps up to the maximum.
    Linear,
}

fn one() -> f64 {
    1.0
}

impl Default for RetryPolicy {
    fn default() -> Self {
        let retry = |max_attempts, backoff_min, backoff_max| CategoryRetry {
            max_attempts,
            backoff_min,
            backoff_max,
            backoff_multiplier: 2.0,
        };
        Self {
            connection: retry(3, 1.0, 10.0),
            timeout: retry(3, 5.0, 30.0),
            rate_limit: retry(5, 5.0, 30.0),
            server_error: retry(2, 2.0, 15.0),
            timeout_escalation: None,
        }
    }
}

impl RetryPolicy {
    /// Returns the retries of a kind of error; `None` for errors that a retry does not help.
    pub(super) fn of(&self, kind: ModelErrorKind) -> Option<(usize, &CategoryRetry)> {
        Some(match kind {
            ModelErrorKind::Network => (0, &self.connection),
            ModelErrorKind::Timeout => (1, &self.timeout),
            ModelErrorKind::RateLimit | ModelErrorKind::Overloaded => (2, &self.rate_limit),
            ModelErrorKind::Server | ModelErrorKind::Malformed => (3, &self.server_error),
            ModelErrorKind::Auth
            | ModelErrorKind::Quota
            | ModelErrorKind::ContextTooLong
            | ModelErrorKind::Refused
            | ModelErrorKind::Invalid
            | ModelErrorKind::WrongUrl
            | ModelErrorKind::Exhausted => return None,
        })
    }

    /// Removes all delays, for the replay of a recording.
    pub fn remove_delays(&mut self) {
        for retry in [&mut self.connection, &mut self.timeout, &mut self.rate_limit, &mut self.server_error] {
            retry.backoff_max = 0.0;
        }
    }

    /// Returns why the settings contradict each other, if they do.
    pub(crate) fn contradiction(&self) -> Option<&'static str> {
        let TimeoutEscalation { strategy, increment, multiplier, max_timeout } = self.timeout_escalation.as_ref()?;
        match strategy {
            EscalationStrategy::Additive if *increment <= 0.0 => Some("`additive` needs an `increment` greater than 0"),
            EscalationStrategy::Multiplicative if *multiplier <= 1.0 => {
                Some("`multiplicative` needs a `multiplier` greater than 1")
            }
            EscalationStrategy::Linear if max_timeout.is_none() => Some("`linear` needs a `max_timeout`"),
            _ => None,
        }
    }

    /// Returns the timeout of an attempt after this many timeouts.
    pub(super) fn escalated(&self, base: Duration, timeouts: u32) -> Duration {
        let Some(TimeoutEscalation { strategy, increment, multiplier, max_timeout }) = &self.timeout_escalation else {
            return base;
        };
        let base_seconds = base.as_secs_f64();
        let count = f64::from(timeouts);
        let grown = match strategy {
            EscalationStrategy::Additive => base_seconds + increment * count,
            EscalationStrategy::Multiplicative => base_seconds * multiplier.powf(count),
            EscalationStrategy::Linear => {
                let last = f64::from(self.timeout.max_attempts.max(1));
                let end = max_timeout.unwrap_or(base_seconds);
                base_seconds + (end - base_seconds) * (count / last).min(1.0)
            }
        };
        let seconds = max_timeout.map_or(grown, |max| grown.min(max));
        // A maximum below the base does not shorten it.
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX).max(base)
    }
}

impl CategoryRetry {
    /// Delays between zero and the growing maximum, at random.
    pub(super) fn backoff(&self) -> Backoff {
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let jitter = Jitter { min: 0.0, max: 1.0 };
        Backoff {
            initial: seconds(self.backoff_min),
            factor: self.backoff_multiplier,
            max: seconds(self.backoff_max),
            jitter,
        }
    }
}

/// Reads one kind of error. Missing keys have the defaults of any kind.
fn category<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<CategoryRetry, D::Error> {
    #[derive(Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Keys {
        max_attempts: u32,
        #[serde(deserialize_with = "not_negative")]
        backoff_min: f64,
        #[serde(deserialize_with = "not_negative")]
        backoff_max: f64,
        #[serde(deserialize_with = "growth")]
        backoff_multiplier: f64,
    }
    impl Default for Keys {
        fn default() -> Self {
            Self { max_attempts: 0, backoff_min: 1.0, backoff_max: 10.0, backoff_multiplier: 2.0 }
        }
    }
    let Keys { max_attempts, backoff_min, backoff_max, backoff_multiplier } = Keys::deserialize(deserializer)?;
    Ok(CategoryRetry { max_attempts, backoff_min, backoff_max, backoff_multiplier })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_transient_error_has_its_own_retries() {
        let policy: RetryPolicy =
            serde_json::from_str(r#"{"rate_limit": {"max_attempts": 7, "backoff_min": 3, "backoff_max": 9}}"#).unwrap();
        let of = |kind| policy.of(kind).map(|(_, retry)| retry.max_attempts);
        assert_eq!([of(ModelErrorKind::RateLimit), of(ModelErrorKind::Overloaded)], [Some(7); 2]);
        assert_eq!([of(ModelErrorKind::Network), of(ModelErrorKind::Timeout)], [Some(3); 2]);
        assert_eq!([of(ModelErrorKind::Server), of(ModelErrorKind::Malformed)], [Some(2); 2]);
        assert_eq!(of(ModelErrorKind::Auth), None);
        let backoff = policy.rate_limit.backoff();
        let longest: Vec<u128> = (1..=3).map(|failures| backoff.delay_at(failures, 1.0).as_millis()).collect();
        assert_eq!((longest, backoff.delay_at(1, 0.0)), (vec![3000, 6000, 9000], Duration::ZERO));
    }

    #[test]
    fn timeouts_escalate_as_configured() {
        let timeouts = |escalation: &str| {
            let policy: RetryPolicy =
                serde_json::from_str(&format!(r#"{{"timeout_escalation": {escalation}}}"#)).unwrap();
            assert_eq!(policy.contradiction(), None);
            [0, 1, 2, 3].map(|count| policy.escalated(Duration::from_secs(10), count).as_secs())
        };
        assert_eq!(timeouts("null"), [10; 4]);
        assert_eq!(timeouts(r#"{"strategy": "additive", "increment": 5, "max_timeout": 18}"#), [10, 15, 18, 18]);
        assert_eq!(timeouts(r#"{"strategy": "multiplicative", "multiplier": 2}"#), [10, 20, 40, 80]);
        assert_eq!(timeouts(r#"{"strategy": "linear", "max_timeout": 40}"#), [10, 20, 30, 40]);
    }
}
