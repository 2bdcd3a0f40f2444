//! Tools of an agent from its definition: the MCP servers become a [`Fleet`](crate::fleet::Fleet), and their tools are
//! called through a [`Dispatcher`](crate::fleet::Dispatcher).
//!
//! ```
//! use wharf::factories::{AgentDefinition, Platform, create_mcp_tools_from_agent};
//!
//! # async fn example(definition: &str) -> Result<(), Box<dyn std::error::Error>> {
//! let agent: AgentDefinition = definition.parse()?;
//! // Read only if a server has no URL of its own.
//! let platform = Platform::from_variables(|name| std::env::vars().find(|(key, _)| key == name).map(|(_, value)| value));
//! let (tools, clients) = create_mcp_tools_from_agent(&agent, &platform).await?;
//! for tool in &tools {
//!     println!("{}: {}", tool.name, tool.description);
//! }
//! // The caller closes the clients.
//! for client in &clients {
//!     client.close().await;
//! }
//! # Ok(())
//! # }
//! ```

mod agent_tools;
mod client;
mod definition;
mod error;
mod lazy_fleet;
mod platform;
mod tool;
mod toolset;

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};

pub use agent_tools::AgentTools;
pub use client::{ClientOptions, McpClient};
pub use definition::{AgentDefinition, ArgumentProperties, Discovery, McpResource, McpToolDefinition};
pub use error::{FactoryError, ToolError};
pub use platform::Platform;
pub use tool::{AgentTool, ToolMetadata};

/// How many servers list their tools at the same time.
const MAX_CONCURRENT_LISTS: usize = 5;
/// How long a server may take to connect and to list its tools.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);

/// Creates the tools of an agent, and one client for each enabled server.
///
/// Tools come from the definition without any request, unless a server's [`Discovery`] says otherwise. A server connects
/// with its first call. The caller closes the clients.
pub async fn create_mcp_tools_from_agent(
    agent: &AgentDefinition,
    platform: &Platform,
) -> Result<(AgentTools, Vec<McpClient>), FactoryError> {
    let enabled: Vec<&McpResource> = agent.resources.iter().filter(|resource| resource.is_enabled()).collect();
    let clients = platform.clients(&enabled)?;
    let mut servers = Vec::new();
    for (resource, client) in enabled.into_iter().zip(&clients) {
        match agent_tools::of_resource(resource, client).await {
            Ok(server) => servers.push(server),
            Err(error) => {
                close(&clients).await;
                return Err(error);
            }
        }
    }
    Ok((AgentTools::new(&servers, &clients), clients))
}

/// Creates the tools of one server, called through an existing client; none if the server is disabled.
pub async fn create_mcp_tools_from_metadata_for_mcp_server(
    config: &McpResource,
    client: &McpClient,
) -> Result<AgentTools, FactoryError> {
    let mut servers = Vec::new();
    if config.is_enabled() {
        servers.push(agent_tools::of_resource(config, client).await?);
    }
    Ok(AgentTools::new(&servers, std::slice::from_ref(client)))
}

/// Creates the tools that servers offer now, with live sessions that end with the returned value. Only the tools of a
/// server's definition are used, unless its [`Discovery`] is [`Discovery::All`].
pub async fn create_mcp_tools(configs: &[McpResource], platform: &Platform) -> Result<LiveTools, FactoryError> {
    let enabled: Vec<&McpResource> = configs.iter().filter(|config| config.is_enabled()).collect();
    let clients = platform.clients(&enabled)?;
    let lists = enabled.into_iter().zip(clients.clone()).map(async |(config, client)| {
        let late = |_| FactoryError::Late { server: config.name.clone(), limit: LIST_TIMEOUT };
        tokio::time::timeout(LIST_TIMEOUT, agent_tools::listed(config, &client)).await.map_err(late)?
    });
    let listed: Vec<_> = stream::iter(lists).buffered(MAX_CONCURRENT_LISTS).collect().await;
    match listed.into_iter().collect::<Result<Vec<_>, _>>() {
        Ok(servers) => Ok(LiveTools { tools: AgentTools::new(&servers, &clients), clients }),
        Err(error) => {
            close(&clients).await;
            Err(error)
        }
    }
}

/// Tools with live sessions. [`LiveTools::close`] ends the sessions gracefully; dropping it cuts them off. Later calls of
/// its tools fail with [`ToolError::Closed`].
pub struct LiveTools {
    tools: AgentTools,
    clients: Vec<McpClient>,
}

impl LiveTools {
    /// The tools.
    pub fn tools(&self) -> &AgentTools {
        &self.tools
    }

    /// Ends all sessions gracefully.
    pub async fn close(self) {
        close(&self.clients).await;
    }
}

impl Drop for LiveTools {
    fn drop(&mut self) {
        self.tools.end();
        self.clients.iter().for_each(McpClient::end);
    }
}

async fn close(clients: &[McpClient]) {
    join_all(clients.iter().map(McpClient::close)).await;
}
