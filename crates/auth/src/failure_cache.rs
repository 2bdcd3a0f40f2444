//! Caches which servers recently required authorization. They are not contacted again for a while: nothing has changed,
//! and every process would send the same request.
//!
//! The key is the server's URL, the credentials that were sent, and the profile. After a sign-in the credentials differ, so
//! old entries no longer match; signing in and out also removes them.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use wharf_io::{Durability, ReplaceOptions, digest, replace_file, unix_now};

use crate::store::{REPLACE_OPTIONS, StoreError, lock, on_disk};

/// Default lifetime of a cached failure.
pub const AUTH_FAILURE_TTL: Duration = Duration::from_secs(15 * 60);
/// Maximum time to wait for the lock of the file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of entries; the oldest are removed.
const MAX_ENTRIES: usize = 1000;
/// Maximum size of the file.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
const VERSION: u32 = 1;

/// A cache of authorization failures, in memory or in a file that all processes share. Errors of the file are ignored:
/// they only cost a request.
#[derive(Debug)]
pub struct AuthFailureCache {
    file: Option<PathBuf>,
    /// The profile whose credentials are sent.
    profile: String,
    ttl: Duration,
    entries: Mutex<BTreeMap<String, CacheEntry>>,
}

/// A cached failure that is still valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedAuthFailure {
    /// The HTTP status: 401 or 403.
    pub status: u16,
    /// Time since the failure.
    pub ago: Duration,
    /// Remaining lifetime.
    pub left: Duration,
}

/// A failed authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthFailure {
    /// The server's URL.
    pub endpoint: String,
    /// Identifies the credentials that were sent. Only a digest is stored.
    pub shown: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CacheEntry {
    /// A digest of URL and profile.
    #[serde(rename = "whose")]
    account: String,
    /// The time of the failure, in seconds since 1970.
    at: u64,
    status: u16,
}

#[derive(Default, Serialize, Deserialize)]
struct CacheFile {
    version: u32,
    #[serde(rename = "refusals")]
    entries: BTreeMap<String, CacheEntry>,
}

impl Default for AuthFailureCache {
    fn default() -> Self {
        Self { file: None, profile: "default".to_owned(), ttl: AUTH_FAILURE_TTL, entries: Mutex::default() }
    }
}

impl AuthFailureCache {
    /// Creates a cache in a file.
    pub fn with_file(file: impl Into<PathBuf>) -> Self {
        Self { file: Some(file.into()), ..Self::default() }
    }

    /// Sets the profile.
    #[must_use]
    pub fn of(self, profile: &str) -> Self {
        Self { profile: profile.to_owned(), ..self }
    }

    /// Sets the lifetime of entries.
    #[must_use]
    pub fn lasting(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// Returns the cached failure, if it is still valid.
    pub async fn recall(&self, failure: &AuthFailure) -> Option<CachedAuthFailure> {
        let entry = match self.file.clone() {
            None => self.entries.lock().unwrap_or_else(PoisonError::into_inner).get(&self.key(failure)).cloned(),
            Some(file) => {
                let key = self.key(failure);
                let path = file.clone();
                let read = on_disk("read", &file, move || Ok(read(&path).entries.remove(&key))).await;
                read.unwrap_or_default()
            }
        };
        let CacheEntry { at, status, .. } = entry?;
        // An entry from the future is invalid: the clock was set back.
        let ago = Duration::from_secs(unix_now().checked_sub(at)?);
        let left = self.ttl.checked_sub(ago).filter(|left| !left.is_zero())?;
        Some(CachedAuthFailure { status, ago, left })
    }

    /// Stores a failure with its HTTP status.
    pub async fn note(&self, failure: &AuthFailure, status: u16) {
        let entry = CacheEntry { account: self.account(&failure.endpoint), at: unix_now(), status };
        let key = self.key(failure);
        self.change(move |entries| drop(entries.insert(key, entry))).await;
    }

    /// Removes all failures of a server.
    pub async fn forget(&self, endpoint: &str) {
        let account = self.account(endpoint);
        if let Some(file) = self.file.clone() {
            // Usually there is nothing to remove, and then nothing is written.
            let path = file.clone();
            let wanted = account.clone();
            let found =
                on_disk("read", &file, move || Ok(read(&path).entries.values().any(|entry| entry.account == wanted)));
            if !found.await.unwrap_or(true) {
                return;
            }
        }
        self.change(move |entries| entries.retain(|_, entry| entry.account != account)).await;
    }

    /// Changes the entries in memory or in the file, under a lock that all processes share.
    async fn change(&self, change: impl FnOnce(&mut BTreeMap<String, CacheEntry>) + Send + 'static) {
        let ttl = self.ttl.as_secs();
        let change = move |entries: &mut BTreeMap<String, CacheEntry>| {
            change(entries);
            entries.retain(|_, entry| unix_now().saturating_sub(entry.at) < ttl);
            while entries.len() > MAX_ENTRIES {
                let oldest = entries.iter().min_by_key(|(_, entry)| entry.at).map(|(key, _)| key.clone());
                entries.remove(&oldest.unwrap_or_default());
            }
        };
        let Some(file) = self.file.clone() else {
            return change(&mut self.entries.lock().unwrap_or_else(PoisonError::into_inner));
        };
        let changed = async {
            let held = lock(&file.with_extension("lock"), LOCK_TIMEOUT).await?;
            let path = file.clone();
            on_disk("write", &file, move || {
                let _held = held;
                let mut entries = read(&path).entries;
                change(&mut entries);
                let text = serde_json::to_vec(&CacheFile { version: VERSION, entries }).unwrap_or_default();
                // Writers wait for each other, so none waits for the disk. A file that a power failure emptied is invalid,
                // and counts as empty.
                let options = ReplaceOptions { durability: Durability::Unsynced, ..REPLACE_OPTIONS };
                let replaced = replace_file(&path, &text, options);
                replaced.map(drop).map_err(|error| StoreError::disk("write", &path, error))
            })
            .await
        };
        if let Err(error) = changed.await {
            tracing::debug!(%error, "cannot cache an authorization failure");
        }
    }
}

impl AuthFailureCache {
    fn key(&self, failure: &AuthFailure) -> String {
        digest(&format!("{}\n{}\n{}", failure.endpoint, self.profile, failure.shown))
    }

    fn account(&self, endpoint: &str) -> String {
        digest(&format!("{endpoint}\n{}", self.profile))
    }
}

/// Reads the file. An invalid file counts as empty.
fn read(file: &Path) -> CacheFile {
    let mut text = Vec::new();
    // Opening a pipe would block.
    let is_regular = std::fs::metadata(file).is_ok_and(|found| found.is_file());
    let opened = if is_regular { std::fs::File::open(file).ok() } else { None };
    let read = opened.and_then(|opened| opened.take(MAX_FILE_BYTES).read_to_end(&mut text).ok());
    let parsed = read.and_then(|_| serde_json::from_slice::<CacheFile>(&text).ok());
    parsed.filter(|parsed| parsed.version == VERSION).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn failure(endpoint: &str, shown: &str) -> AuthFailure {
        AuthFailure { endpoint: endpoint.to_owned(), shown: shown.to_owned() }
    }

    #[tokio::test]
    async fn a_failure_is_cached_by_server_credentials_and_profile() {
        let dir = tempfile::tempdir().unwrap();
        for cache in [AuthFailureCache::default(), AuthFailureCache::with_file(dir.path().join("deep/refusals.json"))] {
            let one = failure("https://a.example/mcp", "secret-1");
            assert_eq!(cache.recall(&one).await, None);
            cache.note(&one, 401).await;
            assert!(cache.recall(&one).await.is_some());
            assert_eq!(cache.recall(&failure("https://b.example/mcp", "secret-1")).await, None);
            assert_eq!(cache.recall(&failure("https://a.example/mcp", "secret-2")).await, None);
            cache.note(&failure("https://a.example/mcp", "secret-3"), 401).await;
            cache.note(&failure("https://b.example/mcp", ""), 401).await;
            cache.forget("https://a.example/mcp").await;
            assert_eq!(cache.recall(&one).await, None);
            assert!(cache.recall(&failure("https://b.example/mcp", "")).await.is_some());
            let others = cache.of("work");
            assert_eq!(others.recall(&failure("https://b.example/mcp", "")).await, None);
        }
        let text = std::fs::read_to_string(dir.path().join("deep/refusals.json")).unwrap();
        assert!(!text.contains("secret") && !text.contains("example"), "{text}");
        let brief = AuthFailureCache::default().lasting(Duration::ZERO);
        brief.note(&failure("x", "y"), 401).await;
        assert_eq!(brief.recall(&failure("x", "y")).await, None);
    }

    #[tokio::test]
    async fn a_clock_that_jumps_ends_the_validity_of_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("refusals.json");
        let cache = AuthFailureCache::with_file(&file).lasting(Duration::from_secs(600));
        let one = failure("https://a.example", "");
        let written_at = async |change: fn(u64) -> u64| {
            cache.note(&one, 401).await;
            let mut written: CacheFile = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
            written.entries.values_mut().for_each(|entry| entry.at = change(entry.at));
            std::fs::write(&file, serde_json::to_vec(&written).unwrap()).unwrap();
            cache.recall(&one).await.is_some()
        };
        assert!(written_at(|at| at).await);
        assert!(!written_at(|at| at + 3600).await, "set back by an hour");
        assert!(!written_at(|at| at - 24 * 3600).await, "set forward by a day");
    }

    #[tokio::test]
    async fn fifty_concurrent_writers_leave_fifty_entries() {
        let dir = tempfile::tempdir().unwrap();
        let file = Arc::new(dir.path().join("refusals.json"));
        let mut writers = tokio::task::JoinSet::new();
        for number in 0..50 {
            let file = Arc::clone(&file);
            writers.spawn(async move {
                AuthFailureCache::with_file(&*file).note(&failure(&format!("https://{number}.example"), ""), 401).await;
            });
        }
        writers.join_all().await;
        let written: CacheFile = serde_json::from_slice(&std::fs::read(&*file).unwrap()).unwrap();
        assert_eq!(written.entries.len(), 50);
    }

    #[tokio::test]
    async fn an_invalid_file_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("refusals.json");
        for invalid in ["", "{", r#"{"version": 9, "refusals": {}}"#] {
            std::fs::write(&file, invalid).unwrap();
            let cache = AuthFailureCache::with_file(&file);
            let one = failure("https://a.example", "");
            assert_eq!(cache.recall(&one).await, None);
            cache.note(&one, 401).await;
            assert!(cache.recall(&one).await.is_some());
        }
    }
}
