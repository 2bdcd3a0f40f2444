//! Which servers wanted to know who we are a short while ago. They are not asked again so soon: nothing has changed, and
//! every start of every program would ask them.
//!
//! A server is known by its address, what we showed it, and whose profile that was. Whoever signs in shows something else,
//! so what was remembered is worth nothing from then on; it is forgotten all the same, and so it is with a sign-out.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::store::{REPLACE_OPTIONS, lock, on_disk};
use wharf_io::{digest, replace_file, unix_now};

/// How long a refusal counts, if nobody says otherwise.
pub const AUTH_FAILURE_TTL: Duration = Duration::from_secs(15 * 60);
/// How long the file is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most that is remembered; the oldest is forgotten.
const MOST: usize = 1000;
/// The largest file that is read.
const LARGEST: u64 = 1024 * 1024;
const VERSION: u32 = 1;

/// Remembers refusals, in memory and, if it has a file, for all processes. What cannot be remembered costs a request.
#[derive(Debug)]
pub struct AuthFailureCache {
    file: Option<PathBuf>,
    /// Whose sign-ins are used.
    profile: String,
    life: Duration,
    known: Mutex<BTreeMap<String, Refused>>,
}

/// A refusal that still counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedAuthFailure {
    /// What the server answered: 401 or 403.
    pub status: u16,
    /// How long ago that was.
    pub ago: Duration,
    /// For how long it still counts.
    pub left: Duration,
}

/// Who was refused where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthFailure {
    /// The server's address.
    pub endpoint: String,
    /// What tells what we showed it from anything else. Only a digest of it is kept.
    pub shown: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Refused {
    /// A digest of address and profile.
    whose: String,
    /// When, in seconds since 1970.
    at: u64,
    /// What the server answered.
    status: u16,
}

#[derive(Default, Serialize, Deserialize)]
struct Written {
    version: u32,
    refusals: BTreeMap<String, Refused>,
}

impl Default for AuthFailureCache {
    fn default() -> Self {
        Self { file: None, profile: "default".to_owned(), life: AUTH_FAILURE_TTL, known: Mutex::default() }
    }
}

impl AuthFailureCache {
    /// Refusals that are remembered in this file.
    pub fn with_file(file: impl Into<PathBuf>) -> Self {
        Self { file: Some(file.into()), ..Self::default() }
    }

    /// Those of another profile.
    #[must_use]
    pub fn of(self, profile: &str) -> Self {
        Self { profile: profile.to_owned(), ..self }
    }

    /// With another time for which they count.
    #[must_use]
    pub fn lasting(self, life: Duration) -> Self {
        Self { life, ..self }
    }

    /// What is remembered of this refusal, if it would be refused again.
    pub async fn recall(&self, refusal: &AuthFailure) -> Option<CachedAuthFailure> {
        let known = match self.file.clone() {
            None => self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&self.key(refusal)).cloned(),
            Some(file) => {
                let (key, own) = (self.key(refusal), file.clone());
                let read = on_disk("read", &file, move || Ok(read(&own).refusals.remove(&key))).await;
                read.unwrap_or_default()
            }
        };
        let Refused { at, status, .. } = known?;
        // A clock that was set back does not make a refusal last for ever.
        let ago = Duration::from_secs(unix_now().checked_sub(at)?);
        let left = self.life.checked_sub(ago).filter(|left| !left.is_zero())?;
        Some(CachedAuthFailure { status, ago, left })
    }

    /// It was refused now, with this status.
    pub async fn note(&self, refusal: &AuthFailure, status: u16) {
        let refused = Refused { whose: self.whose(&refusal.endpoint), at: unix_now(), status };
        let key = self.key(refusal);
        self.change(move |refusals| drop(refusals.insert(key, refused))).await;
    }

    /// Forgets whatever was shown to that server and refused.
    pub async fn forget(&self, endpoint: &str) {
        let whose = self.whose(endpoint);
        if let Some(file) = self.file.clone() {
            // Mostly there is nothing to forget, and then nothing is written.
            let (own, looked_for) = (file.clone(), whose.clone());
            let found = on_disk("read", &file, move || {
                Ok(read(&own).refusals.values().any(|refused| refused.whose == looked_for))
            });
            if !found.await.unwrap_or(true) {
                return;
            }
        }
        self.change(move |refusals| refusals.retain(|_, refused| refused.whose != whose)).await;
    }

    /// Changes what is remembered, here or in the file, one at a time in all processes.
    async fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Refused>) + Send + 'static) {
        let life = self.life.as_secs();
        let change = move |refusals: &mut BTreeMap<String, Refused>| {
            change(refusals);
            refusals.retain(|_, refused| unix_now().saturating_sub(refused.at) < life);
            while refusals.len() > MOST {
                let oldest = refusals.iter().min_by_key(|(_, refused)| refused.at).map(|(key, _)| key.clone());
                refusals.remove(&oldest.unwrap_or_default());
            }
        };
        let Some(file) = self.file.clone() else {
            return change(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner));
        };
        let changing = async {
            let held = lock(&file.with_extension("lock"), PATIENCE).await?;
            let own = file.clone();
            on_disk("write", &file, move || {
                let _held = held;
                let mut written = read(&own);
                change(&mut written.refusals);
                written.version = VERSION;
                let text = serde_json::to_vec(&written).unwrap_or_default();
                let replaced = replace_file(&own, &text, REPLACE_OPTIONS);
                replaced.map(drop).map_err(|error| super::StoreError::disk("write", &own, error))
            })
            .await
        };
        if let Err(error) = changing.await {
            tracing::debug!(%error, "who was refused cannot be remembered");
        }
    }
}

impl AuthFailureCache {
    fn key(&self, refusal: &AuthFailure) -> String {
        digest(&format!("{}\n{}\n{}", refusal.endpoint, self.profile, refusal.shown))
    }

    fn whose(&self, endpoint: &str) -> String {
        digest(&format!("{endpoint}\n{}", self.profile))
    }
}

/// What is in the file; nothing where it cannot be understood.
fn read(file: &Path) -> Written {
    let mut text = Vec::new();
    let regular = std::fs::metadata(file).is_ok_and(|found| found.is_file());
    let opened = regular.then(|| std::fs::File::open(file).ok()).flatten();
    let read = opened.and_then(|opened| opened.take(LARGEST).read_to_end(&mut text).ok());
    let written = read.and_then(|_| serde_json::from_slice::<Written>(&text).ok());
    written.filter(|written| written.version == VERSION).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn refusal(endpoint: &str, shown: &str) -> AuthFailure {
        AuthFailure { endpoint: endpoint.to_owned(), shown: shown.to_owned() }
    }

    #[tokio::test]
    async fn only_the_same_refusal_is_known_and_only_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        for refusals in
            [AuthFailureCache::default(), AuthFailureCache::with_file(folder.path().join("deep/refusals.json"))]
        {
            let one = refusal("https://a.example/mcp", "secret-1");
            assert_eq!(refusals.recall(&one).await, None);
            refusals.note(&one, 401).await;
            assert!(refusals.recall(&one).await.is_some());
            assert_eq!(refusals.recall(&refusal("https://b.example/mcp", "secret-1")).await, None);
            assert_eq!(refusals.recall(&refusal("https://a.example/mcp", "secret-2")).await, None);
            refusals.note(&refusal("https://a.example/mcp", "secret-3"), 401).await;
            refusals.note(&refusal("https://b.example/mcp", ""), 401).await;
            refusals.forget("https://a.example/mcp").await;
            assert_eq!(refusals.recall(&one).await, None);
            assert!(refusals.recall(&refusal("https://b.example/mcp", "")).await.is_some());
            let others = refusals.of("work");
            assert_eq!(others.recall(&refusal("https://b.example/mcp", "")).await, None);
        }
        let text = std::fs::read_to_string(folder.path().join("deep/refusals.json")).unwrap();
        assert!(!text.contains("secret") && !text.contains("example"), "{text}");
        let brief = AuthFailureCache::default().lasting(Duration::ZERO);
        brief.note(&refusal("x", "y"), 401).await;
        assert_eq!(brief.recall(&refusal("x", "y")).await, None);
    }

    #[tokio::test]
    async fn fifty_who_write_at_once_leave_fifty_entries() {
        let folder = tempfile::tempdir().unwrap();
        let file = Arc::new(folder.path().join("refusals.json"));
        let mut writers = tokio::task::JoinSet::new();
        for number in 0..50 {
            let file = Arc::clone(&file);
            writers.spawn(async move {
                AuthFailureCache::with_file(&*file).note(&refusal(&format!("https://{number}.example"), ""), 401).await;
            });
        }
        writers.join_all().await;
        let written: Written = serde_json::from_slice(&std::fs::read(&*file).unwrap()).unwrap();
        assert_eq!(written.refusals.len(), 50);
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_understood_is_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("refusals.json");
        for odd in ["", "{", r#"{"version": 9, "refusals": {}}"#] {
            std::fs::write(&file, odd).unwrap();
            let refusals = AuthFailureCache::with_file(&file);
            let one = refusal("https://a.example", "");
            assert_eq!(refusals.recall(&one).await, None);
            refusals.note(&one, 401).await;
            assert!(refusals.recall(&one).await.is_some());
        }
    }
}
