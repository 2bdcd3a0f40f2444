//! Connect any agent to any fleet of MCP servers.
//!
//! ```
//! use wharf::{Json, NoHost, Session, SessionOptions, Stdio};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! // Nothing starts yet. The server sees an allow-list of environment variables, and what is added.
//! let environment = wharf::env::child_environment();
//! let transport = Stdio::new("uvx", ["mcp-server-time"], environment);
//! let session = Session::new("time".parse()?, transport, NoHost, SessionOptions::default());
//!
//! // The first use starts the server; if it dies, the next use starts it again.
//! for tool in session.list_tools().await?.items {
//!     println!("{}: {}", tool.name, tool.description_or_default());
//! }
//! let arguments = Json::parse(r#"{"timezone": "Europe/Paris"}"#)?;
//! let output = session.call("get_current_time", &arguments).await?;
//! println!("{}", output.text());
//! session.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! [`env`] reads proxies, certificates and variables for servers from the environment, as the binary does; nothing else in
//! the library reads it. Programs without a runtime use [`blocking`]. Authors of servers use `server`. `factories` creates the tools of an
//! agent from its definition.
//!
//! # Cargo features
//!
//! All features are on by default. Sessions and their transports need none of them.
//!
//! - `agent`: runs of agents, in `agent`
//! - `auth`: OAuth sign-in, in [`auth`]
//! - `config`: configuration files, in `config`
//! - `fleet`: many servers, in `fleet`, and tools from agent definitions; includes `config`, `validation` and `websocket`
//! - `postgres`: runs of benchmarks in PostgreSQL; includes `verify`
//! - `server`: servers, in `server`
//! - `validation`: checks arguments and results against schemas; without it every value is valid
//! - `verify`: benchmarks of models with live tools, in `verify`; includes `agent` and `fleet`
//! - `websocket`: the WebSocket transport

/// The guides for programs, whose examples are compiled.
#[cfg(all(doctest, feature = "fleet"))]
#[doc = include_str!("../../../docs/fleet.md")]
struct FleetGuide;
#[cfg(all(doctest, feature = "auth", feature = "fleet"))]
#[doc = include_str!("../../../docs/signing-in.md")]
struct SigningInGuide;
#[cfg(all(doctest, feature = "server"))]
#[doc = include_str!("../../../docs/serving.md")]
struct ServingGuide;
#[cfg(all(doctest, feature = "agent", feature = "fleet"))]
#[doc = include_str!("../../../docs/running.md")]
struct RunningGuide;

pub mod blocking;
pub mod env;
#[cfg(feature = "fleet")]
pub mod factories;
#[cfg(feature = "fleet")]
mod gather;

/// Servers: tools over stdio, HTTP, SSE, WebSocket and in-process.
#[cfg(feature = "server")]
pub mod server {
    pub use wharf_server::{
        Call, ClientAuth, ListenOptions, RemoteServer, Reply, Router, ServeError, TokenCheck, Toolbox, rmcp,
        serve_stdio, serve_stream,
    };
}

/// OAuth sign-in and stored credentials.
pub use wharf_auth as auth;

/// Configuration files: scopes, entries, approvals, rules and imports.
#[cfg(feature = "config")]
pub use wharf_config as config;

/// Many servers: states, catalogs and dispatch.
#[cfg(feature = "fleet")]
pub use wharf_fleet as fleet;

/// Agents: the loop, the models, the limits and the results.
#[cfg(feature = "agent")]
pub use wharf_agent as agent;

/// Benchmarks: questions, judges, runs that resume, and results.
#[cfg(feature = "verify")]
pub use wharf_verify as verify;

#[cfg(feature = "fleet")]
pub use gather::{
    DescribeError, Gathered, OVERALL_LIMIT, SERVER_LIMIT, all_tools, connect_all, override_descriptions,
    tool_descriptions,
};
#[cfg(feature = "websocket")]
pub use wharf_client::WebSocket;
pub use wharf_client::{
    AuthRequired, BoxFuture, CallError, CallErrorKind, CallOptions, ClientCapabilities, ConnectError, ConnectErrorKind,
    Deadline, Deadlines, Elicitation, ElicitationAnswer, EraCache, Evidence, ExitInfo, Frame, HeaderCommand, Health,
    Host, Http, HttpSse, HttpStatus, InProcess, Incoming, InputFailure, InvalidProtocolMode, InvalidRemote,
    InvalidTraceParent, Link, LogLevel, MAX_MESSAGE_BYTES, NoHost, Notification, OnLoss, OpenError, Outcome, Outgoing,
    PeerHandle, Phase, Progress, ProtocolMode, Refusal, RefusalCause, RemoteOptions, ResultCache, Root, Schema,
    SchemaViolation, ServerInfo, Session, SessionOptions, SessionRefusal, SessionStatus, Stdio, TraceContext,
    Transport, WireContent, WireEvent, WireObserver, session_loss,
};
pub use wharf_io::{
    ChildSpec, Dial, DialTarget, DialTo, Dialed, Durability, Environment, Exit, FileMode, Grace, GroupWatcher,
    HttpClient, HttpSettings, InvalidSettings, LineObserver, ManageError, Managed, ManagedSpec, MissingFolder, Proxies,
    ReplaceOptions, Resolve, SpawnError, close_descriptors_on_exec, create_private_file, create_private_folder,
    replace_file, search_folders, stop_all,
};
pub use wharf_protocol::{
    Block, BlockKind, CallFailed, Content, ContentKind, Hints, ImageFormat, ImageSource, InvalidName, Item, Json,
    Listed, Message, Prompt, Quarantined, Redactor, Resource, ResourceBody, ResourceTemplate, ResultContent,
    ResultStatus, RetrySafety, Role, SearchableTool, Secret, ServerInstructions, ServerName, ServerNotice, Tool,
    ToolCall, ToolDefinition, ToolIndex, ToolLoading, ToolOutput, ToolRanking, ToolRef, ToolResult, ToolSource,
    ToolTrace, Tools, TraceEvent, TraceFailure, TraceSink, TraceStep, Usage, command_name, nearest, schema_accepts,
    visible_name,
};
