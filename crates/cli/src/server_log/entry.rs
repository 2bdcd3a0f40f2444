//! One line of a server's log.

use serde::{Deserialize, Serialize};
use wharf::fleet::ServerState;

/// One line of a server's log.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LogLine {
    /// RFC 3339, in UTC.
    pub(crate) time: String,
    /// Identifies the run of the program.
    pub(crate) run: String,
    #[serde(flatten)]
    pub(crate) event: LogEvent,
}

/// What happened to a server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum LogEvent {
    /// A command began to use the server.
    Start { command: String, pid: u32, directory: String },
    /// The server's state changed.
    State {
        state: ServerState,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        protocol: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tools: Option<usize>,
    },
    /// The command closed the server.
    Closed,
    /// The server wrote a line to stderr.
    Stderr { line: String },
    /// Entries are missing, because the server wrote faster than the disk.
    Dropped { count: u64 },
}
