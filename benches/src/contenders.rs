//! The contenders: Wharf's session, rmcp's client, and the floor, a client that does the minimum.

mod http;
mod stdio;

use std::sync::Arc;

use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::IntoTransport;
use serde::Deserialize;
use tokio::task::JoinSet;
use wharf::{Json, NoHost, Session, SessionOptions, ToolCall, Transport};

pub(crate) use http::Server;

/// A client and, if it is not a child process of the client, its server.
pub(crate) struct Contender {
    client: Client,
    server: Option<Server>,
}

enum Client {
    Wharf(Wharf),
    Rmcp(Rmcp),
    StdioFloor(Box<stdio::Floor>),
    HttpFloor(http::Floor),
}

impl Contender {
    /// Connects Wharf, rmcp and the floor, each with its own child process.
    pub(crate) async fn over_stdio() -> [Self; 3] {
        let clients = [
            Client::Wharf(stdio::wharf().await),
            Client::Rmcp(stdio::rmcp().await),
            Client::StdioFloor(Box::new(stdio::Floor::connect())),
        ];
        clients.map(|client| Self { client, server: None })
    }

    /// Connects Wharf, rmcp and the floor, each with its own HTTP server.
    pub(crate) async fn over_http(in_flight: usize) -> [Self; 3] {
        let servers = [Server::start().await, Server::start().await, Server::start().await];
        let clients = [
            Client::Wharf(http::wharf(&servers[0].url()).await),
            Client::Rmcp(http::rmcp(&servers[1].url(), in_flight).await),
            Client::HttpFloor(http::Floor::connect(servers[2].port(), in_flight).await),
        ];
        let mut servers = servers.into_iter();
        clients.map(|client| Self { client, server: servers.next() })
    }

    /// Returns how many TCP connections its server has accepted.
    pub(crate) async fn connections(&mut self) -> u64 {
        match &mut self.server {
            Some(server) => server.connections().await,
            None => 0,
        }
    }

    /// Calls `tool` sequentially.
    pub(crate) async fn sequential(&mut self, tool: &str, calls: usize) {
        for _ in 0..calls {
            match &mut self.client {
                Client::Wharf(wharf) => wharf.call(tool).await,
                Client::Rmcp(rmcp) => rmcp.call(tool).await,
                Client::StdioFloor(floor) => floor.call(tool).await,
                Client::HttpFloor(floor) => floor.call(tool).await,
            }
        }
    }

    /// Calls a small tool with this many calls in flight.
    pub(crate) async fn concurrent(&mut self, calls: usize, in_flight: usize) {
        let mut tasks = JoinSet::new();
        for _ in 0..in_flight {
            let each = calls / in_flight;
            match &mut self.client {
                Client::Wharf(wharf) => {
                    let wharf = wharf.clone();
                    tasks.spawn(async move {
                        for _ in 0..each {
                            wharf.call("small").await;
                        }
                    });
                }
                Client::Rmcp(rmcp) => {
                    let rmcp = rmcp.clone();
                    tasks.spawn(async move {
                        for _ in 0..each {
                            rmcp.call("small").await;
                        }
                    });
                }
                Client::StdioFloor(floor) => return floor.pipelined(calls, in_flight).await,
                Client::HttpFloor(floor) => return floor.concurrent(each).await,
            }
        }
        tasks.join_all().await;
    }
}

/// Connects rmcp to a child process and lists all tools.
pub(crate) async fn rmcp_over_stdio() -> Listed {
    stdio::rmcp().await.listed().await
}

/// Connects rmcp over HTTP and lists all tools.
pub(crate) async fn rmcp_over_http(url: &str) -> Listed {
    http::rmcp(url, 16).await.listed().await
}

/// An rmcp connection and its tool list, as a host stores them.
pub(crate) struct Listed {
    _client: Rmcp,
    pub(crate) tools: Vec<rmcp::model::Tool>,
}

pub(crate) fn program() -> std::path::PathBuf {
    std::env::current_exe().expect("the path of this program")
}

#[derive(Clone)]
pub(crate) struct Wharf(Session);

impl Wharf {
    /// Connects to a child process.
    pub(crate) async fn over_stdio() -> Self {
        stdio::wharf().await
    }

    /// Connects to a running server over HTTP.
    pub(crate) async fn over_http(server: &Server) -> Self {
        http::wharf(&server.url()).await
    }

    async fn over(transport: impl Transport) -> Self {
        let session = Session::new("bench".parse().expect("a name"), transport, NoHost, SessionOptions::default());
        session.connect().await.expect("a connection");
        Self(session)
    }

    pub(crate) async fn call(&self, tool: &str) {
        let arguments = Json::from(serde_json::json!({"text": "hello"}));
        let output = self.0.call(tool, &arguments).await.expect("a response");
        assert!(!output.content[0].as_text().expect("text").is_empty());
    }

    /// Runs a model's tool call without changes.
    pub(crate) async fn call_as(&self, tool: &str, call: &ToolCall) {
        let output = self.0.call(tool, &call.arguments).await.expect("a response");
        assert!(!output.content[0].as_text().expect("text").is_empty());
    }

    /// Lists the tools, so that the session validates arguments.
    pub(crate) async fn list(&self) {
        self.0.list_tools().await.expect("a list");
    }

    /// Calls a tool and returns the error.
    pub(crate) async fn failure(&self, tool: &str) -> String {
        let result = self.0.call(tool, &Json::from(serde_json::json!({}))).await;
        result.map_or_else(|error| error.to_string(), |_| "a response".to_owned())
    }

    pub(crate) async fn close(self) {
        self.0.close().await;
    }
}

#[derive(Clone)]
struct Rmcp(Arc<RunningService<RoleClient, ()>>);

impl Rmcp {
    async fn over<T, E, A>(transport: T) -> Self
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        Self(Arc::new(().serve(transport).await.expect("a connection")))
    }

    async fn listed(self) -> Listed {
        let tools = self.0.list_all_tools().await.expect("a list");
        Listed { _client: self, tools }
    }

    async fn call(&self, tool: &str) {
        let arguments = serde_json::json!({"text": "hello"}).as_object().expect("an object").clone();
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let result = self.0.call_tool(request).await.expect("a response");
        assert!(!result.content[0].as_text().expect("text").text.is_empty());
    }
}

/// Returns a call of the floor.
fn floor_call(id: u64, tool: &str) -> String {
    let params = format!(r#"{{"name":"{tool}","arguments":{{"text":"hello"}}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
}

/// The parts of a response that the floor reads: the id and the text.
#[derive(Deserialize)]
struct Reply {
    id: u64,
    result: ReplyResult,
}

#[derive(Deserialize)]
struct ReplyResult {
    content: Vec<Block>,
}

#[derive(Deserialize)]
struct Block {
    text: String,
}

impl Reply {
    /// Parses a response and returns its id.
    fn read(response: &[u8]) -> u64 {
        let reply: Self = serde_json::from_slice(response).expect("a reply");
        assert!(!reply.result.content[0].text.is_empty());
        reply.id
    }
}
