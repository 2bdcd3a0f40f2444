//! Options, servers and errors of a fleet.

use std::sync::Arc;

use wharf_client::{Host, NoHost, SavedSession, SessionOptions};
use wharf_config::Server;
use wharf_protocol::ServerName;

use super::host_environment::HostEnvironment;
use super::reconnection::Reconnection;
use super::sign_in::SignInPrompt;
use crate::catalog::Entry;

/// The default number of servers with a local process that connect at the same time.
pub const LOCAL_GATE: usize = 3;
/// The default number of remote servers that connect at the same time.
pub const REMOTE_GATE: usize = 20;

/// Creates the host of a server's session, which answers the server's requests.
pub type HostFactory = Arc<dyn Fn(&ServerName) -> Arc<dyn Host> + Send + Sync>;
/// Decides whether a server is permitted; the error is the reason why not.
pub type ServerFilter = Arc<dyn Fn(&Server) -> Result<(), String> + Send + Sync>;

/// The options of a fleet.
#[derive(Clone)]
pub struct FleetOptions {
    /// How many servers with a local process connect at the same time.
    pub local_gate: usize,
    /// How many remote servers connect at the same time.
    pub remote_gate: usize,
    /// What the host provides to servers.
    pub host_environment: HostEnvironment,
    /// The options of all sessions, unless a server's settings override them.
    ///
    /// Without a limit of its own, a session stores descriptions as models see them: cut. A host that shows descriptions in
    /// full sets a higher limit; models see no more than before.
    pub session: SessionOptions,
    /// Sessions to resume, which [`Fleet::close_keeping_sessions`](super::Fleet::close_keeping_sessions) has left with
    /// servers at the same addresses.
    pub resume: Vec<Arc<SavedSession>>,
    /// Creates the host of each session.
    pub hosts: HostFactory,
    /// When servers that failed are tried again.
    pub reconnection: Reconnection,
    /// Whether the first attempt ignores cached authorization failures, for users who want the current state.
    pub ignore_auth_failure_cache: bool,
    /// Guides the user through a sign-in that the model requests. Without it, the tool `authenticate` does not exist.
    pub sign_in_prompt: Option<SignInPrompt>,
    /// The host's own tools, which are in every catalog.
    pub own_tools: Vec<Arc<Entry>>,
    /// Decides about servers that are added while running.
    pub server_filter: ServerFilter,
}

/// A server of a fleet.
#[derive(Clone, Debug)]
pub struct ServerSpec {
    /// The server.
    pub server: Server,
    /// Why it does not connect at once; `None` if it does.
    pub disabled: Option<DisabledReason>,
}

/// Why a server of the fleet is not connected. The text explains it to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DisabledReason {
    /// It connects when it is first used, or by [`Fleet::connect`](super::Fleet::connect).
    OnDemand,
    /// It needs approval.
    Approval(String),
    /// It is disabled.
    SwitchedOff(String),
    /// It is disabled, and [`Fleet::enable`](super::Fleet::enable) does not enable it: it also lacks an approval or
    /// something else.
    Locked(String),
    /// The rules do not permit it.
    Refused(String),
}

/// Why an operation on a server of the fleet failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    /// The fleet has no such server.
    #[error("unknown server `{0}`")]
    Unknown(ServerName),
    /// The fleet has a server with this name.
    #[error("server `{0}` already exists")]
    Exists(ServerName),
    /// The rules do not permit the server.
    #[error("server `{0}` is not permitted: {1}")]
    Refused(ServerName, String),
    /// The server needs an approval, or the rules do not permit it.
    #[error("server `{0}` cannot be enabled: {1}")]
    Held(ServerName, String),
    /// The fleet is closed.
    #[error("the fleet is closed")]
    Closed,
}

impl Default for FleetOptions {
    fn default() -> Self {
        Self {
            local_gate: LOCAL_GATE,
            remote_gate: REMOTE_GATE,
            host_environment: HostEnvironment::default(),
            session: SessionOptions::default(),
            resume: Vec::new(),
            hosts: Arc::new(|_| Arc::new(NoHost)),
            reconnection: Reconnection::default(),
            ignore_auth_failure_cache: false,
            sign_in_prompt: None,
            own_tools: Vec::new(),
            server_filter: Arc::new(|_| Ok(())),
        }
    }
}

impl From<Server> for ServerSpec {
    fn from(server: Server) -> Self {
        Self { server, disabled: None }
    }
}
