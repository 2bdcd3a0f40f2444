//! Whether the tool list of a server is still valid.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

/// Counts the events after which a server's tools may differ, and the lists fetched since. The list is invalid until one
/// was requested after the last such event.
#[derive(Debug, Default)]
pub(super) struct ListInvalidation {
    invalidations: AtomicU64,
    /// The invalidations that a list has covered.
    covered: AtomicU64,
    /// The lists that arrived or failed.
    lists: AtomicU64,
    /// Whether the last list failed, so that the tools may still differ.
    has_failed: AtomicBool,
    /// The last epoch whose session the server is known to have lost. Lists of it are invalid.
    lost_epoch: AtomicU64,
    invalidated: Notify,
}

impl ListInvalidation {
    pub(super) fn invalidate(&self) {
        self.invalidations.fetch_add(1, Ordering::AcqRel);
        self.invalidated.notify_one();
    }

    /// Waits until the list is invalid.
    pub(super) async fn wait(&self) {
        while !self.is_invalid() {
            self.invalidated.notified().await;
        }
    }

    pub(super) fn is_invalid(&self) -> bool {
        self.invalidations.load(Ordering::Acquire) > self.covered.load(Ordering::Acquire)
    }

    /// Records that the server has lost the session of an epoch.
    pub(super) fn session_lost(&self, epoch: u64) {
        self.lost_epoch.fetch_max(epoch, Ordering::AcqRel);
    }

    /// Whether the session of an epoch, and with it every list of it, is lost.
    pub(super) fn is_lost(&self, epoch: u64) -> bool {
        epoch <= self.lost_epoch.load(Ordering::Acquire)
    }

    /// The number of invalidations; read it before requesting a list.
    pub(super) fn count(&self) -> u64 {
        self.invalidations.load(Ordering::Acquire)
    }

    /// Records that a list requested after `count` invalidations arrived, or that none is needed.
    pub(super) fn cover(&self, count: u64) {
        self.has_failed.store(false, Ordering::Release);
        self.end(count);
    }

    /// Records that a list requested after `count` invalidations failed. Nothing waits for the next one.
    pub(super) fn fail(&self, count: u64) {
        self.has_failed.store(true, Ordering::Release);
        self.end(count);
    }

    /// Whether the last list failed.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    fn end(&self, count: u64) {
        self.covered.fetch_max(count, Ordering::AcqRel);
        self.lists.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn lists(&self) -> u64 {
        self.lists.load(Ordering::Acquire)
    }

    /// Whether a list after the first `lists` has covered `count` invalidations.
    pub(super) fn is_covered(&self, count: u64, lists: u64) -> bool {
        self.covered.load(Ordering::Acquire) >= count && self.lists() > lists
    }
}
