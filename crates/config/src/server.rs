//! A server as it is run: nothing in it contradicts anything else, and nothing means "the default".

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

/// Who configured a server. The first one listed wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The organisation, on this machine.
    Enterprise,
    /// This person, in this project, on this machine.
    Local,
    /// This person, everywhere.
    User,
    /// The project, for everybody who works on it.
    Project,
    /// Added while running, or on the command line.
    Dynamic,
    /// A provider, over the network.
    Cloud,
}

/// One server.
#[derive(Clone, Debug)]
pub struct Server {
    /// What it is called.
    pub name: ServerName,
    /// Who configured it.
    pub scope: Scope,
    /// Where that is written.
    pub origin: Option<SourceLocation>,
    /// How it is reached.
    pub reach: TransportConfig,
    /// Everything else about it.
    pub settings: Settings,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceLocation {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: usize,
}

/// How a server is reached.
#[derive(Clone)]
pub enum TransportConfig {
    /// A process of ours, over its stdin and stdout.
    Stdio(StdioConfig),
    /// Streamable HTTP.
    Http(RemoteConfig),
    /// HTTP with server-sent events, as it was before that.
    Sse(RemoteConfig),
    /// A web socket.
    WebSocket(RemoteConfig),
    /// A process of ours that is reached over HTTP.
    Managed(ManagedConfig),
    /// In this process, or any other way a host knows; the text tells it from others.
    Custom(Arc<str>, Arc<dyn Transport>),
}

/// A process to start.
#[derive(Clone, PartialEq, Eq)]
pub struct StdioConfig {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables it sees besides the usual ones.
    pub env: BTreeMap<String, Secret>,
    /// Where it runs; where the host runs if absent.
    pub cwd: Option<PathBuf>,
}

/// A server at an address.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteConfig {
    /// The address.
    pub url: String,
    /// What is sent with every request.
    pub headers: Vec<(String, Secret)>,
    /// A command that prints more headers, as a JSON object.
    pub headers_helper: Option<HeadersHelper>,
    /// What is known beforehand about signing in to it.
    pub oauth: OAuthSettings,
}

/// What is known beforehand about signing in to a server; what is not is found out, or agreed then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OAuthSettings {
    /// Who we are to whoever lets us in.
    pub client_id: Option<String>,
    /// What proves it.
    pub client_secret: Option<Secret>,
    /// The port that people come back to from the page they sign in on.
    pub callback_port: Option<u16>,
    /// What the token is to be good for, whatever the server says.
    pub scopes: Option<Vec<String>>,
    /// Where whoever lets us in describes themselves, whatever the server says.
    pub metadata_url: Option<String>,
}

/// A command that prints headers.
#[derive(Clone, PartialEq, Eq)]
pub struct HeadersHelper {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Where it runs; where the host runs if absent.
    pub cwd: Option<PathBuf>,
}

/// A local server that is started, waited for until it listens, and stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedConfig {
    /// The process.
    pub launch: StdioConfig,
    /// Where it listens.
    pub host: IpAddr,
    /// The port it listens on.
    pub port: u16,
    /// The path of its endpoint.
    pub path: String,
    /// Where its output goes; a file of the host's choice if absent.
    pub log_path: Option<PathBuf>,
    /// How long it may take to listen.
    pub startup_timeout: Duration,
    /// How long it may take to end after SIGTERM.
    pub shutdown_timeout: Duration,
    /// What is sent with every request.
    pub headers: Vec<(String, Secret)>,
}

/// What can be set for one server.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Whether it is used at all.
    pub enabled: bool,
    /// Whether nothing may be done without it.
    pub required: bool,
    /// The limit for a whole call, where there is one.
    pub timeout: Option<Duration>,
    /// The limit for connecting, where it is not the usual one.
    pub connect_timeout: Option<Duration>,
    /// Which generation of the protocol is spoken.
    pub protocol: ProtocolMode,
    /// Which of its tools are used, and how they are described.
    pub tools: ToolChoice,
    /// Arguments that are always sent and never shown to the model: tool, argument, value.
    pub bindings: BTreeMap<String, Map<String, Value>>,
    /// The longest output of its tools, in tokens, where it is not the usual one.
    pub max_output_tokens: Option<usize>,
    /// A name for people.
    pub display_name: Option<String>,
}

/// Which tools are used, and how they are described. Names are bare or full, and may hold `*`; where tools are chosen,
/// they may be regular expressions between slashes too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolChoice {
    /// Only these; `None` means all, and an empty list means none.
    pub allowed: Option<Vec<Pattern>>,
    /// Not these.
    pub rejected: Vec<Pattern>,
    /// Other descriptions.
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
            display_name: None,
        }
    }
}

impl Scope {
    /// All of them, the highest first.
    pub const ALL: [Self; 6] = [Self::Enterprise, Self::Local, Self::User, Self::Project, Self::Dynamic, Self::Cloud];

    /// In a word.
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
            format!("`{text}` is no scope; there are enterprise, local, user, project, dynamic and cloud")
        })
    }
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

impl TransportKind {
    /// Returns the name that configuration files use.
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

    /// Whether connecting costs a process here, and not only a connection.
    pub fn is_local(&self) -> bool {
        matches!(self, Self::Stdio(_) | Self::Managed(_) | Self::Custom(..))
    }
}

/// Two servers that are reached the same way are equal; what a host reaches by itself is equal by its name.
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

/// Without its arguments, which may hold what variables held.
impl fmt::Debug for StdioConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { command, args, env, cwd } = self;
        let (args, env) = (args.len(), env.keys());
        write!(f, "Launch({command:?} with {args} arguments and {:?}, in {cwd:?})", env.collect::<Vec<_>>())
    }
}

/// Without the query of its address and the values of its headers.
impl fmt::Debug for RemoteConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        let place = self.url.split(['?', '#']).next().unwrap_or_default();
        write!(f, "Remote({place:?} with {names:?} and {:?})", self.headers_helper)
    }
}

/// Without its arguments.
impl fmt::Debug for HeadersHelper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeadersHelper({:?})", self.words.first())
    }
}

impl fmt::Debug for TransportConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio(launch) => f.debug_tuple("Stdio").field(launch).finish(),
            Self::Http(remote) => f.debug_tuple("Http").field(remote).finish(),
            Self::Sse(remote) => f.debug_tuple("Sse").field(remote).finish(),
            Self::WebSocket(remote) => f.debug_tuple("WebSocket").field(remote).finish(),
            Self::Managed(manage) => f.debug_tuple("Managed").field(manage).finish(),
            Self::Custom(name, _) => f.debug_tuple("Custom").field(name).finish(),
        }
    }
}

impl Server {
    /// A server with the usual settings.
    pub fn new(name: ServerName, scope: Scope, reach: TransportConfig) -> Self {
        Self { name, scope, origin: None, reach, settings: Settings::default() }
    }

    /// Whether it would be run in the very same way as another.
    pub fn same_as(&self, other: &Self) -> bool {
        self.name == other.name && self.reach == other.reach && self.settings == other.settings
    }
}
