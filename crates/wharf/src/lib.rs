//! Connect any agent to any fleet of MCP servers.
//!
//! ```
//! use wharf::{Environment, Json, NoHost, Session, SessionOptions, Stdio};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! // Nothing starts yet. The server sees a short list of our variables, and what we add.
//! let environment = Environment::allowed_from(std::env::vars_os());
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
//! Programs without a runtime use [`blocking`]; whoever writes servers uses [`server`]; [`factories`] makes the
//! tools of an agent from its definition.

/// What the guides for programs show compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/fleet.md")]
struct FleetGuide;
#[cfg(doctest)]
#[doc = include_str!("../../../docs/signing-in.md")]
struct SigningInGuide;
#[cfg(doctest)]
#[doc = include_str!("../../../docs/running.md")]
struct RunningGuide;

pub mod blocking;
pub mod factories;
mod gather;

/// Serving tools.
pub mod server {
    pub use wharf_server::{
        Call, ListenOptions, RemoteServer, Reply, Router, ServeError, Toolbox, rmcp, serve_stdio, serve_stream,
    };
}

/// OAuth sign-in and stored credentials.
pub use wharf_auth as auth;

/// Configuration files: scopes, entries, approvals, rules and imports.
pub use wharf_config as config;

/// Many servers: configuration, states, catalogs and dispatch.
pub use wharf_fleet as fleet;

/// One run of an agent: the loop, the models, the limits, and everything that happened.
pub use wharf_agent as agent;

pub use gather::{
    DescribeError, Gathered, OVERALL_LIMIT, SERVER_LIMIT, SessionStack, all_tools, connect_all, override_descriptions,
    tool_descriptions,
};
pub use wharf_client::{
    AuthRequired, BoxFuture, CallError, CallErrorKind, CallOptions, ClientCapabilities, ConnectError, ConnectErrorKind,
    Deadline, Deadlines, Elicitation, ElicitationAnswer, EraCache, Evidence, ExitInfo, Frame, HeaderCommand, Health,
    Host, Http, HttpSse, HttpStatus, InProcess, Incoming, InvalidProtocolMode, InvalidRemote, InvalidTraceParent, Link,
    LogLevel, MAX_MESSAGE_BYTES, NoHost, Notification, OnLoss, OpenError, Outcome, Outgoing, PeerHandle, Phase,
    Progress, ProtocolMode, Refusal, RefusalCause, RemoteOptions, ResultCache, Root, Schema, SchemaViolation,
    ServerInfo, Session, SessionOptions, SessionRefusal, SessionStatus, Stdio, TraceContext, Transport, WebSocket,
    session_loss,
};
pub use wharf_io::{
    ChildSpec, Dial, DialTarget, DialTo, Dialed, Environment, Exit, Grace, GroupWatcher, HttpClient, HttpSettings,
    InvalidSettings, ManageError, Managed, ManagedSpec, Proxies, Resolve, SpawnError, stop_all,
};
pub use wharf_protocol::{
    Block, BlockKind, CallFailed, Content, ContentKind, Hints, ImageFormat, ImageSource, InvalidName, Item, Json,
    Listed, Message, Prompt, Quarantined, Resource, ResourceBody, ResourceTemplate, ResultContent, ResultStatus, Role,
    Secret, ServerName, Tool, ToolCall, ToolDefinition, ToolOutput, ToolRef, ToolResult, ToolTrace, Tools, TraceEvent,
    TraceFailure, TraceSink, TraceStep, Usage, command_name, schema_accepts, visible_name,
};
