//! A server with the features of the modern era: subscriptions, results that require input, and tasks.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock, CreateTaskResult,
    GetTaskParams, GetTaskResult, InputRequest, InputRequests, InputRequiredResult, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool, UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use rmcp::task_manager::{TaskManager, TaskOptions};
use rmcp::{ErrorData, ServerHandler};
use serde_json::{Value, json};
use wharf_server::rmcp;

/// Clones share the tasks, because over Streamable HTTP every request has its own handler.
#[derive(Clone, Default)]
pub(crate) struct Modern {
    tasks: TaskManager,
}

fn question() -> InputRequest {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
    let params = json!({ "message": "Who are you?", "requestedSchema": schema });
    serde_json::from_value(json!({ "method": "elicitation/create", "params": params })).unwrap()
}

fn greeting(answer: &Value) -> CallToolResult {
    let name = answer["content"]["name"].as_str().unwrap_or("nobody");
    CallToolResult::success(vec![ContentBlock::text(format!("Hello, {name}!"))])
}

impl Modern {
    /// Requires input in the result, and completes when the retry provides it.
    fn ask(request: &CallToolRequestParams) -> CallToolResponse {
        match request.input_responses.as_ref().and_then(|answers| answers.get("who")) {
            Some(answer) if request.request_state.as_deref() == Some("asked") => greeting(answer).into(),
            _ => {
                let questions = InputRequests::from([("who".to_owned(), question())]);
                InputRequiredResult::new(Some(questions), Some("asked".to_owned())).into()
            }
        }
    }

    /// Requires input from within a task, and completes when the task is updated with it.
    fn work(&self) -> CallToolResponse {
        let work = |task: rmcp::task_manager::TaskContext| -> rmcp::task_manager::TaskFuture {
            Box::pin(async move { task.request_input("who", question()).await.map(|answer| greeting(&answer)) })
        };
        CreateTaskResult::new(self.tasks.spawn(TaskOptions::new().with_ttl_ms(60_000), work)).into()
    }
}

impl ServerHandler for Modern {
    fn get_info(&self) -> ServerConfig {
        let builder = ServerCapabilities::builder().enable_tools().enable_tool_list_changed();
        ServerConfig::new(builder.enable_tasks().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = ["ask", "work"].map(|name| Tool::new(name, name, serde_json::Map::new()));
        Ok(ListToolsResult::with_all_items(tools.to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(if request.name == "work" { self.work() } else { Self::ask(&request) })
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    /// Sends one notification, then waits until the client cancels; ends immediately if the client did not subscribe to it.
    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        if context.sink().notify_tool_list_changed().await.is_ok() {
            context.cancelled().await;
        }
        Ok(())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.tasks.get_task(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}
