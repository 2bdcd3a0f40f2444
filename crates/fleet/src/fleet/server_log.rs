//! What happens to servers, for a log of the host.

use std::fmt;
use std::sync::Arc;

use wharf_io::LineObserver;
use wharf_protocol::ServerName;

use super::status::ServerStatus;

/// Receives what happens to the servers of a fleet.
///
/// It is called by the tasks of the servers, so it must return quickly and must not block.
pub trait ServerLog: fmt::Debug + Send + Sync + 'static {
    /// Called with a server's status whenever its state or the reason of its state changes.
    fn state_changed(&self, status: &ServerStatus);

    /// Called with each line that a server's process writes to stderr.
    fn stderr(&self, server: &ServerName, line: &str);
}

/// Returns the observer of a server's stderr.
pub(super) fn stderr_observer(log: &Arc<dyn ServerLog>, server: &ServerName) -> LineObserver {
    let (log, server) = (Arc::clone(log), server.clone());
    LineObserver::new(move |line| log.stderr(&server, line))
}
