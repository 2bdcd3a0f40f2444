//! A server made of functions.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rmcp::ErrorData;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Map, Value};

/// A server with some tools. Cloning shares them.
#[derive(Clone)]
pub struct Toolbox {
    name: Arc<str>,
    version: Arc<str>,
    instructions: Option<Arc<str>>,
    list_lives: Duration,
    tools: Vec<Entry>,
}

#[derive(Clone)]
struct Entry {
    tool: Tool,
    run: Arc<dyn Fn(Call) -> BoxFuture<'static, Result<Reply, String>> + Send + Sync>,
}

/// One call of a tool.
pub struct Call {
    /// What it was called with.
    pub arguments: Map<String, Value>,
    context: RequestContext<RoleServer>,
}

/// What a tool answers. An `Err` beside it is a failure in the tool's own words, for the model to read.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Text.
    Text(String),
    /// A structured value, shown as text too.
    Structured(Value),
}

impl Toolbox {
    /// A server without tools.
    pub fn new(name: &str, version: &str) -> Self {
        let (name, version) = (name.into(), version.into());
        Self { name, version, instructions: None, list_lives: Duration::ZERO, tools: Vec::new() }
    }

    /// With words about how to use it.
    #[must_use]
    pub fn instructions(mut self, instructions: &str) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Lets clients keep the list of tools for so long, and share it: a toolbox shows the same tools to everybody. Clients
    /// of protocol 2026-07-28 are told; without this, they are told to ask every time.
    #[must_use]
    pub fn list_lives(mut self, time: Duration) -> Self {
        self.list_lives = time;
        self
    }

    /// With one more tool, described as the protocol does it: `name`, `description`, `inputSchema` and so on.
    ///
    /// # Panics
    /// If the description is not that of a tool; it is part of the program.
    #[must_use]
    pub fn tool<F, R>(mut self, description: Value, run: F) -> Self
    where
        F: Fn(Call) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Reply, String>> + Send + 'static,
    {
        let tool = serde_json::from_value(description).expect("the description of a tool");
        self.tools.push(Entry { tool, run: Arc::new(move |call| run(call).boxed()) });
        self
    }
}

impl Call {
    /// A text argument.
    pub fn text(&self, name: &str) -> Result<&str, String> {
        self.arguments.get(name).and_then(Value::as_str).ok_or_else(|| format!("`{name}` has to be a text"))
    }

    /// A numeric argument.
    pub fn number(&self, name: &str) -> Result<f64, String> {
        self.arguments.get(name).and_then(Value::as_f64).ok_or_else(|| format!("`{name}` has to be a number"))
    }

    /// Tells the caller how far the call has come, if it wants to know.
    pub async fn progress(&self, done: f64, total: f64, message: &str) {
        if let Some(token) = self.context.meta.get_progress_token() {
            let step = ProgressNotificationParam::new(token, done).with_total(total).with_message(message);
            // A caller that is gone needs no progress.
            let _ = self.context.peer.notify_progress(step).await;
        }
    }

    /// Completes when the caller no longer waits.
    pub async fn cancelled(&self) {
        self.context.ct.cancelled().await;
    }
}

impl rmcp::ServerHandler for Toolbox {
    fn get_info(&self) -> ServerConfig {
        let config = ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(&*self.name, &*self.version));
        match &self.instructions {
            Some(instructions) => config.with_instructions(&**instructions),
            None => config,
        }
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let list = ListToolsResult::with_all_items(self.tools.iter().map(|entry| entry.tool.clone()).collect());
        // Lists before 2026-07-28 have no lifetime, and rmcp would send it all the same.
        if self.list_lives.is_zero() || context.protocol_version() < Some(ProtocolVersion::V_2026_07_28) {
            return Ok(list);
        }
        let milliseconds = u64::try_from(self.list_lives.as_millis()).unwrap_or(u64::MAX);
        Ok(list.with_ttl_ms(milliseconds).with_cache_scope(CacheScope::Public))
    }

    /// What tells rmcp which arguments a client has to repeat in the headers of its request.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|entry| entry.tool.name == name).map(|entry| entry.tool.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(entry) = self.tools.iter().find(|entry| entry.tool.name == request.name) else {
            return Err(ErrorData::invalid_params(format!("there is no tool `{}`", request.name), None));
        };
        let gone = context.ct.clone();
        let call = Call { arguments: request.arguments.unwrap_or_default(), context };
        let result = tokio::select! {
            result = (entry.run)(call) => result,
            () = gone.cancelled() => Err("the call was cancelled".to_owned()),
        };
        Ok(match result {
            Ok(Reply::Text(text)) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Ok(Reply::Structured(value)) => CallToolResult::structured(value),
            Err(reason) => CallToolResult::error(vec![ContentBlock::text(reason)]),
        }
        .into())
    }
}
