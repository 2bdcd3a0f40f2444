//! The cache of results that servers mark as cacheable: lists and resource contents, until they expire or the server
//! reports a change. The cache never fetches anything; it only saves requests.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use wharf_io::{Jitter, digest};
use wharf_protocol::{Fields, Json};

/// The longest time a result is cached.
const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// The maximum size of a cache, in bytes of JSON text.
const MAX_CACHE_BYTES: usize = 64 * 1024 * 1024;
/// The maximum size of one cached result.
const MAX_ENTRY_BYTES: usize = 8 * 1024 * 1024;
/// Shortens times by up to a tenth, so that results cached together do not all expire together.
const TTL_JITTER: Jitter = Jitter { min: 0.9, max: 1.0 };

/// Caches results that servers mark as cacheable.
///
/// Each session has its own cache by default. Sessions that share one also share the results that a server marks as
/// public. Private results are visible only to their [audience](crate::Transport::audience).
#[derive(Debug, Default)]
pub struct ResultCache {
    store: Mutex<CacheStore>,
}

#[derive(Debug, Default)]
struct CacheStore {
    entries: HashMap<EntryKey, Entry>,
    /// Counts the invalidations of each server. A result that was requested before one is not cached.
    invalidations: HashMap<Arc<str>, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct EntryKey {
    /// A digest, like the audience: both may contain secrets.
    endpoint: Arc<str>,
    /// Who may see the result; everyone if absent.
    audience: Option<Arc<str>>,
    method: &'static str,
    params: String,
}

#[derive(Debug)]
struct Entry {
    value: Arc<dyn Any + Send + Sync>,
    expires_at: Instant,
    size: usize,
}

/// A request whose result can be cached.
#[derive(Clone, Copy)]
pub(super) struct CacheKey<'a> {
    pub(super) method: &'static str,
    pub(super) params: &'a str,
}

/// How long, and for whom, a result may be cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CachePolicy {
    ttl: Duration,
    is_public: bool,
    size: usize,
}

impl CachePolicy {
    /// Reads the policy of a result. Results without one are not cached.
    pub(super) fn of(result: &Json) -> Self {
        let fields = Fields::of(result).ok();
        let ttl = fields.as_ref().and_then(|fields| fields.number("ttlMs").ok().flatten()).unwrap_or(0.0);
        let ttl = if ttl.is_finite() { ttl.clamp(0.0, MAX_TTL.as_secs_f64() * 1000.0) } else { 0.0 };
        let scope = fields.as_ref().and_then(|fields| fields.text("cacheScope").ok().flatten());
        let is_public = scope.as_deref() == Some("public");
        Self { ttl: Duration::from_secs_f64(ttl / 1000.0), is_public, size: result.as_str().len() }
    }

    pub(super) fn is_cacheable(self) -> bool {
        !self.ttl.is_zero() && self.size <= MAX_ENTRY_BYTES
    }

    /// Combines the policies of two parts of one result.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            ttl: self.ttl.min(other.ttl),
            is_public: self.is_public && other.is_public,
            size: self.size + other.size,
        }
    }
}

impl ResultCache {
    fn store(&self) -> MutexGuard<'_, CacheStore> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, endpoint: &Arc<str>, matches: impl Fn(&EntryKey) -> bool) {
        let mut store = self.store();
        *store.invalidations.entry(Arc::clone(endpoint)).or_default() += 1;
        store.entries.retain(|key, _| key.endpoint != *endpoint || !matches(key));
    }

    fn insert(&self, key: EntryKey, value: Arc<dyn Any + Send + Sync>, policy: CachePolicy, invalidations: u64) {
        if !policy.is_cacheable() {
            return;
        }
        let mut store = self.store();
        let now = Instant::now();
        if store.invalidations(&key.endpoint) != invalidations {
            return;
        }
        let entries = &mut store.entries;
        entries.retain(|_, entry| entry.expires_at > now);
        let mut total = entries.values().map(|entry| entry.size).sum::<usize>() + policy.size;
        while total > MAX_CACHE_BYTES {
            let oldest = entries.iter().min_by_key(|(_, entry)| entry.expires_at).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { break };
            total -= entries.remove(&oldest).map_or(0, |entry| entry.size);
        }
        entries.insert(key, Entry { value, expires_at: now + TTL_JITTER.apply_random(policy.ttl), size: policy.size });
    }
}

impl CacheStore {
    fn invalidations(&self, endpoint: &str) -> u64 {
        self.invalidations.get(endpoint).copied().unwrap_or_default()
    }
}

/// One server's part of a cache.
#[derive(Debug)]
pub(super) struct CachePartition {
    cache: Arc<ResultCache>,
    endpoint: Arc<str>,
}

/// The audience of a request, and the invalidations before it was sent.
pub(super) struct CacheEpoch {
    audience: Arc<str>,
    invalidations: u64,
}

impl CachePartition {
    pub(super) fn new(cache: Arc<ResultCache>, endpoint: &str) -> Self {
        Self { cache, endpoint: digest(endpoint).into() }
    }

    /// Returns the current epoch. Get it before sending a request whose result is to be cached.
    pub(super) fn epoch(&self, audience: &str) -> CacheEpoch {
        let invalidations = self.cache.store().invalidations(&self.endpoint);
        CacheEpoch { audience: digest(audience).into(), invalidations }
    }

    pub(super) fn get<T: Any + Send + Sync>(&self, epoch: &CacheEpoch, key: CacheKey<'_>) -> Option<Arc<T>> {
        let store = self.cache.store();
        let now = Instant::now();
        let find = |audience| {
            let entry = store.entries.get(&self.entry_key(audience, key)).filter(|entry| entry.expires_at > now)?;
            Arc::clone(&entry.value).downcast().ok()
        };
        find(Some(Arc::clone(&epoch.audience))).or_else(|| find(None))
    }

    pub(super) fn insert<T: Any + Send + Sync>(
        &self,
        epoch: &CacheEpoch,
        key: CacheKey<'_>,
        value: Arc<T>,
        policy: CachePolicy,
    ) {
        let audience = (!policy.is_public).then(|| Arc::clone(&epoch.audience));
        self.cache.insert(self.entry_key(audience, key), value, policy, epoch.invalidations);
    }

    /// Removes all results of this server.
    pub(super) fn clear(&self) {
        self.cache.remove(&self.endpoint, |_| true);
    }

    /// Removes the results of one method.
    pub(super) fn remove(&self, method: &str) {
        self.cache.remove(&self.endpoint, |key| key.method == method);
    }

    fn entry_key(&self, audience: Option<Arc<str>>, key: CacheKey<'_>) -> EntryKey {
        let CacheKey { method, params } = key;
        EntryKey { endpoint: Arc::clone(&self.endpoint), audience, method, params: params.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TOOLS: CacheKey<'static> = CacheKey { method: "tools/list", params: "" };

    fn policy(ttl: u64, scope: &str) -> CachePolicy {
        CachePolicy::of(&json!({"ttlMs": ttl, "cacheScope": scope}).into())
    }

    fn get(partition: &CachePartition, audience: &str) -> Option<u32> {
        partition.get::<u32>(&partition.epoch(audience), TOOLS).map(|value| *value)
    }

    fn insert(partition: &CachePartition, audience: &str, value: u32, policy: CachePolicy) {
        partition.insert(&partition.epoch(audience), TOOLS, Arc::new(value), policy);
    }

    #[tokio::test(start_paused = true)]
    async fn private_results_stay_with_their_audience_and_public_ones_with_their_server() {
        let cache = Arc::new(ResultCache::default());
        let partition = CachePartition::new(Arc::clone(&cache), "here");
        let other = CachePartition::new(cache, "there");
        insert(&partition, "ann", 1, policy(1000, "private"));
        assert_eq!((get(&partition, "ann"), get(&partition, "bob"), get(&other, "ann")), (Some(1), None, None));
        insert(&partition, "bob", 2, policy(1000, "public"));
        assert_eq!((get(&partition, "ann"), get(&partition, "eve"), get(&other, "bob")), (Some(1), Some(2), None));
        partition.remove("prompts/list");
        assert_eq!(get(&partition, "eve"), Some(2));
        partition.remove("tools/list");
        assert_eq!((get(&partition, "ann"), get(&partition, "eve")), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn results_expire_after_their_ttl_but_not_all_at_once() {
        let partition = CachePartition::new(Arc::default(), "here");
        insert(&partition, "", 1, policy(10_000, "public"));
        tokio::time::advance(Duration::from_millis(8_900)).await;
        assert_eq!(get(&partition, ""), Some(1));
        tokio::time::advance(Duration::from_millis(1_200)).await;
        assert_eq!(get(&partition, ""), None);
        let without_ttl = CachePolicy::of(&json!({}).into());
        let negative_ttl = CachePolicy::of(&json!({"ttlMs": -5}).into());
        for policy in [policy(0, "public"), without_ttl, negative_ttl] {
            insert(&partition, "", 2, policy);
            assert_eq!(get(&partition, ""), None);
        }
        // One day at most, whatever the server sends.
        insert(&partition, "", 3, policy(u64::MAX, "public"));
        tokio::time::advance(MAX_TTL).await;
        assert_eq!(get(&partition, ""), None);
        let ttls: Vec<Duration> = (0..50).map(|_| TTL_JITTER.apply_random(Duration::from_secs(100))).collect();
        assert!(ttls.iter().all(|one| (Duration::from_secs(90)..=Duration::from_secs(100)).contains(one)));
        assert!(ttls.iter().any(|one| *one != ttls[0]));
    }

    #[tokio::test(start_paused = true)]
    async fn results_requested_before_a_change_are_not_cached_and_the_size_is_bounded() {
        let partition = CachePartition::new(Arc::default(), "here");
        let epoch = partition.epoch("");
        partition.remove("tools/list");
        partition.insert(&epoch, TOOLS, Arc::new(1_u32), policy(1000, "public"));
        assert_eq!(get(&partition, ""), None);
        let large = CachePolicy { size: MAX_ENTRY_BYTES, ..policy(1000, "public") };
        for number in 0..20_u32 {
            let params = number.to_string();
            let key = CacheKey { method: "resources/read", params: &params };
            partition.insert(&partition.epoch(""), key, Arc::new(number), large);
        }
        let cached = (0..20).filter(|number: &u32| {
            let params = number.to_string();
            let key = CacheKey { method: "resources/read", params: &params };
            partition.get::<u32>(&partition.epoch(""), key).is_some()
        });
        assert_eq!(cached.count(), MAX_CACHE_BYTES / MAX_ENTRY_BYTES);
    }
}
