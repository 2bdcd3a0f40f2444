//! The status of a server: one of five states, with its reason and its time.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use wharf_client::{CallError, ServerInfo};
use wharf_protocol::ServerName;

use wharf_config::{Scope, TransportKind};

/// The states of a server. Only a connected server has tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerState {
    /// Connected, with its tools listed.
    Connected,
    /// Not usable, and not about to be.
    Failed,
    /// Requires a sign-in.
    NeedsAuth,
    /// Not connected yet, or not connected again.
    Pending,
    /// Disabled by the configuration, the user or the host.
    Disabled,
}

/// Why a server is in its state.
#[derive(Clone, Debug)]
pub enum StateReason {
    /// It waits for a free place among the connecting servers.
    Queued,
    /// It is connecting.
    Connecting,
    /// It connects when it is first used.
    OnDemand,
    /// It needs approval first. The text explains it to the user.
    Held(String),
    /// It is disabled. The text explains it to the user.
    SwitchedOff(String),
    /// The fleet closed it, or it was removed.
    Closed,
    /// The rules do not permit it. The text explains it to the user.
    Refused(String),
    /// The last attempt failed.
    Error(Arc<CallError>),
}

/// The state of one server, and everything known about it.
#[derive(Clone, Debug)]
pub struct ServerStatus {
    /// The server's name.
    pub name: ServerName,
    /// The scope that configures it.
    pub scope: Scope,
    /// Its transport: `stdio`, `http`, `sse`, `ws` or `sdk`.
    pub transport: TransportKind,
    /// Whether the configuration requires it.
    pub required: bool,
    /// The current state.
    pub state: ServerState,
    /// The reason of the state; `None` for a connected server.
    pub reason: Option<StateReason>,
    /// When the state began.
    pub since: Instant,
    /// The number of failures in a row.
    pub failures: u32,
    /// The time of the next automatic attempt, if one is scheduled.
    pub next_try: Option<Instant>,
    /// The number of usable tools.
    pub tools: usize,
    /// The server's handshake; `None` unless it is connected.
    pub info: Option<Arc<ServerInfo>>,
    /// Why its tool list could not be refreshed, if the list is outdated.
    pub stale: Option<Arc<CallError>>,
    /// Whether at least one attempt has finished, or none is planned.
    pub settled: bool,
}

impl ServerState {
    /// The name of the state in files and outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Failed => "failed",
            Self::NeedsAuth => "needs-auth",
            Self::Pending => "pending",
            Self::Disabled => "disabled",
        }
    }
}

impl fmt::Display for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl ServerStatus {
    /// The error that caused the state, if any.
    pub fn error(&self) -> Option<&CallError> {
        match &self.reason {
            Some(StateReason::Error(error)) => Some(error),
            _ => None,
        }
    }
}

/// Displays the reason without the server's name.
impl fmt::Display for StateReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queued => f.write_str("queued"),
            Self::Connecting => f.write_str("connecting"),
            Self::Closed => f.write_str("closed"),
            Self::OnDemand => f.write_str("connects on first use"),
            Self::Held(text) | Self::SwitchedOff(text) | Self::Refused(text) => f.write_str(text),
            Self::Error(error) => write!(f, "{}", error.kind),
        }
    }
}
