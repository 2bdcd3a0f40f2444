//! The tools that run as tasks, for clients that support tasks.

use std::time::Duration;

use serde_json::Value;
use wharf::server::rmcp::ErrorData;
use wharf::server::rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, CreateTaskResult,
};
use wharf::server::rmcp::task_manager::{TaskContext, TaskExit, TaskFuture, TaskManager, TaskOptions};

use super::{Context, input, plain};

/// Recommended polling interval.
const POLL_MILLISECONDS: u64 = 200;

/// The work of a task.
enum Work {
    Compute(Duration),
    Fail,
    Break,
    Confirm,
    AskTwice,
    Greet(String),
}

pub(super) async fn respond(
    tasks: &TaskManager,
    request: &CallToolRequestParams,
    context: &Context,
) -> Option<Result<CallToolResponse, ErrorData>> {
    let argument = |name| request.arguments.as_ref().and_then(|given| given.get(name));
    let work = match &*request.name {
        "greet" => {
            let name = argument("name").and_then(Value::as_str).unwrap_or("World");
            return Some(Ok(plain::text(format!("Hello, {name}!")).into()));
        }
        "slow_compute" => {
            let seconds = argument("seconds").and_then(Value::as_f64).unwrap_or_default();
            Work::Compute(Duration::try_from_secs_f64(seconds).unwrap_or_default())
        }
        "failing_job" => Work::Fail,
        "protocol_error_job" => Work::Break,
        "confirm_delete" => Work::Confirm,
        "multi_input" => Work::AskTwice,
        "test_tool_with_task" => {
            let answers = request.input_responses.clone().unwrap_or_default();
            let Some(name) = input::filled_in(&answers, "user_name", "name").and_then(Value::as_str) else {
                let question = input::form("What is your name?", "name", "string");
                return Some(Ok(input::ask(vec![("user_name", question)], None).into()));
            };
            Work::Greet(name.to_owned())
        }
        _ => return None,
    };
    let knows_tasks = context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks());
    Some(match work {
        work if knows_tasks => Ok(start(tasks, work).into()),
        // The only tool that works without a task.
        Work::Compute(time) => {
            tokio::time::sleep(time).await;
            Ok(plain::text("computed").into())
        }
        _ => {
            let required = ClientCapabilities::builder().enable_tasks().build();
            Err(ErrorData::missing_required_client_capability(required))
        }
    })
}

fn start(tasks: &TaskManager, work: Work) -> CreateTaskResult {
    let options = TaskOptions::new().with_poll_interval_ms(POLL_MILLISECONDS);
    CreateTaskResult::new(tasks.spawn(options, |task| -> TaskFuture { Box::pin(run(work, task)) }))
}

async fn run(work: Work, task: TaskContext) -> Result<CallToolResult, TaskExit> {
    match work {
        Work::Compute(time) => {
            tokio::select! {
                () = tokio::time::sleep(time) => Ok(plain::text("computed")),
                () = task.cancelled() => Err(TaskExit::Cancelled),
            }
        }
        Work::Fail => {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(plain::failure("the job failed, as intended"))
        }
        Work::Break => Err(ErrorData::internal_error("the job raised an error, as intended", None).into()),
        Work::Confirm => {
            let question = input::form("Delete it?", "confirm", "boolean");
            let answer = task.request_input("confirm", question).await?;
            let confirmed = answer["content"]["confirm"] == true;
            Ok(plain::text(if confirmed { "deleted" } else { "kept" }))
        }
        Work::AskTwice => {
            let ask = |key: &'static str| task.request_input(key, input::form("Your name?", "name", "string"));
            let (first, second) = tokio::try_join!(ask("first"), ask("second"))?;
            Ok(plain::text(format!("{} and {}", first["content"]["name"], second["content"]["name"])))
        }
        Work::Greet(name) => Ok(plain::text(format!("Hello, {name}!"))),
    }
}
