//! The leaky bucket of one provider: what was granted drains at a constant rate.
//!
//! A window of a minute sees at most what the bucket holds and what drains from it within a minute. A granted request is
//! sent up to [`GRANT_TIME`] later, and arrives up to [`ARRIVAL_TIME`] after that, so the rate is that of a longer minute.
//! Tokens and money of a request are only known when it ends. Until then the average of earlier requests is reserved; what
//! they used beyond that has to drain before the next request.

use std::time::Duration;

use super::{GRANT_TIME, RateGrant, RateLimit, RateReport, Reserve};

/// How much longer than others a request may take to arrive.
const ARRIVAL_TIME: Duration = Duration::from_secs(1);
/// Providers that ask for longer pauses are asked again after this one.
const MAX_PAUSE_MILLIS: i64 = 600_000;
/// A clock that is set back by more than this starts again.
const MAX_CLOCK_ERROR_MILLIS: i64 = 60_000;
/// The bucket holds what a minute allows within these seconds.
const BURST: Duration = Duration::from_secs(2);
/// The shortest wait before a worker asks again.
const MIN_WAIT: Duration = Duration::from_millis(20);
/// The longest one: another worker may have returned what it did not need.
const MAX_WAIT: Duration = Duration::from_secs(15);
/// What a request used counts at most as what drains in this time.
const MAX_DEBT: Duration = Duration::from_secs(600);
/// The share of the newest request in the average.
const AVERAGE_SHARE: f64 = 0.1;
const MINUTE: Duration = Duration::from_secs(60);

/// The state of a provider's limits, as the store has it. Times are milliseconds since 1970 by the store's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Bucket {
    pub(crate) updated: i64,
    pub(crate) paused_until: i64,
    /// Granted requests that have not drained.
    pub(crate) requests: f64,
    /// Tokens and money that were used or reserved, and have not drained.
    pub(crate) used: Reserve,
    /// The average of a request.
    pub(crate) average: Reserve,
}

/// One of the limits: how much fits, and what drains in a second.
#[derive(Clone, Copy)]
struct Flow {
    capacity: f64,
    rate: f64,
}

impl Flow {
    /// Returns the flow of requests. They are whole numbers, so the last one of a window may be partly drained.
    fn of_requests(per_minute: u32) -> Self {
        let capacity = (f64::from(per_minute) * BURST.as_secs_f64() / MINUTE.as_secs_f64()).floor().max(1.0);
        Self { capacity, rate: (f64::from(per_minute) + 1.0 - capacity) / longer_minute() * (1.0 - f64::EPSILON) }
    }

    fn of_amount(per_minute: f64) -> Self {
        let capacity = per_minute * BURST.as_secs_f64() / MINUTE.as_secs_f64();
        Self { capacity, rate: (per_minute - capacity) / longer_minute() }
    }

    /// Returns what has to drain at most. A provider may report any number, and must not stop a run.
    fn max_debt(self) -> f64 {
        self.rate * MAX_DEBT.as_secs_f64()
    }

    fn drain(self, level: f64, seconds: f64) -> f64 {
        (level - self.rate * seconds).max(0.0)
    }

    /// Returns how many requests of this size fit. One fits into an empty bucket, whatever its size.
    fn fitting(self, level: f64, each: f64) -> f64 {
        let room = self.capacity - level;
        if each > 0.0 && room >= each {
            (room / each + 1e-9).floor()
        } else if level <= 0.0 || (each <= 0.0 && room > 0.0) {
            1.0
        } else {
            0.0
        }
    }

    /// Returns the seconds until one fits.
    fn wait(self, level: f64, each: f64) -> f64 {
        (level - (self.capacity - each).max(0.0)).max(0.0) / self.rate
    }
}

fn longer_minute() -> f64 {
    (MINUTE + GRANT_TIME + ARRIVAL_TIME).as_secs_f64()
}

/// The flows of a provider's limits.
struct Flows {
    requests: Option<Flow>,
    tokens: Option<Flow>,
    usd: Option<Flow>,
}

impl Flows {
    #[expect(clippy::cast_precision_loss, reason = "nobody counts tokens beyond 2^52")]
    fn of(limit: &RateLimit) -> Self {
        Self {
            requests: limit.requests_per_minute.map(Flow::of_requests),
            tokens: limit.tokens_per_minute.map(|tokens| Flow::of_amount(tokens as f64)),
            usd: limit.usd_per_minute.map(Flow::of_amount),
        }
    }
}

impl Bucket {
    /// Includes a report, and grants requests.
    pub(crate) fn exchange(&mut self, report: &RateReport, now: i64) -> RateGrant {
        let flows = Flows::of(&report.limit);
        self.drain(&flows, now);
        self.settle(&flows, report);
        if let Some(pause) = report.pause {
            let pause = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX);
            self.paused_until = self.paused_until.max(now.saturating_add(pause));
            // The provider has counted more than we did.
            self.requests = flows.requests.map_or(0.0, |flow| flow.capacity);
        }
        self.paused_until = self.paused_until.min(now.saturating_add(MAX_PAUSE_MILLIS));
        let paused = u64::try_from(self.paused_until.saturating_sub(now)).unwrap_or_default();
        if paused > 0 {
            let wait = Duration::from_millis(paused).clamp(MIN_WAIT, MAX_WAIT);
            return RateGrant { requests: 0, reserve: Reserve::default(), wait };
        }
        self.grant(&flows, report.wanted)
    }

    fn drain(&mut self, flows: &Flows, now: i64) {
        let millis = now.saturating_sub(self.updated);
        if millis < -MAX_CLOCK_ERROR_MILLIS {
            self.updated = now;
        }
        let Ok(millis @ 1..) = u64::try_from(millis) else { return };
        self.updated = now;
        let seconds = Duration::from_millis(millis).as_secs_f64();
        let drained = |flow: Option<Flow>, level: f64| flow.map_or(0.0, |flow| flow.drain(level, seconds));
        self.requests = drained(flows.requests, self.requests);
        self.used.tokens = drained(flows.tokens, self.used.tokens);
        self.used.usd = drained(flows.usd, self.used.usd);
    }

    fn settle(&mut self, flows: &Flows, report: &RateReport) {
        let settled = |flow: Option<Flow>, level: f64| flow.map_or(0.0, |flow| level.clamp(0.0, flow.max_debt()));
        self.requests = (self.requests - f64::from(report.returned)).max(0.0);
        self.used.tokens = settled(flows.tokens, self.used.tokens + report.used.tokens - report.released.tokens);
        self.used.usd = settled(flows.usd, self.used.usd + report.used.usd - report.released.usd);
        if report.finished > 0 {
            let count = f64::from(report.finished);
            // The first request is all that is known.
            let share = if self.average == Reserve::default() { 1.0 } else { 1.0 - (1.0 - AVERAGE_SHARE).powf(count) };
            self.average.tokens += (report.used.tokens / count - self.average.tokens) * share;
            self.average.usd += (report.used.usd / count - self.average.usd) * share;
        }
    }

    fn grant(&mut self, flows: &Flows, wanted: u32) -> RateGrant {
        // While nothing is known about the size of a request, one at a time.
        let reserve_of = |flow: Option<Flow>, average: f64| match flow {
            Some(flow) if average <= 0.0 => flow.capacity,
            Some(_) => average,
            None => 0.0,
        };
        let tokens = reserve_of(flows.tokens, self.average.tokens);
        let usd = reserve_of(flows.usd, self.average.usd);
        let limits = [
            (flows.requests, self.requests, 1.0),
            (flows.tokens, self.used.tokens, tokens),
            (flows.usd, self.used.usd, usd),
        ];
        let (mut requests, mut wait) = (f64::from(wanted), 0.0_f64);
        for (flow, level, each) in limits {
            if let Some(flow) = flow {
                requests = requests.min(flow.fitting(level, each));
                wait = wait.max(flow.wait(level, each));
            }
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and `wanted`")]
        let requests = requests as u32;
        let reserve = Reserve { tokens, usd };
        self.requests += f64::from(requests);
        self.used.add(reserve, requests);
        let wait = Duration::from_secs_f64(wait.min(MAX_WAIT.as_secs_f64())).max(MIN_WAIT);
        RateGrant { requests, reserve, wait }
    }
}

#[cfg(test)]
mod tests;
