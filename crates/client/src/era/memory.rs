//! What is remembered of servers: which era each of them spoke, so that nobody has to find out twice.
//!
//! A server is known by where it is and how it is configured; when either changes, it is another one. What is written to
//! a file are digests of that, never the configuration itself, which may hold secrets.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wharf_io::{Durability, FileMode, MissingFolder, ReplaceOptions, digest, replace_file, unix_now};

/// How long a server is believed to be of the old era without being asked again, in seconds: servers are renewed.
const BELIEVED: u64 = 7 * 24 * 60 * 60;
/// The most servers a file holds; the oldest are forgotten.
const MOST: usize = 1000;
/// The largest file that is read: some ten times what the most servers need.
const LARGEST: u64 = 1024 * 1024;
/// How long writing the file is waited for.
const PATIENCE: Duration = Duration::from_millis(500);
/// The format of the file.
const VERSION: u32 = 1;

/// Which era servers spoke, in memory and, if it has a file, from one run to the next.
///
/// A memory that cannot be read or written costs time, nothing else.
#[derive(Debug, Default)]
pub struct EraCache {
    known: Mutex<BTreeMap<String, Known>>,
    file: Option<PathBuf>,
    /// One at a time reads the file and writes it anew.
    writing: Arc<Mutex<()>>,
}

/// What a server turned out to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// Without a handshake.
    Modern,
    /// With one.
    Legacy,
    /// With one, over the transport that came before the one it is configured with.
    Older,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Known {
    spoke: Verdict,
    /// When that was learned, in seconds since 1970.
    at: u64,
}

#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    servers: BTreeMap<String, Known>,
}

impl EraCache {
    /// A memory that is kept in this file.
    pub fn with_file(file: impl Into<PathBuf>) -> Self {
        let file = file.into();
        Self { known: Mutex::new(read(&file)), file: Some(file), writing: Arc::default() }
    }

    pub(crate) fn recall(&self, identity: Option<&str>) -> Option<Verdict> {
        let known = *self.known().get(&digest(identity?))?;
        let fresh = known.spoke == Verdict::Modern || unix_now().saturating_sub(known.at) < BELIEVED;
        fresh.then_some(known.spoke)
    }

    pub(crate) async fn learn(&self, identity: Option<&str>, spoke: Verdict) {
        let Some(identity) = identity.map(digest) else { return };
        let known = Known { spoke, at: unix_now() };
        let before = self.known().insert(identity.clone(), known);
        if before.is_none_or(|before| before.spoke != spoke || known.at.saturating_sub(before.at) >= BELIEVED) {
            self.write(move |servers| {
                servers.insert(identity, known);
            })
            .await;
        }
    }

    pub(crate) async fn forget(&self, identity: Option<&str>) {
        let Some(identity) = identity.map(digest) else { return };
        if self.known().remove(&identity).is_some() {
            self.write(move |servers| {
                servers.remove(&identity);
            })
            .await;
        }
    }

    /// Changes what is in the file, and only that: others may have written to it too.
    async fn write(&self, change: impl FnOnce(&mut BTreeMap<String, Known>) + Send + 'static) {
        let Some(file) = self.file.clone() else { return };
        let turn = Arc::clone(&self.writing);
        let writing = tokio::task::spawn_blocking(move || {
            let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            let mut servers = read(&file);
            change(&mut servers);
            while servers.len() > MOST {
                let oldest = servers.iter().min_by_key(|(_, known)| known.at).map(|(identity, _)| identity.clone());
                servers.remove(&oldest.unwrap_or_default());
            }
            replace(&file, &Written { version: VERSION, servers })
        });
        // A disk that is stuck holds up nobody.
        match tokio::time::timeout(PATIENCE, writing).await {
            Ok(Ok(Ok(()))) => {}
            failed => tracing::debug!(?failed, "what servers speak cannot be remembered"),
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(file: &Path) -> BTreeMap<String, Known> {
    // Whatever else may be there, it is not read without an end.
    let small = std::fs::metadata(file).is_ok_and(|file| file.is_file() && file.len() <= LARGEST);
    let written = small
        .then(|| std::fs::read(file).ok())
        .flatten()
        .and_then(|text| serde_json::from_slice::<Written>(&text).ok());
    written.filter(|written| written.version == VERSION).map(|written| written.servers).unwrap_or_default()
}

fn replace(file: &Path, written: &Written) -> io::Result<()> {
    let options = ReplaceOptions {
        mode: FileMode::Default,
        durability: Durability::Unsynced,
        folder: MissingFolder::Create,
        follow_symlinks: false,
    };
    replace_file(file, &serde_json::to_vec(written)?, options).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_learned_outlives_the_memory_and_what_was_forgotten_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep/servers.json");
        let memory = EraCache::with_file(&file);
        memory.learn(Some("npx some-server --key=secret"), Verdict::Legacy).await;
        memory.learn(Some("https://example.com/mcp"), Verdict::Modern).await;
        memory.learn(None, Verdict::Modern).await;
        let other = EraCache::with_file(&file);
        assert_eq!(other.recall(Some("npx some-server --key=secret")), Some(Verdict::Legacy));
        assert_eq!(other.recall(Some("npx some-server --key=other")), None);
        assert_eq!(other.recall(None), None);
        other.forget(Some("https://example.com/mcp")).await;
        // The first has not heard of it, and does not bring it back.
        memory.learn(Some("third"), Verdict::Older).await;
        let last = EraCache::with_file(&file);
        assert_eq!(last.recall(Some("https://example.com/mcp")), None);
        assert_eq!(last.recall(Some("third")), Some(Verdict::Older));
        assert!(!std::fs::read_to_string(&file).unwrap().contains("secret"));
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn a_server_of_the_old_era_is_asked_again_after_a_week_and_a_broken_file_is_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("servers.json");
        let written = |at: u64| {
            let known = |spoke| Known { spoke, at };
            let servers =
                BTreeMap::from([(digest("old"), known(Verdict::Legacy)), (digest("new"), known(Verdict::Modern))]);
            replace(&file, &Written { version: VERSION, servers }).unwrap();
            let memory = EraCache::with_file(&file);
            (memory.recall(Some("old")), memory.recall(Some("new")))
        };
        assert_eq!(written(unix_now() - BELIEVED - 5), (None, Some(Verdict::Modern)));
        assert_eq!(written(unix_now() - BELIEVED + 60), (Some(Verdict::Legacy), Some(Verdict::Modern)));
        std::fs::write(&file, "{").unwrap();
        let memory = EraCache::with_file(&file);
        memory.learn(Some("old"), Verdict::Legacy).await;
        assert_eq!(EraCache::with_file(&file).recall(Some("old")), Some(Verdict::Legacy));
        // What was asked again and found to be the same is believed for another week.
        assert_eq!(written(unix_now() - BELIEVED - 5).0, None);
        EraCache::with_file(&file).learn(Some("old"), Verdict::Legacy).await;
        assert_eq!(EraCache::with_file(&file).recall(Some("old")), Some(Verdict::Legacy));
    }
}
