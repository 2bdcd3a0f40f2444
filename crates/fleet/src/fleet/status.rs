//! How a server is doing, in one of five states, with the reason and since when.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use wharf_client::{CallError, ServerInfo};
use wharf_protocol::ServerName;

use wharf_config::{Scope, TransportKind};

/// The states. Only a connected server has tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerState {
    /// Its tools are there.
    Connected,
    /// It cannot be used, and nobody knows when it can.
    Failed,
    /// It wants to know who we are.
    NeedsAuth,
    /// It is not there yet, or not there again.
    Pending,
    /// It is not wanted.
    Disabled,
}

/// Why a server is in its state.
#[derive(Clone, Debug)]
pub enum StateReason {
    /// Others are being connected before it.
    Queued,
    /// It is being connected.
    Connecting,
    /// It must not be started before somebody has said so; the words tell how.
    Held(String),
    /// Somebody switched it off; the words tell who.
    SwitchedOff(String),
    /// It may not be used; the words tell why.
    Refused(String),
    /// It failed.
    Error(Arc<CallError>),
}

/// One server's state, and all that is known about it.
#[derive(Clone, Debug)]
pub struct ServerStatus {
    /// The server.
    pub name: ServerName,
    /// Who configured it.
    pub scope: Scope,
    /// How it is reached.
    pub transport: TransportKind,
    /// Whether nothing may be done without it.
    pub required: bool,
    /// Its state.
    pub state: ServerState,
    /// Why; a connected server needs no reason.
    pub reason: Option<StateReason>,
    /// Since when it is in this state.
    pub since: Instant,
    /// How often it has failed in a row.
    pub failures: u32,
    /// When it is tried again by itself, if it is.
    pub next_try: Option<Instant>,
    /// How many tools it has that can be used.
    pub tools: usize,
    /// Who it says it is; `None` unless it is connected.
    pub info: Option<Arc<ServerInfo>>,
    /// Why its list of tools is an older one, if it is.
    pub stale: Option<Arc<CallError>>,
    /// Whether it has been tried to the end at least once, or is not going to be tried.
    pub settled: bool,
}

impl ServerState {
    /// In a word, as it is written everywhere.
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
    /// The error behind the state, if there is one.
    pub fn error(&self) -> Option<&CallError> {
        match &self.reason {
            Some(StateReason::Error(error)) => Some(error),
            _ => None,
        }
    }
}

/// Without the server's name, which stands beside it.
impl fmt::Display for StateReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queued => f.write_str("waits for its turn"),
            Self::Connecting => f.write_str("connecting"),
            Self::Held(words) | Self::SwitchedOff(words) | Self::Refused(words) => f.write_str(words),
            Self::Error(error) => write!(f, "{}", error.kind),
        }
    }
}
