//! Counts a server's protocol violations and other misbehavior. The counts never affect calls.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

/// Counts of a server's misbehavior since its session was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Lines on stdout that were not messages.
    pub noise: u64,
    /// Messages that violated the protocol.
    pub violations: u64,
    /// Answers without a pending call: late, repeated or unsolicited.
    pub stray_answers: u64,
    /// Notifications dropped because the host was too slow.
    pub lost_notices: u64,
    /// Connections established.
    pub connections: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) noise: AtomicU64,
    pub(crate) violations: AtomicU64,
    pub(crate) stray_answers: AtomicU64,
    pub(crate) lost_notices: AtomicU64,
    pub(crate) connections: AtomicU64,
    /// Connections opened, including those whose handshake failed.
    pub(crate) opened: AtomicU64,
    last_noise: Mutex<Option<String>>,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn record_noise(&self, line: &str) {
        Self::add(&self.noise);
        let line: String = line.chars().take(200).collect();
        *self.last_noise.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
    }

    pub(crate) fn last_noise(&self) -> Option<String> {
        self.last_noise.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn snapshot(&self) -> Health {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Health {
            noise: read(&self.noise),
            violations: read(&self.violations),
            stray_answers: read(&self.stray_answers),
            lost_notices: read(&self.lost_notices),
            connections: read(&self.connections),
        }
    }
}
