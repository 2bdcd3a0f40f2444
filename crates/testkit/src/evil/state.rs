//! State that an evil peer shares with its connections: faults and byte counts.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::fault::NetworkFault;

pub(super) struct Shared {
    pub(super) faults: watch::Sender<Faults>,
    pub(super) connections: AtomicU64,
    pub(super) counts: Mutex<Counts>,
}

/// The fault of each connection.
#[derive(Default)]
pub(super) struct Faults {
    pub(super) default: NetworkFault,
    pub(super) by_connection: HashMap<u64, NetworkFault>,
}

/// Bytes forwarded on one connection.
pub(super) struct Counts {
    connection: u64,
    pub(super) to_client: usize,
    pub(super) to_server: usize,
}

impl Counts {
    pub(super) fn of(connection: u64) -> Self {
        Self { connection, to_client: 0, to_server: 0 }
    }
}

impl Shared {
    pub(super) fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates the counts, if they belong to this connection.
    pub(super) fn count(&self, connection: u64, update: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts();
        if counts.connection == connection {
            update(&mut counts);
        }
    }
}

impl Faults {
    pub(super) fn of(&self, connection: u64) -> NetworkFault {
        self.by_connection.get(&connection).unwrap_or(&self.default).clone()
    }
}
