//! What servers let us keep for a while: lists and resources, until their time is over or the server says that they have
//! changed. Nothing is ever fetched because of this; it only saves asking.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use wharf_protocol::{Fields, Json};

use wharf_io::{Jitter, digest};

/// The longest anything is kept.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// The most that is kept, in bytes of text.
const MOST: usize = 64 * 1024 * 1024;
/// What is larger is not kept at all.
const LARGEST: usize = 8 * 1024 * 1024;
/// Shortens lifetimes by up to a tenth, so that results that were fetched together do not all expire together.
const LIFETIME_JITTER: Jitter = Jitter { min: 0.9, max: 1.0 };

/// Results that servers allow to be kept. Every session has one of its own unless several are given the same: then what a
/// server calls public is shared between sessions with it, and what it calls private never leaves its audience.
#[derive(Debug, Default)]
pub struct ResultCache {
    kept: Mutex<Shelves>,
}

#[derive(Debug, Default)]
struct Shelves {
    kept: HashMap<Key, Kept>,
    /// Counts for each server what was forgotten: a result that was asked for before that is not kept.
    forgotten: HashMap<Arc<str>, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    /// A digest, as who may see it is: both may hold secrets.
    endpoint: Arc<str>,
    /// Who may see it; everybody if absent.
    audience: Option<Arc<str>>,
    method: &'static str,
    params: String,
}

#[derive(Debug)]
struct Kept {
    value: Arc<dyn Any + Send + Sync>,
    until: Instant,
    size: usize,
}

/// How long, and for whom, a result may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    lives: Duration,
    shared: bool,
    size: usize,
}

impl Terms {
    /// What a result says about that; a result that says nothing is not kept.
    pub(super) fn of(result: &Json) -> Self {
        let fields = Fields::of(result).ok();
        let lives = fields.as_ref().and_then(|fields| fields.number("ttlMs").ok().flatten()).unwrap_or(0.0);
        let lives = if lives.is_finite() { lives.clamp(0.0, LONGEST.as_secs_f64() * 1000.0) } else { 0.0 };
        let scope = fields.as_ref().and_then(|fields| fields.text("cacheScope").ok().flatten());
        let shared = scope.as_deref() == Some("public");
        Self { lives: Duration::from_secs_f64(lives / 1000.0), shared, size: result.as_str().len() }
    }

    /// Whether it may be kept at all.
    pub(super) fn allow(self) -> bool {
        !self.lives.is_zero() && self.size <= LARGEST
    }

    /// The terms of two parts of one result.
    pub(super) fn and(self, other: Self) -> Self {
        Self { lives: self.lives.min(other.lives), shared: self.shared && other.shared, size: self.size + other.size }
    }
}

impl ResultCache {
    fn kept(&self) -> MutexGuard<'_, Shelves> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, endpoint: &Arc<str>, which: impl Fn(&Key) -> bool) {
        let mut shelves = self.kept();
        *shelves.forgotten.entry(Arc::clone(endpoint)).or_default() += 1;
        shelves.kept.retain(|key, _| key.endpoint != *endpoint || !which(key));
    }

    fn keep(&self, key: Key, value: Arc<dyn Any + Send + Sync>, terms: Terms, age: u64) {
        if !terms.allow() {
            return;
        }
        let (mut shelves, now) = (self.kept(), Instant::now());
        if shelves.age(&key.endpoint) != age {
            return;
        }
        let kept = &mut shelves.kept;
        kept.retain(|_, kept| kept.until > now);
        let mut full = kept.values().map(|kept| kept.size).sum::<usize>() + terms.size;
        while full > MOST {
            let Some(first) = kept.iter().min_by_key(|(_, kept)| kept.until).map(|(key, _)| key.clone()) else { break };
            full -= kept.remove(&first).map_or(0, |kept| kept.size);
        }
        kept.insert(key, Kept { value, until: now + LIFETIME_JITTER.apply_random(terms.lives), size: terms.size });
    }
}

impl Shelves {
    fn age(&self, endpoint: &str) -> u64 {
        self.forgotten.get(endpoint).copied().unwrap_or_default()
    }
}

/// One server's part of a cache.
#[derive(Debug)]
pub(super) struct Shelf {
    cache: Arc<ResultCache>,
    endpoint: Arc<str>,
}

/// Who asks, and what was forgotten before.
pub(super) struct Ticket {
    audience: Arc<str>,
    age: u64,
}

impl Shelf {
    pub(super) fn new(cache: Arc<ResultCache>, endpoint: &str) -> Self {
        Self { cache, endpoint: digest(endpoint).into() }
    }

    /// To be taken before anything is asked for.
    pub(super) fn ticket(&self, audience: &str) -> Ticket {
        Ticket { audience: digest(audience).into(), age: self.cache.kept().age(&self.endpoint) }
    }

    pub(super) fn get<T: Any + Send + Sync>(
        &self,
        ticket: &Ticket,
        method: &'static str,
        params: &str,
    ) -> Option<Arc<T>> {
        let (shelves, now) = (self.cache.kept(), Instant::now());
        let found = |audience| {
            let kept = shelves.kept.get(&self.key(audience, method, params)).filter(|kept| kept.until > now)?;
            Arc::clone(&kept.value).downcast().ok()
        };
        found(Some(Arc::clone(&ticket.audience))).or_else(|| found(None))
    }

    pub(super) fn keep<T: Any + Send + Sync>(
        &self,
        ticket: &Ticket,
        (method, params): (&'static str, &str),
        value: Arc<T>,
        terms: Terms,
    ) {
        let audience = (!terms.shared).then(|| Arc::clone(&ticket.audience));
        self.cache.keep(self.key(audience, method, params), value, terms, ticket.age);
    }

    /// Forgets all that was kept of this server.
    pub(super) fn clear(&self) {
        self.cache.forget(&self.endpoint, |_| true);
    }

    /// Forgets what came of this method.
    pub(super) fn forget(&self, method: &str) {
        self.cache.forget(&self.endpoint, |key| key.method == method);
    }

    fn key(&self, audience: Option<Arc<str>>, method: &'static str, params: &str) -> Key {
        Key { endpoint: Arc::clone(&self.endpoint), audience, method, params: params.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn terms(ttl: u64, scope: &str) -> Terms {
        Terms::of(&json!({"ttlMs": ttl, "cacheScope": scope}).into())
    }

    fn seen(shelf: &Shelf, audience: &str) -> Option<u32> {
        shelf.get::<u32>(&shelf.ticket(audience), "tools/list", "").map(|value| *value)
    }

    fn put(shelf: &Shelf, audience: &str, value: u32, terms: Terms) {
        shelf.keep(&shelf.ticket(audience), ("tools/list", ""), Arc::new(value), terms);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_private_is_for_its_audience_and_what_is_public_for_all_of_one_server() {
        let cache = Arc::new(ResultCache::default());
        let (shelf, other) = (Shelf::new(Arc::clone(&cache), "here"), Shelf::new(cache, "there"));
        put(&shelf, "ann", 1, terms(1000, "private"));
        assert_eq!((seen(&shelf, "ann"), seen(&shelf, "bob"), seen(&other, "ann")), (Some(1), None, None));
        put(&shelf, "bob", 2, terms(1000, "public"));
        assert_eq!((seen(&shelf, "ann"), seen(&shelf, "eve"), seen(&other, "bob")), (Some(1), Some(2), None));
        shelf.forget("prompts/list");
        assert_eq!(seen(&shelf, "eve"), Some(2));
        shelf.forget("tools/list");
        assert_eq!((seen(&shelf, "ann"), seen(&shelf, "eve")), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_outlives_its_time_and_many_do_not_end_together() {
        let shelf = Shelf::new(Arc::default(), "here");
        put(&shelf, "", 1, terms(10_000, "public"));
        tokio::time::advance(Duration::from_millis(8_900)).await;
        assert_eq!(seen(&shelf, ""), Some(1));
        tokio::time::advance(Duration::from_millis(1_200)).await;
        assert_eq!(seen(&shelf, ""), None);
        for terms in [terms(0, "public"), Terms::of(&json!({}).into()), Terms::of(&json!({"ttlMs": -5}).into())] {
            put(&shelf, "", 2, terms);
            assert_eq!(seen(&shelf, ""), None);
        }
        // A day at most, however long the server says.
        put(&shelf, "", 3, terms(u64::MAX, "public"));
        tokio::time::advance(LONGEST).await;
        assert_eq!(seen(&shelf, ""), None);
        let lives: Vec<Duration> = (0..50).map(|_| LIFETIME_JITTER.apply_random(Duration::from_secs(100))).collect();
        assert!(lives.iter().all(|one| (Duration::from_secs(90)..=Duration::from_secs(100)).contains(one)));
        assert!(lives.iter().any(|one| *one != lives[0]));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_asked_for_before_it_changed_is_not_kept_and_the_cache_has_an_end() {
        let shelf = Shelf::new(Arc::default(), "here");
        let ticket = shelf.ticket("");
        shelf.forget("tools/list");
        shelf.keep(&ticket, ("tools/list", ""), Arc::new(1_u32), terms(1000, "public"));
        assert_eq!(seen(&shelf, ""), None);
        let large = Terms { size: LARGEST, ..terms(1000, "public") };
        for number in 0..20_u32 {
            let params = number.to_string();
            shelf.keep(&shelf.ticket(""), ("resources/read", &params), Arc::new(number), large);
        }
        let kept = (0..20).filter(|number: &u32| {
            shelf.get::<u32>(&shelf.ticket(""), "resources/read", &number.to_string()).is_some()
        });
        assert_eq!(kept.count(), MOST / LARGEST);
    }
}
