//! The tools that return a task.

use std::io::Write as _;
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{CallToolResponse, CreateTaskResult, JsonObject};
use rmcp::task_manager::{TaskContext, TaskExit, TaskFuture, TaskManager, TaskOptions};

use crate::ask::{self, Need};
use crate::catalog::{error, text};

const POLL_MS: u64 = 50;
const TTL_MS: u64 = 60_000;

/// Starts the task of the tool `name`, if it is a task tool.
pub(crate) fn start(tasks: &TaskManager, name: &str, arguments: &JsonObject) -> Option<CallToolResponse> {
    let after = Duration::from_millis(arguments.get("ms").and_then(serde_json::Value::as_u64).unwrap_or_default());
    let is_error = arguments.get("is_error").and_then(serde_json::Value::as_bool) == Some(true);
    let work: Box<dyn FnOnce(TaskContext) -> TaskFuture> = match name {
        "task_after" => Box::new(move |task| {
            let finished = if is_error { error("finished") } else { text("finished") };
            Box::pin(async move { unless_cancelled(&task, after).await.map(|()| finished) })
        }),
        "task_fail" => Box::new(move |task| {
            let broken = TaskExit::Error(ErrorData::internal_error("it broke", None));
            Box::pin(async move { unless_cancelled(&task, after).await.and(Err(broken)) })
        }),
        "task_ask" => Box::new(|task| {
            Box::pin(async move {
                let answer = task.request_input("name", ask::request(Need::Form)).await?;
                Ok(text(ask::describe(&answer)))
            })
        }),
        "task_forever" => Box::new(|task| {
            Box::pin(async move {
                task.cancelled().await;
                // The caller is gone, so only stderr can show it.
                let _ = writeln!(std::io::stderr(), "task_forever was cancelled");
                Err(TaskExit::Cancelled)
            })
        }),
        _ => return None,
    };
    let options = TaskOptions::new().with_ttl_ms(TTL_MS).with_poll_interval_ms(POLL_MS).with_status_message("busy");
    Some(CreateTaskResult::new(tasks.spawn(options, work)).into())
}

async fn unless_cancelled(task: &TaskContext, after: Duration) -> Result<(), TaskExit> {
    tokio::select! {
        () = tokio::time::sleep(after) => Ok(()),
        () = task.cancelled() => Err(TaskExit::Cancelled),
    }
}
