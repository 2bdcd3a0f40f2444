//! The cache of detected protocol eras, so that a server is probed only once.
//!
//! A server is identified by its address and configuration; when either changes, it is another server. The file contains
//! only digests of that, because the configuration may contain secrets.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wharf_io::{Durability, FileMode, MissingFolder, ReplaceOptions, digest, replace_file, unix_now};

/// How long a legacy era is valid, in seconds. After that the server is probed again, because it may have been upgraded.
const LEGACY_TTL_SECONDS: u64 = 7 * 24 * 60 * 60;
/// The maximum number of servers in a file. The oldest are removed.
const MAX_SERVERS: usize = 1000;
/// The maximum size of a file that is read, about ten times what the maximum number of servers needs.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Time for writing the file.
const WRITE_TIMEOUT: Duration = Duration::from_millis(500);
/// The version of the file format.
const VERSION: u32 = 1;

/// Caches the protocol era of each server, in memory and optionally in a file.
///
/// A file that cannot be read or written only costs time: the era is detected again.
#[derive(Debug, Default)]
pub struct EraCache {
    entries: Mutex<BTreeMap<String, Entry>>,
    file: Option<PathBuf>,
    /// Serializes updates of the file.
    writing: Arc<Mutex<()>>,
}

/// The era of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum KnownEra {
    Modern,
    Legacy,
    /// Legacy, over the older transport than the configured one.
    Older,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Entry {
    #[serde(rename = "spoke")]
    era: KnownEra,
    /// When it was detected, in seconds since 1970.
    at: u64,
}

#[derive(Serialize, Deserialize)]
struct CacheFile {
    version: u32,
    servers: BTreeMap<String, Entry>,
}

impl EraCache {
    /// Creates a cache that is stored in `file`.
    pub fn with_file(file: impl Into<PathBuf>) -> Self {
        let file = file.into();
        Self { entries: Mutex::new(read(&file)), file: Some(file), writing: Arc::default() }
    }

    pub(crate) fn get(&self, identity: Option<&str>) -> Option<KnownEra> {
        let entry = *self.entries().get(&digest(identity?))?;
        // An entry from the future has no known age: the clock was set back.
        let is_recent = unix_now().checked_sub(entry.at).is_some_and(|age| age < LEGACY_TTL_SECONDS);
        let is_valid = entry.era == KnownEra::Modern || is_recent;
        is_valid.then_some(entry.era)
    }

    pub(crate) async fn insert(&self, identity: Option<&str>, era: KnownEra) {
        let Some(identity) = identity.map(digest) else { return };
        let entry = Entry { era, at: unix_now() };
        let before = self.entries().insert(identity.clone(), entry);
        let is_current =
            before.is_some_and(|before| before.era == era && entry.at.saturating_sub(before.at) < LEGACY_TTL_SECONDS);
        if !is_current {
            self.update_file(move |servers| {
                servers.insert(identity, entry);
            })
            .await;
        }
    }

    pub(crate) async fn remove(&self, identity: Option<&str>) {
        let Some(identity) = identity.map(digest) else { return };
        if self.entries().remove(&identity).is_some() {
            self.update_file(move |servers| {
                servers.remove(&identity);
            })
            .await;
        }
    }

    /// Applies one change to the file, which other processes may have changed too.
    async fn update_file(&self, change: impl FnOnce(&mut BTreeMap<String, Entry>) + Send + 'static) {
        let Some(file) = self.file.clone() else { return };
        let turn = Arc::clone(&self.writing);
        let writing = tokio::task::spawn_blocking(move || {
            let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            let mut servers = read(&file);
            change(&mut servers);
            while servers.len() > MAX_SERVERS {
                let oldest = servers.iter().min_by_key(|(_, entry)| entry.at).map(|(identity, _)| identity.clone());
                servers.remove(&oldest.unwrap_or_default());
            }
            write(&file, &CacheFile { version: VERSION, servers })
        });
        // A stuck disk must not block the session.
        match tokio::time::timeout(WRITE_TIMEOUT, writing).await {
            Ok(Ok(Ok(()))) => {}
            failed => tracing::debug!(?failed, "cannot write the era cache"),
        }
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(file: &Path) -> BTreeMap<String, Entry> {
    // The path may name something endless, such as a device.
    let is_readable = std::fs::metadata(file).is_ok_and(|file| file.is_file() && file.len() <= MAX_FILE_BYTES);
    let content = if is_readable { std::fs::read(file).ok() } else { None };
    let parsed = content.and_then(|text| serde_json::from_slice::<CacheFile>(&text).ok());
    parsed.filter(|parsed| parsed.version == VERSION).map(|parsed| parsed.servers).unwrap_or_default()
}

fn write(file: &Path, content: &CacheFile) -> io::Result<()> {
    let options = ReplaceOptions {
        mode: FileMode::Private,
        durability: Durability::Unsynced,
        folder: MissingFolder::CreatePrivate,
        follow_symlinks: false,
    };
    replace_file(file, &serde_json::to_vec(content)?, options).map(drop)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn entries_persist_and_removed_ones_do_not_return() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep/servers.json");
        let cache = EraCache::with_file(&file);
        cache.insert(Some("npx some-server --key=secret"), KnownEra::Legacy).await;
        cache.insert(Some("https://example.com/mcp"), KnownEra::Modern).await;
        cache.insert(None, KnownEra::Modern).await;
        let other = EraCache::with_file(&file);
        assert_eq!(other.get(Some("npx some-server --key=secret")), Some(KnownEra::Legacy));
        assert_eq!(other.get(Some("npx some-server --key=other")), None);
        assert_eq!(other.get(None), None);
        other.remove(Some("https://example.com/mcp")).await;
        // The first cache still has the entry in memory, and must not write it back.
        cache.insert(Some("third"), KnownEra::Older).await;
        let last = EraCache::with_file(&file);
        assert_eq!(last.get(Some("https://example.com/mcp")), None);
        assert_eq!(last.get(Some("third")), Some(KnownEra::Older));
        assert!(!std::fs::read_to_string(&file).unwrap().contains("secret"));
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    }

    #[tokio::test]
    async fn legacy_entries_expire_after_a_week_and_a_broken_file_counts_as_empty() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("servers.json");
        let detected_at = |at: u64| {
            let entry = |era| Entry { era, at };
            let servers =
                BTreeMap::from([(digest("old"), entry(KnownEra::Legacy)), (digest("new"), entry(KnownEra::Modern))]);
            write(&file, &CacheFile { version: VERSION, servers }).unwrap();
            let cache = EraCache::with_file(&file);
            (cache.get(Some("old")), cache.get(Some("new")))
        };
        assert_eq!(detected_at(unix_now() - LEGACY_TTL_SECONDS - 5), (None, Some(KnownEra::Modern)));
        let (old, new) = detected_at(unix_now() - LEGACY_TTL_SECONDS + 60);
        assert_eq!((old, new), (Some(KnownEra::Legacy), Some(KnownEra::Modern)));
        // The clock was set back by an hour after the server was detected.
        assert_eq!(detected_at(unix_now() + 3600), (None, Some(KnownEra::Modern)));
        std::fs::write(&file, "{").unwrap();
        let cache = EraCache::with_file(&file);
        cache.insert(Some("old"), KnownEra::Legacy).await;
        assert_eq!(EraCache::with_file(&file).get(Some("old")), Some(KnownEra::Legacy));
        // Detecting the same era again extends the entry.
        assert_eq!(detected_at(unix_now() - LEGACY_TTL_SECONDS - 5).0, None);
        EraCache::with_file(&file).insert(Some("old"), KnownEra::Legacy).await;
        assert_eq!(EraCache::with_file(&file).get(Some("old")), Some(KnownEra::Legacy));
    }
}
