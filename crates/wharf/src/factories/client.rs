//! A client of one MCP server: one server of a fleet.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use wharf_client::{
    CallError, CallErrorKind, ConnectErrorKind, Evidence, Http, InvalidRemote, RemoteOptions, Session, SessionOptions,
};
use wharf_config::{OAuthSettings, RemoteConfig, Scope, Server, TransportConfig};
use wharf_fleet::{DisabledReason, Fleet, FleetOptions, HostEnvironment, ServerSpec, ServerState};
use wharf_io::HttpSettings;
use wharf_protocol::{Json, Listed, Secret, ServerName, Tool, ToolOutput};

use super::LIST_TIMEOUT;
use super::error::ToolError;
use super::lazy_fleet::LazyFleet;

/// A client of one MCP server over Streamable HTTP. It connects with the first call, and after [`McpClient::close`] with the
/// next one.
///
/// Cloning returns another handle to the same client. The creator closes it: dropping the last handle of a connected client
/// cuts the connection off and logs a warning.
#[derive(Clone)]
pub struct McpClient {
    inner: Arc<Inner>,
}

/// The options of a client, fixed at its creation.
#[derive(Clone)]
pub struct ClientOptions {
    /// Headers of every request. `Debug` hides their values.
    pub headers: Vec<(String, String)>,
    /// The total timeout of a call.
    pub timeout: Duration,
    /// How often a call is sent again because the server has lost the session.
    pub max_retries: u32,
    /// Network settings: proxies, certificates.
    pub http: HttpSettings,
}

/// The name and URL of a server.
pub(super) struct Endpoint {
    pub(super) name: ServerName,
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
}

struct Inner {
    name: ServerName,
    url: String,
    timeout: Duration,
    max_retries: u32,
    fleet: Arc<LazyFleet>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self { headers: Vec::new(), timeout: Duration::from_secs(600), max_retries: 1, http: HttpSettings::default() }
    }
}

impl McpClient {
    /// Creates a client of the server at `url`.
    pub fn new(name: ServerName, url: &str, options: &ClientOptions) -> Result<Self, InvalidRemote> {
        let endpoint = Endpoint { name, url: url.to_owned(), headers: options.headers.clone() };
        let check = RemoteOptions { headers: endpoint.headers.clone(), ..RemoteOptions::default() };
        Http::new(url, check)?;
        let fleet = LazyFleet::new(vec![endpoint.spec(options)], fleet_options(options));
        Ok(Self::of_fleet(endpoint, options, fleet))
    }

    /// Creates the clients of several servers in one fleet.
    pub(super) fn of_all(endpoints: Vec<Endpoint>, options: &ClientOptions) -> Vec<Self> {
        let specs = endpoints.iter().map(|endpoint| endpoint.spec(options)).collect();
        let fleet = LazyFleet::new(specs, fleet_options(options));
        endpoints.into_iter().map(|endpoint| Self::of_fleet(endpoint, options, Arc::clone(&fleet))).collect()
    }

    fn of_fleet(endpoint: Endpoint, options: &ClientOptions, fleet: Arc<LazyFleet>) -> Self {
        let Endpoint { name, url, .. } = endpoint;
        let ClientOptions { timeout, max_retries, .. } = *options;
        Self { inner: Arc::new(Inner { name, url, timeout, max_retries, fleet }) }
    }

    /// Calls a tool by its name on the server, in the client's session. [`AgentTool::call`](super::AgentTool::call) goes
    /// through the dispatcher, with its checks and policy.
    pub async fn call_tool(&self, name: &str, arguments: &Json) -> Result<ToolOutput, ToolError> {
        let (fleet, session) = self.connected(name).await?;
        let result = session.call(name, arguments).await;
        drop(fleet);
        result.map_err(|error| ToolError::Call(Box::new(error)))
    }

    /// Returns the tools that the server offers now.
    pub async fn list_tools(&self) -> Result<Arc<Listed<Tool>>, ToolError> {
        let (fleet, _) = self.connected("tools/list").await?;
        fleet.listed(&self.inner.name).ok_or_else(|| self.unavailable(&fleet))
    }

    /// Ends the session gracefully. The next call starts another.
    pub async fn close(&self) {
        if let Some(fleet) = self.inner.fleet.get() {
            // The server is unknown only after the fleet is closed.
            let _ = fleet.disconnect(&self.inner.name).await;
        }
    }

    /// The server's name.
    pub fn name(&self) -> &ServerName {
        &self.inner.name
    }

    /// The server's URL.
    pub fn url(&self) -> &str {
        &self.inner.url
    }

    /// The total timeout of a call.
    pub fn timeout(&self) -> Duration {
        self.inner.timeout
    }

    /// How often a call is sent again because the server has lost the session.
    pub fn max_retries(&self) -> u32 {
        self.inner.max_retries
    }

    /// The id of the session on the server; `None` before the first call and after closing.
    pub fn session_id(&self) -> Option<String> {
        self.inner.fleet.get()?.session(&self.inner.name)?.session_id()
    }

    /// Whether the client is connected.
    pub fn is_client_initialized(&self) -> bool {
        self.inner.is_connected()
    }

    /// Opens the fleet; an error if its scope has ended.
    pub(super) fn open_fleet(&self, tool: &str) -> Result<Fleet, ToolError> {
        let ended = || ToolError::Closed { server: self.inner.name.clone(), tool: tool.to_owned() };
        self.inner.fleet.open().ok_or_else(ended)
    }

    /// Ends the client for all its handles.
    pub(super) fn end(&self) {
        self.inner.warn_if_connected();
        self.inner.fleet.end();
    }

    async fn connected(&self, tool: &str) -> Result<(Fleet, Session), ToolError> {
        let fleet = self.open_fleet(tool)?;
        // A server that cannot be connected has a status that says why.
        let _ = fleet.connect(&self.inner.name).await;
        match fleet.session(&self.inner.name) {
            Some(session) => Ok((fleet, session)),
            None => Err(self.unavailable(&fleet)),
        }
    }

    fn unavailable(&self, fleet: &Fleet) -> ToolError {
        let name = &self.inner.name;
        let status = fleet.status(name);
        if let Some(error) = status.as_ref().and_then(|status| status.error()) {
            return ToolError::Call(Box::new(error.clone()));
        }
        let reason = status.map_or_else(|| "removed".to_owned(), |status| status.state.to_string());
        let kind = CallErrorKind::Connect(ConnectErrorKind::Transport(format!("the server is {reason}")));
        ToolError::Call(Box::new(CallError { server: name.clone(), kind, evidence: Evidence::default() }))
    }
}

impl Endpoint {
    fn spec(&self, options: &ClientOptions) -> ServerSpec {
        let headers = self.headers.iter().map(|(name, value)| (name.clone(), Secret::new(value.as_str())));
        let remote = RemoteConfig {
            url: self.url.clone(),
            headers: headers.collect(),
            headers_helper: None,
            oauth: OAuthSettings::default(),
        };
        let mut server = Server::new(self.name.clone(), Scope::Dynamic, TransportConfig::Http(remote));
        server.settings.timeout = Some(options.timeout);
        server.settings.connect_timeout = Some(LIST_TIMEOUT);
        ServerSpec { server, disabled: Some(DisabledReason::OnDemand) }
    }
}

fn fleet_options(options: &ClientOptions) -> FleetOptions {
    let http = options.http.clone();
    FleetOptions {
        host_environment: HostEnvironment {
            network: Arc::new(move |_, connect| Ok(HttpSettings { connect, ..http.clone() })),
            ..HostEnvironment::default()
        },
        session: SessionOptions { session_retries: options.max_retries, ..SessionOptions::default() },
        ..FleetOptions::default()
    }
}

impl Inner {
    fn is_connected(&self) -> bool {
        let status = self.fleet.get().and_then(|fleet| fleet.status(&self.name));
        status.is_some_and(|status| status.state == ServerState::Connected)
    }

    fn warn_if_connected(&self) {
        if self.is_connected() {
            tracing::warn!(server = %self.name, "an MCP client was dropped without being closed");
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.warn_if_connected();
    }
}

impl fmt::Debug for McpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpClient")
            .field("name", &self.inner.name)
            .field("url", &self.inner.url)
            .finish_non_exhaustive()
    }
}

/// Without the headers' values, which are often secrets.
impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ClientOptions")
            .field("headers", &names)
            .field("timeout", &self.timeout)
            .field("max_retries", &self.max_retries)
            .field("http", &self.http)
            .finish()
    }
}
