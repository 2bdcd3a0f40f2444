//! The handler: delegates requests to the other modules and notifies subscribers of changes.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, DiscoverResult, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, GetTaskParams, GetTaskResult, Implementation, JsonObject, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, PromptMessage, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    ResourceContents, Role, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool, UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use rmcp::task_manager::TaskManager;
use rmcp::{ErrorData, ServerHandler};
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::ask::{self, Need, Round};
use crate::catalog::{self, text};
use crate::task;

const FRESH_MS: u64 = 60_000;
/// Capacity of the queue of events for a client that does not read.
const WAITING: usize = 64;

#[derive(Clone)]
enum Event {
    Grown,
    Touched(String),
    HungUp,
}

/// The handler. Clones share the state of one server.
#[derive(Clone)]
pub(crate) struct Peer(Arc<Shared>);

struct Shared {
    list_count: AtomicUsize,
    read_count: AtomicUsize,
    grown: Mutex<Vec<Tool>>,
    events: broadcast::Sender<Event>,
    /// Subscribers between their acknowledgment and `listen`, by their filter, so that no event is lost in between.
    arriving: Mutex<Vec<(SubscriptionFilter, broadcast::Receiver<Event>)>>,
    tasks: TaskManager,
}

impl Default for Peer {
    fn default() -> Self {
        Self(Arc::new(Shared {
            list_count: AtomicUsize::new(0),
            read_count: AtomicUsize::new(0),
            grown: Mutex::default(),
            events: broadcast::channel(WAITING).0,
            arriving: Mutex::default(),
            tasks: TaskManager::new(),
        }))
    }
}

impl Peer {
    fn tools(&self) -> Vec<Tool> {
        let grown = self.0.grown.lock().unwrap_or_else(PoisonError::into_inner);
        catalog::tools().into_iter().chain(grown.iter().cloned()).collect()
    }

    fn announce(&self, event: Event) {
        // Fails without subscribers.
        let _ = self.0.events.send(event);
    }
}

impl ServerHandler for Peer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("wharf-peer-rmcp", "1.2.3"))
            .with_instructions("Be kind.")
    }

    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let found = DiscoverResult::from_server_info(self.supported_protocol_versions().into_owned(), self.get_info());
        Ok(found.with_ttl_ms(FRESH_MS).with_cache_scope(CacheScope::Public))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.0.list_count.fetch_add(1, Ordering::Relaxed);
        let listed = ListToolsResult::with_all_items(self.tools());
        Ok(listed.with_ttl_ms(FRESH_MS).with_cache_scope(CacheScope::Public))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = call.arguments.unwrap_or_default();
        let round = Round::new(call.input_responses, call.request_state);
        Ok(match &*call.name {
            "echo" => text(string(&arguments, "text")?).into(),
            "slow" => slow(&arguments, &context).await?,
            "meta" => meta(&context).await.into(),
            "list_count" => text(self.0.list_count.load(Ordering::Relaxed).to_string()).into(),
            "read_count" => text(self.0.read_count.load(Ordering::Relaxed).to_string()).into(),
            "grow" => {
                let name = string(&arguments, "name")?;
                self.0.grown.lock().unwrap_or_else(PoisonError::into_inner).push(catalog::grown(name));
                self.announce(Event::Grown);
                text(format!("grew {name}")).into()
            }
            "touch" => {
                let uri = string(&arguments, "uri")?;
                self.announce(Event::Touched(uri.to_owned()));
                text(format!("touched {uri}")).into()
            }
            "hang_up" => {
                self.announce(Event::HungUp);
                text("hung up").into()
            }
            "ask_form" => ask::once(&context, &round, &[("name", Need::Form)])?,
            "ask_url" => ask::once(&context, &round, &[("login", Need::Url)])?,
            "ask_model" => ask::once(&context, &round, &[("capital", Need::Model)])?,
            "ask_roots" => ask::once(&context, &round, &[("roots", Need::Roots)])?,
            "ask_all" => ask::once(&context, &round, &[("a", Need::Form), ("b", Need::Model), ("c", Need::Roots)])?,
            "ask_twice" => ask::twice(&context, &round)?,
            "ask_again" => ask::again(&round),
            "ask_forever" => ask::forever(&context, &round)?,
            name if name == "headers" || name.starts_with("bad_header_") => text(headers(&context)).into(),
            name => match (task::start(&self.0.tasks, name, &arguments), self.get_tool(name)) {
                (Some(task), _) => task,
                (None, Some(_)) => text(string(&arguments, "text")?).into(),
                (None, None) => return Err(ErrorData::invalid_params(format!("unknown tool: {name}"), None)),
            },
        })
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let listed = ListPromptsResult::with_all_items(catalog::prompts());
        Ok(listed.with_ttl_ms(FRESH_MS).with_cache_scope(CacheScope::Public))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let round = Round::new(request.input_responses, request.request_state);
        let whom = match &*request.name {
            "greet" => string(&request.arguments.unwrap_or_default(), "name")?.to_owned(),
            "ask" => match round.answer_with_state("name") {
                Some(name) => name,
                None => return Ok(ask::name(&context)?.into()),
            },
            name => return Err(ErrorData::invalid_params(format!("unknown prompt: {name}"), None)),
        };
        let message = PromptMessage::new_text(Role::User, format!("Please greet {whom}."));
        Ok(GetPromptResult::new(vec![message]).into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let listed = ListResourcesResult::with_all_items(catalog::resources());
        Ok(listed.with_ttl_ms(FRESH_MS).with_cache_scope(CacheScope::Private))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(catalog::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.0.read_count.fetch_add(1, Ordering::Relaxed);
        let round = Round::new(request.input_responses, request.request_state);
        let body = match (&*request.uri, request.uri.strip_prefix("echo://")) {
            ("note://hello", _) => "Hello from the note.".to_owned(),
            ("note://ask", _) => match round.answer_with_state("name") {
                Some(name) => format!("Hello {name}."),
                None => return Ok(ask::name(&context)?.into()),
            },
            (_, Some(text)) => text.to_owned(),
            (uri, None) => return Err(ErrorData::resource_not_found("Resource not found", Some(json!({"uri": uri})))),
        };
        let contents = ResourceContents::text(body, request.uri).with_mime_type("text/plain");
        let read = ReadResourceResult::new(vec![contents]);
        Ok(read.with_ttl_ms(FRESH_MS).with_cache_scope(CacheScope::Private).into())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut arriving = self.0.arriving.lock().unwrap_or_else(PoisonError::into_inner);
        arriving.push((requested.clone(), self.0.events.subscribe()));
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut events = {
            let mut arriving = self.0.arriving.lock().unwrap_or_else(PoisonError::into_inner);
            let found = arriving.iter().position(|(requested, _)| requested == context.requested());
            arriving.swap_remove(found.expect("`accepted_subscription_filter` was called first")).1
        };
        loop {
            let event = tokio::select! {
                event = events.recv() => event,
                () = context.cancelled() => return Ok(()),
            };
            // The sink rejects events that the client did not subscribe to, and events after a disconnect.
            let _ = match event {
                Ok(Event::Grown) => context.sink().notify_tool_list_changed().await,
                Ok(Event::Touched(uri)) => context.sink().notify_resource_updated(uri).await,
                Ok(Event::HungUp) | Err(_) => return Ok(()),
            };
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.0.tasks.get_task(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(&self, update: UpdateTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.0.tasks.update_task(&update.task_id, update.input_responses)
    }

    async fn cancel_task(&self, request: CancelTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.0.tasks.cancel_task(&request.task_id)
    }
}

fn string<'a>(arguments: &'a JsonObject, name: &str) -> Result<&'a str, ErrorData> {
    let value = arguments.get(name).and_then(Value::as_str);
    value.ok_or_else(|| ErrorData::invalid_params(format!("`{name}` is missing"), None))
}

/// Returns the headers that repeat arguments; empty over stdio.
fn headers(context: &RequestContext<RoleServer>) -> String {
    let came = context.extensions.get::<http::request::Parts>().map(|parts| &parts.headers);
    let made = came.into_iter().flatten().filter(|(name, _)| name.as_str().starts_with("mcp-param-"));
    let made: BTreeMap<_, _> =
        made.map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes()))).collect();
    json!(made).to_string()
}

/// Returns the received `_meta`. Rmcp leaves it to the server to log only at the requested level.
#[expect(deprecated, reason = "the revision still has logging")]
async fn meta(context: &RequestContext<RoleServer>) -> rmcp::model::CallToolResult {
    use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
    let levels = [(LoggingLevel::Debug, "debug"), (LoggingLevel::Info, "info"), (LoggingLevel::Error, "error")];
    let requested = context.meta.log_level();
    for (level, name) in
        levels.into_iter().filter(|(level, _)| requested.is_some_and(|requested| *level as u8 >= requested as u8))
    {
        let line = LoggingMessageNotificationParam::new(level, json!(format!("a line of {name}"))).with_logger("peer");
        let _ = context.peer.notify_logging_message(line).await;
    }
    text(json!(context.meta).to_string())
}

async fn slow(arguments: &JsonObject, context: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
    let number = |name: &str| arguments.get(name).and_then(Value::as_u64).unwrap_or_default();
    let steps = u32::try_from(number("steps")).unwrap_or(u32::MAX);
    let delay = Duration::from_millis(number("delay_ms"));
    for step in 1..=steps {
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = context.ct.cancelled() => {
                // The response cannot show that the work stopped, so stderr does.
                let _ = writeln!(std::io::stderr(), "slow was cancelled");
                return Err(ErrorData::internal_error("cancelled", None));
            }
        }
        if let Some(token) = context.meta.get_progress_token() {
            let progress = ProgressNotificationParam::new(token, step.into()).with_total(steps.into());
            let progress = progress.with_message(format!("step {step} of {steps}"));
            let _ = context.peer.notify_progress(progress).await;
        }
    }
    Ok(text(format!("finished {steps} steps")).into())
}
