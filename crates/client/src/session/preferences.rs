//! What the host asked of a server for the whole session, on whichever connection.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use crate::LogLevel;

/// The log level and resource subscriptions that every connection of a session restores.
#[derive(Debug, Default)]
pub(super) struct Preferences {
    log_level: Mutex<Option<LogLevel>>,
    /// URIs of the subscribed resources.
    resources: watch::Sender<BTreeSet<String>>,
}

impl Preferences {
    pub(super) fn log_level(&self) -> Option<LogLevel> {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_log_level(&self, level: LogLevel) {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
    }

    pub(super) fn resources(&self) -> watch::Receiver<BTreeSet<String>> {
        self.resources.subscribe()
    }

    /// Adds a resource; returns `false` if it was already present.
    pub(super) fn add_resource(&self, uri: &str) -> bool {
        self.resources.send_if_modified(|resources| resources.insert(uri.to_owned()))
    }

    /// Removes a resource; returns `false` if it was absent.
    pub(super) fn remove_resource(&self, uri: &str) -> bool {
        self.resources.send_if_modified(|resources| resources.remove(uri))
    }
}
