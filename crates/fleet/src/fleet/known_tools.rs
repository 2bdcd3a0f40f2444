//! The last tool list of a connected server.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wharf_protocol::{Listed, Tool};

use crate::catalog::{ExecutionError, ToolFreshness};

/// The last tool list of a connected server, for quick comparison.
pub(super) struct KnownTools {
    pub(super) tools: Arc<Listed<Tool>>,
    /// The epoch of the session that they were listed on.
    pub(super) epoch: u64,
    by_name: HashMap<Arc<str>, Arc<Tool>>,
    /// The address of each tool in memory, sorted.
    addresses: Vec<usize>,
    is_latest: AtomicBool,
}

impl KnownTools {
    pub(super) fn new(tools: Arc<Listed<Tool>>, epoch: u64) -> Self {
        let by_name = tools.items.iter().map(|tool| (Arc::clone(&tool.name), Arc::clone(tool))).collect();
        let mut addresses: Vec<usize> = tools.items.iter().map(|tool| Arc::as_ptr(tool).addr()).collect();
        addresses.sort_unstable();
        Self { tools, epoch, by_name, addresses, is_latest: AtomicBool::new(true) }
    }

    /// An empty list that was never the latest, for tools that the server has not listed.
    pub(super) fn unlisted() -> Self {
        let unlisted = Self::new(Arc::default(), 0);
        unlisted.retire();
        unlisted
    }

    /// Whether no newer list has replaced this one.
    pub(super) fn is_latest(&self) -> bool {
        self.is_latest.load(Ordering::Acquire)
    }

    /// Marks the list as replaced.
    pub(super) fn retire(&self) {
        self.is_latest.store(false, Ordering::Release);
    }

    /// Compares a tool of an earlier list with this list.
    pub(super) fn compare(&self, tool: &Arc<Tool>) -> ToolFreshness {
        // Nearly always it is the same object, which is quick to see.
        if self.addresses.binary_search(&Arc::as_ptr(tool).addr()).is_ok() {
            return ToolFreshness::Same;
        }
        match self.by_name.get(&tool.name) {
            None => ToolFreshness::Gone,
            Some(now) if now.raw.as_str() == tool.raw.as_str() => ToolFreshness::Same,
            Some(now) => ToolFreshness::Changed(Arc::clone(now)),
        }
    }

    /// The epoch to call a tool in, if it is still the same.
    pub(super) fn epoch_of(&self, tool: &Arc<Tool>) -> Result<u64, ExecutionError> {
        match self.compare(tool) {
            ToolFreshness::Same => Ok(self.epoch),
            _ => Err(ExecutionError::ToolChanged),
        }
    }
}
