//! A server as it is run: without contradictions, and with defaults filled in.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wharf_client::{ProtocolMode, Transport};
use wharf_protocol::{Secret, ServerName};

use crate::pattern::Pattern;

/// The scope of a configuration. Earlier variants take precedence by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Set by the administrator of this machine.
    Enterprise,
    /// The user, for the current project.
    Local,
    /// The user, for all projects.
    User,
    /// The project, for everyone who works on it.
    Project,
    /// Added at run time or on the command line.
    Dynamic,
    /// Fetched from a provider.
    Cloud,
}

/// A configured server.
#[derive(Clone, Debug)]
pub struct Server {
    /// The unique name.
    pub name: ServerName,
    /// The scope it comes from.
    pub scope: Scope,
    /// The position of its entry; `None` if it has none.
    pub origin: Option<SourceLocation>,
    /// How to reach it.
    pub transport: TransportConfig,
    /// All settings that do not concern the transport.
    pub settings: Settings,
}

/// A position in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceLocation {
    /// The path of the file.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: usize,
}

/// The transport of a server, without its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransportKind {
    /// A child process, over its stdin and stdout.
    Stdio,
    /// Streamable HTTP, to a remote server or to a managed process.
    Http,
    /// HTTP with server-sent events.
    Sse,
    /// WebSocket.
    WebSocket,
    /// A transport that the host provides.
    Custom,
}

/// How to reach a server.
#[derive(Clone)]
pub enum TransportConfig {
    /// A child process, over its stdin and stdout.
    Stdio(StdioConfig),
    /// Streamable HTTP.
    Http(RemoteConfig),
    /// HTTP with server-sent events, the predecessor of Streamable HTTP.
    Sse(RemoteConfig),
    /// WebSocket.
    WebSocket(RemoteConfig),
    /// A child process, over HTTP.
    Managed(ManagedConfig),
    /// A transport of the host, such as one in the same process. The name identifies it.
    Custom(Arc<str>, Arc<dyn Transport>),
}

/// A child process.
#[derive(Clone, PartialEq, Eq)]
pub struct StdioConfig {
    /// The name or path of the program.
    pub command: String,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// Environment variables, in addition to the default ones.
    pub env: BTreeMap<String, Secret>,
    /// The working directory; `None` for that of the host.
    pub cwd: Option<PathBuf>,
}

/// A server with a URL.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteConfig {
    /// The URL of the endpoint.
    pub url: String,
    /// Headers of every request.
    pub headers: Vec<(String, Secret)>,
    /// A command that prints more headers as a JSON object.
    pub headers_helper: Option<HeadersHelper>,
    /// OAuth settings that are not discovered.
    pub oauth: OAuthSettings,
}

/// OAuth settings of a server. What is `None` is discovered from the server or registered dynamically.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OAuthSettings {
    /// The id of a registered client.
    pub client_id: Option<String>,
    /// The secret of the registered client.
    pub client_secret: Option<Secret>,
    /// The local port for the redirect after signing in.
    pub callback_port: Option<u16>,
    /// The scopes to request, instead of those that the server announces.
    pub scopes: Option<Vec<String>>,
    /// The URL of the authorization server's metadata, instead of the one that the server announces.
    pub metadata_url: Option<String>,
}

/// A command that prints headers as a JSON object.
#[derive(Clone, PartialEq, Eq)]
pub struct HeadersHelper {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// The working directory; `None` for that of the host.
    pub cwd: Option<PathBuf>,
}

/// A local HTTP server that is started and stopped with its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedConfig {
    /// The process to start.
    pub launch: StdioConfig,
    /// The address it listens on.
    pub host: IpAddr,
    /// The port it listens on.
    pub port: u16,
    /// The path of its endpoint.
    pub path: String,
    /// The file for its output; `None` for a file that the host chooses.
    pub log_path: Option<PathBuf>,
    /// Maximum time until it listens.
    pub startup_timeout: Duration,
    /// Maximum time until it exits after SIGTERM.
    pub shutdown_timeout: Duration,
    /// Headers of every request.
    pub headers: Vec<(String, Secret)>,
}

/// Settings of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Whether the server is used.
    pub enabled: bool,
    /// Whether it is an error if the server is unavailable.
    pub required: bool,
    /// Timeout of a whole call.
    pub timeout: Option<Duration>,
    /// Timeout of connecting; `None` for the default.
    pub connect_timeout: Option<Duration>,
    /// The protocol mode.
    pub protocol: ProtocolMode,
    /// Which tools are used, and their descriptions.
    pub tools: ToolChoice,
    /// Arguments that are always sent and hidden from the model: tool, argument, value.
    pub bindings: BTreeMap<String, Map<String, Value>>,
    /// Maximum length of tool outputs in tokens; `None` for the default.
    pub max_output_tokens: Option<usize>,
    /// Maximum size of a tool's definition in bytes; `None` for the default. A larger tool is left out.
    pub max_tool_bytes: Option<usize>,
    /// Which tools are offered at once, even if there are many.
    pub always_load: AlwaysLoad,
    /// Whether the server's instructions are shown to models.
    pub instructions: bool,
    /// A name for display.
    pub display_name: Option<String>,
}

/// Which tools of a server are offered at once, even if there are many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AlwaysLoad {
    /// The server may request it for its tools.
    #[default]
    AsRequested,
    /// All of them.
    All,
    /// None of them, whatever the server requests.
    None,
    /// These. The server may request it for others.
    Tools(Vec<Pattern>),
}

/// Which tools are used, and their descriptions. Names are bare or full and may contain `*`. Filters may also be regular
/// expressions between slashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolChoice {
    /// The allowed tools; `None` allows all, and an empty list allows none.
    pub allowed: Option<Vec<Pattern>>,
    /// Tools that are not used, even if they are allowed.
    pub rejected: Vec<Pattern>,
    /// Descriptions that replace those of the server, by tool name.
    pub descriptions: BTreeMap<String, String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enabled: true,
            required: false,
            timeout: None,
            connect_timeout: None,
            protocol: ProtocolMode::Auto,
            tools: ToolChoice::default(),
            bindings: BTreeMap::new(),
            max_output_tokens: None,
            max_tool_bytes: None,
            always_load: AlwaysLoad::default(),
            instructions: true,
            display_name: None,
        }
    }
}

impl Scope {
    /// All scopes, highest first.
    pub const ALL: [Self; 6] = [Self::Enterprise, Self::Local, Self::User, Self::Project, Self::Dynamic, Self::Cloud];

    /// Returns the name, as in files and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enterprise => "enterprise",
            Self::Local => "local",
            Self::User => "user",
            Self::Project => "project",
            Self::Dynamic => "dynamic",
            Self::Cloud => "cloud",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|scope| scope.as_str() == text);
        found.ok_or_else(|| {
            format!("unknown scope `{text}`: expected enterprise, local, user, project, dynamic or cloud")
        })
    }
}

impl TransportKind {
    /// Returns the name of the transport, as in the `type` of an entry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Sse => "sse",
            Self::WebSocket => "ws",
            Self::Custom => "sdk",
        }
    }

    /// Whether the server is reached over the network.
    pub fn is_remote(self) -> bool {
        matches!(self, Self::Http | Self::Sse | Self::WebSocket)
    }
}

impl fmt::Display for TransportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for TransportKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl TransportConfig {
    /// Returns the transport without its settings.
    pub fn kind(&self) -> TransportKind {
        match self {
            Self::Stdio(_) => TransportKind::Stdio,
            Self::Http(_) | Self::Managed(_) => TransportKind::Http,
            Self::Sse(_) => TransportKind::Sse,
            Self::WebSocket(_) => TransportKind::WebSocket,
            Self::Custom(..) => TransportKind::Custom,
        }
    }

    /// Returns whether connecting starts a process on this machine.
    pub fn is_local(&self) -> bool {
        matches!(self, Self::Stdio(_) | Self::Managed(_) | Self::Custom(..))
    }
}

/// Transports of the host are equal if their names are.
impl PartialEq for TransportConfig {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Stdio(a), Self::Stdio(b)) => a == b,
            (Self::Http(a), Self::Http(b))
            | (Self::Sse(a), Self::Sse(b))
            | (Self::WebSocket(a), Self::WebSocket(b)) => a == b,
            (Self::Managed(a), Self::Managed(b)) => a == b,
            (Self::Custom(a, _), Self::Custom(b, _)) => a == b,
            _ => false,
        }
    }
}

/// Omits the arguments, which may contain values of variables.
impl fmt::Debug for StdioConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { command, args, env, cwd } = self;
        let env: Vec<&String> = env.keys().collect();
        write!(f, "StdioConfig({command:?} with {} arguments and {env:?}, in {cwd:?})", args.len())
    }
}

/// Omits the query of the URL and the values of headers.
impl fmt::Debug for RemoteConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        let url = self.url.split(['?', '#']).next().unwrap_or_default();
        write!(f, "RemoteConfig({url:?} with {names:?} and {:?})", self.headers_helper)
    }
}

/// Omits the arguments.
impl fmt::Debug for HeadersHelper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeadersHelper({:?})", self.words.first())
    }
}

impl fmt::Debug for TransportConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio(stdio) => f.debug_tuple("Stdio").field(stdio).finish(),
            Self::Http(remote) => f.debug_tuple("Http").field(remote).finish(),
            Self::Sse(remote) => f.debug_tuple("Sse").field(remote).finish(),
            Self::WebSocket(remote) => f.debug_tuple("WebSocket").field(remote).finish(),
            Self::Managed(managed) => f.debug_tuple("Managed").field(managed).finish(),
            Self::Custom(name, _) => f.debug_tuple("Custom").field(name).finish(),
        }
    }
}

impl Server {
    /// Creates a server with default settings.
    pub fn new(name: ServerName, scope: Scope, transport: TransportConfig) -> Self {
        Self { name, scope, origin: None, transport, settings: Settings::default() }
    }

    /// Returns whether two servers have the same name, transport and settings.
    pub fn same_as(&self, other: &Self) -> bool {
        self.name == other.name && self.transport == other.transport && self.settings == other.settings
    }
}
