//! Errors of factories and of the tools that they create.

use std::time::Duration;

use wharf_client::{CallError, InvalidRemote, SchemaViolation};
use wharf_protocol::{CallFailed, ServerName};

/// Why tools could not be created.
#[derive(Debug, thiserror::Error)]
pub enum FactoryError {
    /// A variable of the platform is not set.
    #[error("the variable {0} is not set; servers on the platform need it")]
    Variable(&'static str),
    /// A server has no URL.
    #[error("the MCP server `{0}` has no URL configured: set `serverUrl`, or `folderPath` and `slug`")]
    NoUrl(String),
    /// The definition is invalid.
    #[error("invalid agent definition: {0}")]
    Definition(String),
    /// A server's URL or headers are invalid.
    #[error("invalid configuration of the MCP server `{server}`: {reason}")]
    Remote {
        /// The server's name in the definition.
        server: String,
        /// What is invalid.
        reason: InvalidRemote,
    },
    /// A server did not connect or list its tools.
    #[error("failed to list tools: {0}")]
    List(Box<CallError>),
    /// A server took too long to connect and to list its tools.
    #[error("the MCP server `{server}` did not list its tools within {} s", limit.as_secs())]
    Late {
        /// The server's name in the definition.
        server: String,
        /// The timeout.
        limit: Duration,
    },
    /// The client is of no use any more.
    #[error(transparent)]
    Tool(Box<ToolError>),
}

/// Why a tool returned no output.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The session was closed with the scope of its tools.
    #[error(
        "`{tool}` of {server} was called after its session was closed; call it before the `LiveTools` is dropped, or create \
         the tools again with `create_mcp_tools`"
    )]
    Closed {
        /// The server's name.
        server: ServerName,
        /// The tool's name.
        tool: String,
    },
    /// The arguments do not match the tool's schema; nothing was sent.
    #[error("the arguments of `{tool}` do not match its schema: {fault}")]
    Arguments {
        /// The tool's name.
        tool: String,
        /// The path and the reason.
        fault: SchemaViolation,
    },
    /// The call was not made, because of a policy, a hook, the user or a changed tool.
    #[error("`{tool}` was not called: {reason}")]
    Refused {
        /// The tool's name.
        tool: String,
        /// The reason.
        reason: String,
    },
    /// The call failed.
    #[error(transparent)]
    Call(Box<CallError>),
    /// The dispatcher returned no output.
    #[error(transparent)]
    Failed(CallFailed),
}
