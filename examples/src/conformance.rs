//! The server for the protocol's conformance suite, with every tool, prompt and resource that its scenarios name.
//!
//! The scenarios themselves define the behavior (`conformance list`). Beyond that this is an example of a handler that
//! uses most of the protocol, in both eras.

#![expect(deprecated, reason = "the suite still tests deprecated features such as logging")]

mod changes;
mod input;
mod interactive;
mod plain;
mod prompts;
mod resources;
mod tasks;
mod tools;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use wharf::server::rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams, CompleteResult,
    GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig, SetLevelRequestMethod,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
    UpdateTaskParams,
};
use wharf::server::rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use wharf::server::rmcp::task_manager::TaskManager;
use wharf::server::rmcp::{ErrorData, ServerHandler};

type Context = RequestContext<RoleServer>;

/// The server. Clones share its state: since 2026-07-28 every request may have its own handler.
#[derive(Clone, Default)]
pub struct ConformanceServer {
    changes: changes::Changes,
    states: input::States,
    tasks: TaskManager,
}

/// Converts JSON literals of this module to protocol types.
fn parse<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).expect("a valid literal")
}

fn is_modern(context: &Context) -> bool {
    context.protocol_version() >= Some(ProtocolVersion::V_2026_07_28)
}

impl ServerHandler for ConformanceServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities: ServerCapabilities = parse(json!({
            "completions": {},
            "extensions": { "io.modelcontextprotocol/tasks": {} },
            "logging": {},
            "prompts": { "listChanged": true },
            "resources": { "listChanged": true, "subscribe": true },
            "tools": { "listChanged": true },
        }));
        ServerConfig::new(capabilities)
            .with_server_info(parse(json!({ "name": "wharf-conformance", "version": env!("CARGO_PKG_VERSION") })))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::list().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: Context) -> Result<CallToolResponse, ErrorData> {
        if let Some(result) = plain::result(&request.name) {
            return Ok(result.into());
        }
        if let Some(response) = input::respond(&self.states, &request, &context) {
            return response;
        }
        if let Some(response) = tasks::respond(&self.tasks, &request, &context).await {
            return response;
        }
        if self.changes.make(&request.name) {
            return Ok(plain::text("changed").into());
        }
        interactive::respond(&request, &context).await
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::list()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        prompts::get(&request)
    }

    async fn complete(&self, request: CompleteRequestParams, _context: Context) -> Result<CompleteResult, ErrorData> {
        prompts::complete(&request.argument.value)
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(resources::list()))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        resources::read(&request.uri).map(Into::into)
    }

    /// No resource changes, so subscriptions need no state.
    async fn subscribe(&self, _request: SubscribeRequestParams, _context: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _request: UnsubscribeRequestParams, _context: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    /// Logs everything at every level; since 2026-07-28 each request contains the level.
    async fn set_level(&self, _request: SetLevelRequestParams, context: Context) -> Result<(), ErrorData> {
        if is_modern(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.changes.notify(&context).await;
        Ok(())
    }

    async fn get_task(&self, request: GetTaskParams, _context: Context) -> Result<GetTaskResult, ErrorData> {
        self.tasks.get_task(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(&self, request: UpdateTaskParams, _context: Context) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(&self, request: CancelTaskParams, _context: Context) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}
