//! Writes of a trial that are queued and not known to be durable yet.

use std::sync::{Mutex, PoisonError};

use futures_util::future::join_all;

use crate::store::{Commit, StoreError};

/// Writes that are queued at most before the journal waits for them.
const MAX_PENDING: usize = 64;

/// The queued writes of one trial.
#[derive(Default)]
pub(crate) struct PendingCommits(Mutex<Vec<Commit>>);

impl PendingCommits {
    /// Adds a write. Waits if too many are queued.
    pub(crate) async fn push(&self, commit: Commit) -> Result<(), StoreError> {
        let is_full = {
            let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            pending.push(commit);
            pending.len() >= MAX_PENDING
        };
        if is_full { self.settle().await } else { Ok(()) }
    }

    /// Waits until the writes so far are durable. Returns the first error.
    pub(crate) async fn settle(&self) -> Result<(), StoreError> {
        let pending = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        join_all(pending).await.into_iter().collect()
    }
}
