//! Tools for agents that are described by a definition: one client for each MCP server in it, one tool for each of theirs.
//!
//! ```
//! use wharf::factories::{AgentDefinition, Platform, create_mcp_tools_from_agent};
//!
//! # async fn example(definition: &str) -> Result<(), Box<dyn std::error::Error>> {
//! let agent: AgentDefinition = definition.parse()?;
//! // Looked at only where a server has no address of its own.
//! let platform = Platform::from_variables(|name| std::env::vars().find(|(key, _)| key == name).map(|(_, value)| value));
//! let (tools, clients) = create_mcp_tools_from_agent(&agent, &platform).await?;
//! for tool in &tools {
//!     println!("{}: {}", tool.name, tool.description);
//! }
//! // Whoever made the clients closes them.
//! for client in &clients {
//!     client.close().await;
//! }
//! # Ok(())
//! # }
//! ```

mod client;
mod definition;
mod names;
mod platform;
mod tool;

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use wharf_client::{CallError, InvalidRemote};

pub use client::{ClientOptions, McpClient};
pub use definition::{AgentDefinition, ArgumentProperties, Discovery, McpResource, McpToolDefinition};
pub use platform::Platform;
pub use tool::{AgentTool, ToolError, ToolMetadata};

use names::make_distinct;

/// How many servers are listed at a time.
const AT_A_TIME: usize = 5;
/// How long one of them may take to connect and to list its tools.
const LIST_LIMIT: Duration = Duration::from_secs(60);

/// Why there are no tools.
#[derive(Debug, thiserror::Error)]
pub enum FactoryError {
    /// A variable that says where the platform is, or who we are to it, is not there: set it.
    #[error("the variable {0} is not set; the servers of the platform cannot be reached without it")]
    Variable(&'static str),
    /// A server has no address: mend its definition.
    #[error("the MCP server `{0}` has no URL configured: give it a `serverUrl`, or a `folderPath` and a `slug`")]
    NoUrl(String),
    /// The definition cannot be read: mend it.
    #[error("the definition of the agent cannot be read: {0}")]
    Definition(String),
    /// A server's address or headers cannot be used: mend them.
    #[error("the MCP server `{server}` cannot be reached as it is configured: {reason}")]
    Remote {
        /// The server.
        server: String,
        /// Why not.
        reason: InvalidRemote,
    },
    /// A server did not list its tools: try again.
    #[error("the tools could not be listed: {0}")]
    List(Box<CallError>),
    /// A server took too long to list its tools: try again.
    #[error("the MCP server `{server}` did not list its tools within {} s", limit.as_secs())]
    Late {
        /// The server.
        server: String,
        /// How long it had.
        limit: Duration,
    },
}

/// The tools of an agent, and one client for each enabled server that they are called through.
///
/// Tools come from the definition, without any traffic, unless a server's [`Discovery`] says otherwise. Nothing connects
/// before the first call. The caller closes the clients.
pub async fn create_mcp_tools_from_agent(
    agent: &AgentDefinition,
    platform: &Platform,
) -> Result<(Vec<AgentTool>, Vec<McpClient>), FactoryError> {
    let enabled: Vec<&McpResource> = agent.resources.iter().filter(|resource| resource.is_enabled()).collect();
    let clients = enabled.iter().map(|resource| platform.client(resource)).collect::<Result<Vec<_>, _>>()?;
    let mut tools = Vec::new();
    for (resource, client) in enabled.into_iter().zip(&clients) {
        match tool::of(resource, client).await {
            Ok(some) => tools.extend(some),
            Err(error) => {
                close(&clients).await;
                return Err(error);
            }
        }
    }
    make_distinct(&mut tools);
    Ok((tools, clients))
}

/// The tools of one server, called through a client that is there already; none if the server is disabled.
pub async fn create_mcp_tools_from_metadata_for_mcp_server(
    config: &McpResource,
    client: &McpClient,
) -> Result<Vec<AgentTool>, FactoryError> {
    if !config.is_enabled() {
        return Ok(Vec::new());
    }
    let mut tools = tool::of(config, client).await?;
    make_distinct(&mut tools);
    Ok(tools)
}

/// The tools that servers have at this moment, with live sessions that end with what is returned. Of a server only the
/// tools in its definition are taken, unless it is to be all of them.
pub async fn create_mcp_tools(configs: &[McpResource], platform: &Platform) -> Result<LiveTools, FactoryError> {
    let enabled: Vec<&McpResource> = configs.iter().filter(|config| config.is_enabled()).collect();
    let clients = enabled.iter().map(|config| platform.client(config)).collect::<Result<Vec<_>, _>>()?;
    let mut live = LiveTools { tools: Vec::new(), clients };
    let listing = enabled.into_iter().zip(live.clients.clone()).map(async |(config, client)| {
        let late = |_| FactoryError::Late { server: config.name.clone(), limit: LIST_LIMIT };
        tokio::time::timeout(LIST_LIMIT, tool::listed(config, &client)).await.map_err(late)?
    });
    let mut listed = Box::pin(stream::iter(listing).buffered(AT_A_TIME));
    while let Some(tools) = listed.next().await {
        match tools {
            Ok(tools) => live.tools.extend(tools),
            Err(error) => {
                drop(listed);
                live.close().await;
                return Err(error);
            }
        }
    }
    drop(listed);
    make_distinct(&mut live.tools);
    Ok(live)
}

/// Tools with live sessions. [`LiveTools::close`] ends the sessions in good order; dropping it cuts them off. Either way
/// its tools say so when they are called later.
pub struct LiveTools {
    tools: Vec<AgentTool>,
    clients: Vec<McpClient>,
}

impl LiveTools {
    /// The tools.
    pub fn tools(&self) -> &[AgentTool] {
        &self.tools
    }

    /// Ends all sessions in good order.
    pub async fn close(self) {
        close(&self.clients).await;
    }
}

impl Drop for LiveTools {
    fn drop(&mut self) {
        self.clients.iter().for_each(McpClient::end);
    }
}

async fn close(clients: &[McpClient]) {
    join_all(clients.iter().map(McpClient::close)).await;
}
