//! What the checks of a server look at.

use std::time::Duration;

use wharf::config::ConfiguredServer;
use wharf::fleet::{Fleet, ServerStatus};

use crate::globals::Globals;

/// A server after its connection attempt.
pub(super) struct Probe<'a> {
    pub(super) found: &'a ConfiguredServer,
    pub(super) status: &'a ServerStatus,
    pub(super) fleet: &'a Fleet,
    pub(super) globals: &'a Globals,
    /// How long it took until the server was ready, or had failed.
    pub(super) took: Duration,
}
