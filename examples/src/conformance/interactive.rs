//! The tools that send progress, logs and, before 2026-07-28, requests to the client while they run.

use std::time::Duration;

use serde_json::{Value, json};
use wharf::server::rmcp::ErrorData;
use wharf::server::rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ServerNotification, ServerRequest,
};

use super::{Context, is_modern, parse, plain};

/// Delay between two notifications of a tool.
const STEP: Duration = Duration::from_millis(50);

pub(super) async fn respond(request: &CallToolRequestParams, context: &Context) -> Result<CallToolResponse, ErrorData> {
    let argument = |name| request.arguments.as_ref().and_then(|given| given.get(name)).cloned().unwrap_or_default();
    let result = match &*request.name {
        "test_tool_with_logging" | "test_logging_tool" => logging(context).await,
        "test_tool_with_progress" => progress(context).await,
        "test_reconnection" => {
            tokio::time::sleep(STEP).await;
            plain::text("The stream was not reopened.")
        }
        "test_missing_capability" => {
            if context.client_capabilities().is_none_or(|capabilities| capabilities.sampling.is_none()) {
                let required: ClientCapabilities = parse(json!({ "sampling": {} }));
                return Err(ErrorData::missing_required_client_capability(required));
            }
            plain::text("The client responded.")
        }
        "test_sampling" => sampling(argument("prompt"), context).await?,
        "test_elicitation" => {
            elicitation(argument("message"), names_and_addresses(), "User response:", context).await?
        }
        "test_elicitation_sep1034_defaults" => {
            elicitation("With defaults".into(), defaults(), "Elicitation completed:", context).await?
        }
        "test_elicitation_sep1330_enums" => {
            elicitation("With choices".into(), choices(), "Elicitation completed:", context).await?
        }
        unknown => return Err(ErrorData::invalid_params(format!("unknown tool `{unknown}`"), None)),
    };
    Ok(result.into())
}

async fn notify(context: &Context, method: &str, params: Value) {
    let notification: ServerNotification = parse(json!({ "method": method, "params": params }));
    // A disconnected client needs no notifications.
    let _ = context.peer.send_notification(notification).await;
}

/// Sends log messages. Since 2026-07-28 a client that requests no level gets none.
async fn logging(context: &Context) -> CallToolResult {
    let requested = !is_modern(context) || context.meta.log_level().is_some();
    for line in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        if requested {
            notify(context, "notifications/message", json!({ "level": "info", "data": line })).await;
        }
        tokio::time::sleep(STEP).await;
    }
    plain::text("Logging completed.")
}

async fn progress(context: &Context) -> CallToolResult {
    for done in [0, 50, 100] {
        if let Some(token) = context.meta.get_progress_token() {
            let params = json!({ "progressToken": token, "progress": done, "total": 100 });
            notify(context, "notifications/progress", params).await;
        }
        tokio::time::sleep(STEP).await;
    }
    plain::text("Completed.")
}

async fn request(method: &str, params: Value, context: &Context) -> Result<Value, ErrorData> {
    let message: ServerRequest = parse(json!({ "method": method, "params": params }));
    let failed = |error: &dyn std::fmt::Display| ErrorData::internal_error(format!("{method} failed: {error}"), None);
    let response = context.peer.send_request(message).await.map_err(|error| failed(&error))?;
    serde_json::to_value(response).map_err(|error| failed(&error))
}

async fn sampling(prompt: Value, context: &Context) -> Result<CallToolResult, ErrorData> {
    let message = json!({ "role": "user", "content": { "type": "text", "text": prompt } });
    let response =
        request("sampling/createMessage", json!({ "messages": [message], "maxTokens": 100 }), context).await?;
    let text = response["content"]["text"].as_str().unwrap_or_default();
    Ok(plain::text(format!("LLM response: {text}")))
}

async fn elicitation(
    message: Value,
    schema: Value,
    heading: &str,
    context: &Context,
) -> Result<CallToolResult, ErrorData> {
    let response =
        request("elicitation/create", json!({ "message": message, "requestedSchema": schema }), context).await?;
    let action = response["action"].as_str().unwrap_or_default();
    Ok(plain::text(format!("{heading} action={action}, content={}", response["content"])))
}

fn names_and_addresses() -> Value {
    let properties = json!({
        "username": { "type": "string", "description": "User's response" },
        "email": { "type": "string", "description": "User's email address" },
    });
    json!({ "type": "object", "properties": properties, "required": ["username", "email"] })
}

fn defaults() -> Value {
    let properties = json!({
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "default": true },
    });
    json!({ "type": "object", "properties": properties })
}

fn choices() -> Value {
    let options = json!(["option1", "option2", "option3"]);
    let titled = |kind: &str| {
        let choice = |value: &str, number: &str| json!({ "const": value, "title": format!("{number} {kind}") });
        json!([choice("value1", "First"), choice("value2", "Second"), choice("value3", "Third")])
    };
    let names = ["Option One", "Option Two", "Option Three"];
    let properties = json!({
        "untitledSingle": { "type": "string", "enum": options },
        "titledSingle": { "type": "string", "oneOf": titled("Option") },
        "legacyEnum": { "type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": names },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": options } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
    });
    json!({ "type": "object", "properties": properties })
}
