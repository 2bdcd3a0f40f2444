//! A server whose tools are plain functions.

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

/// A server with tools. Clones share them.
#[derive(Clone)]
pub struct Toolbox {
    name: Arc<str>,
    version: Arc<str>,
    instructions: Option<Arc<str>>,
    tool_list_ttl: Duration,
    tools: Vec<Entry>,
}

#[derive(Clone)]
struct Entry {
    tool: Tool,
    run: Arc<dyn Fn(Call) -> BoxFuture<'static, Result<Reply, String>> + Send + Sync>,
}

/// One call of a tool.
pub struct Call {
    /// The arguments of the call.
    pub arguments: Map<String, Value>,
    context: RequestContext<RoleServer>,
}

/// The result of a successful call. A tool that fails returns an `Err` with a message for the model.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Text.
    Text(String),
    /// A structured value, also sent as text.
    Structured(Value),
}

impl Toolbox {
    /// Creates a server without tools.
    pub fn new(name: &str, version: &str) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            instructions: None,
            tool_list_ttl: Duration::ZERO,
            tools: Vec::new(),
        }
    }

    /// Sets the instructions that clients show to models.
    #[must_use]
    pub fn instructions(mut self, instructions: &str) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Sets how long clients may cache the tool list. The cache scope is public, since a toolbox lists the same tools for
    /// every client. Only clients of protocol 2026-07-28 receive it; the default is not to cache.
    #[must_use]
    pub fn tool_list_ttl(mut self, ttl: Duration) -> Self {
        self.tool_list_ttl = ttl;
        self
    }

    /// Adds a tool. The description is the protocol's: `name`, `description`, `inputSchema` and so on.
    ///
    /// # Panics
    /// If the description is invalid; it is part of the program.
    #[must_use]
    pub fn tool<F, R>(mut self, description: Value, run: F) -> Self
    where
        F: Fn(Call) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Reply, String>> + Send + 'static,
    {
        let tool = serde_json::from_value(description).expect("a valid tool description");
        self.tools.push(Entry { tool, run: Arc::new(move |call| run(call).boxed()) });
        self
    }
}

impl Call {
    /// Returns a string argument.
    pub fn text(&self, name: &str) -> Result<&str, String> {
        self.arguments.get(name).and_then(Value::as_str).ok_or_else(|| format!("`{name}` must be a string"))
    }

    /// Returns a number argument.
    pub fn number(&self, name: &str) -> Result<f64, String> {
        self.arguments.get(name).and_then(Value::as_f64).ok_or_else(|| format!("`{name}` must be a number"))
    }

    /// Reports progress, if the client requested it.
    pub async fn progress(&self, done: f64, total: f64, message: &str) {
        if let Some(token) = self.context.meta.get_progress_token() {
            let step = ProgressNotificationParam::new(token, done).with_total(total).with_message(message);
            // A disconnected client needs no progress.
            let _ = self.context.peer.notify_progress(step).await;
        }
    }

    /// Completes when the client cancels the call or disconnects.
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
        // Lists before 2026-07-28 have no TTL, but rmcp would send it anyway.
        if self.tool_list_ttl.is_zero() || context.protocol_version() < Some(ProtocolVersion::V_2026_07_28) {
            return Ok(list);
        }
        let milliseconds = u64::try_from(self.tool_list_ttl.as_millis()).unwrap_or(u64::MAX);
        Ok(list.with_ttl_ms(milliseconds).with_cache_scope(CacheScope::Public))
    }

    // Rmcp reads from it which arguments a client must repeat in the headers of its request.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|entry| entry.tool.name == name).map(|entry| entry.tool.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(entry) = self.tools.iter().find(|entry| entry.tool.name == request.name) else {
            return Err(ErrorData::invalid_params(format!("unknown tool `{}`", request.name), None));
        };
        let cancellation = context.ct.clone();
        let call = Call { arguments: request.arguments.unwrap_or_default(), context };
        let result = tokio::select! {
            result = (entry.run)(call) => result,
            () = cancellation.cancelled() => Err("call cancelled".to_owned()),
        };
        Ok(match result {
            Ok(Reply::Text(text)) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Ok(Reply::Structured(value)) => CallToolResult::structured(value),
            Err(reason) => CallToolResult::error(vec![ContentBlock::text(reason)]),
        }
        .into())
    }
}
