//! Limits of requests, tokens and money per minute, which all workers of a provider share.
//!
//! A worker takes a grant for the next [`GRANT_TIME`] from the store, spends it locally, and reports what its requests used
//! with the next one. The store's clock decides. The arithmetic is in [`bucket`]; nothing here waits.

mod bucket;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use bucket::Bucket;

/// How long a grant is valid. What is not spent by then is returned.
pub(crate) const GRANT_TIME: Duration = Duration::from_secs(2);
/// How long requests pause that a provider refuses without saying for how long.
pub(crate) const DEFAULT_PAUSE: Duration = Duration::from_secs(5);

/// The limits of a provider per minute. Without any, all workers still pause together when the provider refuses a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RateLimit {
    /// Requests per minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u32>,
    /// Tokens per minute, input and output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<u64>,
    /// US dollars per minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_per_minute: Option<f64>,
}

/// What a worker asks for, and what happened since it asked last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RateReport {
    /// Name of the provider.
    pub provider: String,
    /// Its limits.
    pub limit: RateLimit,
    /// The number of requests that the worker wants to send now.
    pub wanted: u32,
    /// Granted requests that were not sent.
    pub returned: u32,
    /// Requests that ended.
    pub finished: u32,
    /// What they used.
    pub used: Reserve,
    /// What was reserved for the requests that ended or were not sent.
    pub released: Reserve,
    /// How long no worker may send requests, because the provider refused one.
    pub pause: Option<Duration>,
}

/// Tokens and money.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reserve {
    /// Tokens.
    pub tokens: f64,
    /// US dollars.
    pub usd: f64,
}

/// The right to send requests within the next two seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateGrant {
    /// How many.
    pub requests: u32,
    /// What is reserved for each of them.
    pub reserve: Reserve,
    /// If none is granted: when to ask again.
    pub wait: Duration,
}

impl Reserve {
    /// Adds `count` times another reserve.
    pub(crate) fn add(&mut self, other: Self, count: u32) {
        self.tokens += other.tokens * f64::from(count);
        self.usd += other.usd * f64::from(count);
    }
}
