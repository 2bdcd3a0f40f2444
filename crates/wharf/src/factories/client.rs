//! A client for one server behind Streamable HTTP: a session, and whether it may still be used.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use wharf_client::{Deadlines, Http, InvalidRemote, NoHost, RemoteOptions, Session, SessionOptions};
use wharf_io::HttpSettings;
use wharf_protocol::{Json, Listed, ServerName, Tool, ToolOutput};

use super::ToolError;

/// One MCP server. Nothing happens until it is called; after [`McpClient::close`] it can be called again.
///
/// Cloning gives another handle to the same client. Whoever makes one closes it: dropping the last handle of a client
/// that is connected cuts the server off without a word, and is warned of.
#[derive(Clone)]
pub struct McpClient {
    inner: Arc<Inner>,
}

/// How a client behaves. It cannot be changed once the client is made.
#[derive(Clone)]
pub struct ClientOptions {
    /// Headers for every request. Their values are not shown anywhere.
    pub headers: Vec<(String, String)>,
    /// The limit for a whole call.
    pub timeout: Duration,
    /// How often a call is sent again because the server has lost the session.
    pub max_retries: u32,
    /// How connections are made: proxies, trust.
    pub http: HttpSettings,
}

struct Inner {
    name: ServerName,
    url: String,
    timeout: Duration,
    max_retries: u32,
    /// `None` once the scope that it was made for has ended.
    session: Mutex<Option<Session>>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self { headers: Vec::new(), timeout: Duration::from_secs(600), max_retries: 1, http: HttpSettings::default() }
    }
}

impl McpClient {
    /// A client for the server at `url`.
    pub fn new(name: ServerName, url: &str, options: ClientOptions) -> Result<Self, InvalidRemote> {
        let ClientOptions { headers, timeout, max_retries, http } = options;
        let transport = Http::new(url, RemoteOptions { http, headers, ..RemoteOptions::default() })?;
        let deadlines = Deadlines { total: Some(timeout), ..Deadlines::default() };
        let options = SessionOptions { deadlines, session_retries: max_retries, ..SessionOptions::default() };
        let session = Mutex::new(Some(Session::new(name.clone(), transport, NoHost, options)));
        Ok(Self { inner: Arc::new(Inner { name, url: url.to_owned(), timeout, max_retries, session }) })
    }

    /// Calls a tool by the name that the server gave it.
    pub async fn call_tool(&self, name: &str, arguments: &Json) -> Result<ToolOutput, ToolError> {
        let session = self.session().ok_or_else(|| self.ended(name))?;
        session.call(name, arguments).await.map_err(|error| ToolError::Call(Box::new(error)))
    }

    /// The tools that the server has now.
    pub async fn list_tools(&self) -> Result<Listed<Tool>, ToolError> {
        let session = self.session().ok_or_else(|| self.ended("tools/list"))?;
        session.list_tools().await.map_err(|error| ToolError::Call(Box::new(error)))
    }

    /// Ends the session in good order. The next call begins another.
    pub async fn close(&self) {
        if let Some(session) = self.session() {
            session.close().await;
        }
    }

    /// The server's name.
    pub fn name(&self) -> &ServerName {
        &self.inner.name
    }

    /// Where the server is.
    pub fn url(&self) -> &str {
        &self.inner.url
    }

    /// The limit for a whole call.
    pub fn timeout(&self) -> Duration {
        self.inner.timeout
    }

    /// How often a call is sent again because the server has lost the session.
    pub fn max_retries(&self) -> u32 {
        self.inner.max_retries
    }

    /// The id under which the server keeps the session; none before the first call and after closing.
    pub fn session_id(&self) -> Option<String> {
        self.session()?.session_id()
    }

    /// Whether there is a connection whose handshake is done.
    pub fn is_client_initialized(&self) -> bool {
        self.session().is_some_and(|session| session.is_connected())
    }

    /// Lets nobody call any more. What is under way goes on.
    pub(super) fn end(&self) {
        let session = self.inner.session.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(session) = session {
            warn_if_connected(&session);
        }
    }

    fn session(&self) -> Option<Session> {
        self.inner.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn ended(&self, tool: &str) -> ToolError {
        ToolError::Ended { server: self.inner.name.clone(), tool: tool.to_owned() }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(session) = self.session.get_mut().unwrap_or_else(PoisonError::into_inner) {
            warn_if_connected(session);
        }
    }
}

fn warn_if_connected(session: &Session) {
    if session.is_connected() {
        tracing::warn!(server = %session.name(), "an MCP client was dropped without being closed");
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
