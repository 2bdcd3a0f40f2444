//! The catalog and the dispatcher of a set of tools.

use std::sync::{Arc, Mutex, PoisonError};

use wharf_fleet::Turn;

/// The catalog and the dispatcher that tools share, until their scope ends.
pub(super) struct Toolset(Mutex<Option<Arc<Turn>>>);

impl Toolset {
    pub(super) fn new(turn: Option<Arc<Turn>>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(turn)))
    }

    /// Returns the catalog and the dispatcher; `None` after the end.
    pub(super) fn turn(&self) -> Option<Arc<Turn>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Drops the catalog and the dispatcher. Calls in flight continue.
    pub(super) fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
