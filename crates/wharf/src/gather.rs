//! The tools of several servers at once, for hosts that need nothing else of a fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use wharf_client::{CallError, CallErrorKind, ConnectErrorKind, Session};
use wharf_config::{Pattern, Server, ToolChoice};
use wharf_fleet::{Catalog, Entry, Fleet, FleetOptions, Reconnection, ServerSpec, ServerState, ServerStatus};
use wharf_protocol::ServerName;

/// How long one server may take to connect and to list its tools.
pub const SERVER_LIMIT: Duration = Duration::from_secs(30);
/// How long all servers may take together.
pub const OVERALL_LIMIT: Duration = Duration::from_secs(45);

/// One tool, with its server and the session to call it on.
#[derive(Clone)]
pub struct Gathered {
    /// The server's name.
    pub server: ServerName,
    /// The server's session.
    pub session: Session,
    /// The tool's catalog entry.
    pub entry: Arc<Entry>,
}

/// Why tools could not be described.
#[derive(Debug, thiserror::Error)]
pub enum DescribeError {
    /// A server failed.
    #[error(transparent)]
    Server(#[from] Box<CallError>),
    /// A server took too long.
    #[error("{server}: did not list its tools within {} s", limit.as_secs())]
    ServerTimeout {
        /// The server's name.
        server: ServerName,
        /// Its timeout.
        limit: Duration,
    },
    /// All servers together took too long.
    #[error("failed to list the tools of all servers within {} s; still waiting for {}", limit.as_secs(), names(waiting))]
    Timeout {
        /// The timeout.
        limit: Duration,
        /// The servers that had not answered.
        waiting: Vec<ServerName>,
    },
}

fn names(servers: &[ServerName]) -> String {
    servers.iter().map(ServerName::as_str).collect::<Vec<_>>().join(", ")
}

/// Connects all servers at the same time, each once. Returns the fleet, which closes them, and the servers that failed.
pub async fn connect_all(servers: impl IntoIterator<Item = Server>) -> (Fleet, Vec<ServerStatus>) {
    let fleet = open(servers);
    fleet.settled(Duration::MAX).await;
    let is_missing = |status: &ServerStatus| status.state != ServerState::Connected;
    let missing = fleet.statuses().into_iter().filter(is_missing).collect();
    (fleet, missing)
}

/// Returns the tools of all connected servers, in the order of the servers' names.
pub fn all_tools(fleet: &Fleet) -> Vec<Gathered> {
    let mut gathered = Vec::new();
    for entry in fleet.catalog().entries() {
        let Some(server) = &entry.server else { continue };
        if let Some(session) = fleet.session(server) {
            gathered.push(Gathered { server: server.clone(), session, entry: Arc::clone(entry) });
        }
    }
    gathered
}

/// Returns the full names and descriptions of the servers' tools, only those in `filter` if there is one. The filter
/// matches bare and full names.
///
/// Each server has [`SERVER_LIMIT`]; all together have `overall`. The servers are closed afterwards.
pub async fn tool_descriptions(
    servers: Vec<Server>,
    filter: Option<&BTreeSet<String>>,
    overall: Option<Duration>,
) -> Result<BTreeMap<String, String>, DescribeError> {
    let fleet = open(servers);
    let limit = overall.map_or(SERVER_LIMIT, |overall| overall.min(SERVER_LIMIT));
    fleet.settled(limit).await;
    let result = describe(&fleet, filter, overall);
    fleet.close().await;
    result
}

fn describe(
    fleet: &Fleet,
    filter: Option<&BTreeSet<String>>,
    overall: Option<Duration>,
) -> Result<BTreeMap<String, String>, DescribeError> {
    let statuses = fleet.statuses();
    let waiting: Vec<ServerName> =
        statuses.iter().filter(|status| !status.settled).map(|status| status.name.clone()).collect();
    if let Some(server) = waiting.first() {
        return Err(match overall.filter(|overall| *overall < SERVER_LIMIT) {
            Some(limit) => DescribeError::Timeout { limit, waiting },
            None => DescribeError::ServerTimeout { server: server.clone(), limit: SERVER_LIMIT },
        });
    }
    if let Some(error) = statuses.iter().find_map(ServerStatus::error) {
        return Err(match &error.kind {
            CallErrorKind::Connect(ConnectErrorKind::Timeout(_)) => {
                DescribeError::ServerTimeout { server: error.server.clone(), limit: SERVER_LIMIT }
            }
            _ => Box::new(error.clone()).into(),
        });
    }
    let allowed = filter.map(|filter| filter.iter().map(|name| Pattern::new(name)).collect());
    let catalog = fleet.catalog().choose(&ToolChoice { allowed, ..ToolChoice::default() });
    let described = catalog.offered().iter().map(|tool| (tool.name.to_string(), tool.description.to_string()));
    Ok(described.collect())
}

/// Replaces the descriptions of the tools that `overrides` names, by bare or full names. Others stay. Descriptions are cut
/// to 2048 characters.
pub fn override_descriptions(catalog: &mut Arc<Catalog>, overrides: &BTreeMap<String, String>) {
    let choice = ToolChoice { descriptions: overrides.clone(), ..ToolChoice::default() };
    *catalog = Arc::new(catalog.choose(&choice));
}

/// Opens a fleet whose servers all connect at the same time, each once.
fn open(servers: impl IntoIterator<Item = Server>) -> Fleet {
    let specs: Vec<ServerSpec> = servers.into_iter().map(ServerSpec::from).collect();
    let options = FleetOptions {
        local_gate: specs.len(),
        remote_gate: specs.len(),
        reconnection: Reconnection::NONE,
        ..FleetOptions::default()
    };
    Fleet::open(specs, options)
}
