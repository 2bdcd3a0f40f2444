//! The limits per minute of each provider, as one worker spends its grants.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;
use wharf_protocol::Usage;

use crate::rate_limit::{DEFAULT_PAUSE, GRANT_TIME, RateGrant, RateLimit, RateReport, Reserve};
use crate::store::{RunStore, StoreError};

/// The limits of all providers. Providers without one are not limited.
#[derive(Default)]
pub struct RequestLimits(BTreeMap<String, Arc<ProviderLimit>>);

/// The right to send one request. Dropped before that, it can be used by another request.
#[derive(Default)]
pub struct RequestPermit(Option<Held>);

struct Held {
    limit: Arc<ProviderLimit>,
    reserve: Reserve,
    expires: Instant,
    is_sent: bool,
}

struct ProviderLimit {
    provider: String,
    limit: RateLimit,
    store: Arc<dyn RunStore>,
    /// One request asks the store for all that wait.
    turn: Semaphore,
    state: Mutex<State>,
}

struct State {
    /// Requests that may be sent until `expires`.
    left: u32,
    reserve: Reserve,
    expires: Instant,
    /// Requests that wait for a grant.
    waiting: u32,
    /// Requests that were sent with the last grant: as many will probably follow.
    sent: u32,
    report: RateReport,
}

/// Counts a request that waits, until it is dropped.
struct Waiting<'a>(&'a ProviderLimit);

impl<'a> Waiting<'a> {
    fn new(limit: &'a ProviderLimit) -> Self {
        limit.state().waiting += 1;
        Self(limit)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}

impl RequestLimits {
    /// Creates the limits of a worker. Other workers with the same store share them.
    pub fn new(limits: &BTreeMap<String, RateLimit>, store: &Arc<dyn RunStore>) -> Self {
        let limit = |(provider, limit): (&String, &RateLimit)| {
            let state = State {
                left: 0,
                reserve: Reserve::default(),
                expires: Instant::now(),
                waiting: 0,
                sent: 0,
                report: RateReport::default(),
            };
            let limit = ProviderLimit {
                provider: provider.clone(),
                limit: *limit,
                store: Arc::clone(store),
                turn: Semaphore::new(1),
                state: Mutex::new(state),
            };
            (provider.clone(), Arc::new(limit))
        };
        Self(limits.iter().map(limit).collect())
    }

    /// Waits until a request may be sent to a provider.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn permit(&self, provider: &str) -> Result<RequestPermit, StoreError> {
        match self.0.get(provider) {
            Some(limit) => limit.acquire().await.map(|held| RequestPermit(Some(held))),
            None => Ok(RequestPermit::default()),
        }
    }

    /// Returns what is left of the grants, at the end of a worker.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn settle(&self) -> Result<(), StoreError> {
        for limit in self.0.values() {
            let is_used = {
                let mut state = limit.state();
                state.expire();
                state.report != RateReport::default()
            };
            if is_used {
                limit.exchange(0, None).await?;
            }
        }
        Ok(())
    }
}

impl ProviderLimit {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn acquire(self: &Arc<Self>) -> Result<Held, StoreError> {
        if let Some(held) = self.take() {
            return Ok(held);
        }
        let _waiting = Waiting::new(self);
        // It is never closed.
        let _turn = self.turn.acquire().await;
        loop {
            if let Some(held) = self.take() {
                return Ok(held);
            }
            let wanted = {
                let mut state = self.state();
                state.expire();
                state.waiting + std::mem::take(&mut state.sent)
            };
            let grant = self.exchange(wanted, None).await?;
            if grant.requests == 0 {
                tokio::time::sleep(grant.wait).await;
            }
        }
    }

    /// Takes a request of the current grant.
    fn take(self: &Arc<Self>) -> Option<Held> {
        let mut state = self.state();
        if state.left == 0 || state.expires <= Instant::now() {
            return None;
        }
        state.left -= 1;
        state.sent += 1;
        let (reserve, expires) = (state.reserve, state.expires);
        Some(Held { limit: Arc::clone(self), reserve, expires, is_sent: false })
    }

    /// Reports to the store, and adds what it grants.
    async fn exchange(&self, wanted: u32, pause: Option<Duration>) -> Result<RateGrant, StoreError> {
        let (provider, limit) = (self.provider.clone(), self.limit);
        let asked = Instant::now();
        let report = std::mem::take(&mut self.state().report);
        let report = RateReport { provider, limit, wanted, pause, ..report };
        let grant = self.store.exchange_rate(&report).await?;
        if grant.requests > 0 {
            let mut state = self.state();
            state.expire();
            // By the time before the question: the store's clock was not later.
            (state.left, state.reserve, state.expires) = (grant.requests, grant.reserve, asked + GRANT_TIME);
        }
        Ok(grant)
    }
}

impl State {
    /// Returns what is left of the grant.
    fn expire(&mut self) {
        let left = std::mem::take(&mut self.left);
        self.report.returned += left;
        self.report.released.add(self.reserve, left);
    }
}

impl RequestPermit {
    /// Marks that the request is sent now. If that took so long that the permit has expired, waits for another one.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn send(&mut self) -> Result<(), StoreError> {
        if let Some(held) = &mut self.0 {
            if held.expires <= Instant::now() {
                *held = held.limit.clone().acquire().await?;
            }
            held.is_sent = true;
        }
        Ok(())
    }

    /// Reports what the request used.
    pub fn finish(self, usage: &Usage) {
        #[expect(clippy::cast_precision_loss, reason = "nobody counts tokens beyond 2^52")]
        if let Some(held) = self.0 {
            let used = Reserve {
                tokens: usage.total_tokens() as f64,
                usd: usage.cost_usd.filter(|usd| *usd > 0.0).unwrap_or_default(),
            };
            let mut state = held.limit.state();
            state.report.finished += 1;
            state.report.used.add(used, 1);
        }
    }

    /// Reports that the provider refused the request, because of its own limits. All workers pause.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn refused(self, retry_after: Option<Duration>) -> Result<(), StoreError> {
        let Some(held) = self.0 else { return Ok(()) };
        held.limit.state().expire();
        held.limit.exchange(0, Some(retry_after.unwrap_or(DEFAULT_PAUSE))).await.map(drop)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.limit.state();
        if self.is_sent {
            // What it used, if that is known, is reported instead.
            state.report.released.add(self.reserve, 1);
        } else if state.expires == self.expires && self.expires > Instant::now() {
            state.left += 1;
        } else {
            state.report.returned += 1;
            state.report.released.add(self.reserve, 1);
        }
    }
}
