//! The tools, prompts and resources, and plain results.

use rmcp::model::{CallToolResult, ContentBlock, Prompt, Resource, ResourceTemplate, Tool};
use serde_json::{Value, json};

pub(crate) fn text(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

pub(crate) fn error(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

/// Returns the initial tools.
pub(crate) fn tools() -> Vec<Tool> {
    let string = json!({"type": "string"});
    let integer = json!({"type": "integer"});
    let header = |kind: &str, name: &str| json!({"type": kind, "x-mcp-header": name});
    let room = json!({"type": "object", "properties": {"city": header("string", "City"), "floor": integer}});
    let nothing = || json!({});
    vec![
        tool("echo", json!({"text": string}), &["text"]),
        tool("slow", json!({"steps": integer, "delay_ms": integer}), &["steps", "delay_ms"]),
        tool("meta", nothing(), &[]),
        tool("list_count", nothing(), &[]),
        tool("read_count", nothing(), &[]),
        tool("grow", json!({"name": string}), &["name"]),
        tool("touch", json!({"uri": string}), &["uri"]),
        tool("hang_up", nothing(), &[]),
        tool("ask_form", nothing(), &[]),
        tool("ask_url", nothing(), &[]),
        tool("ask_model", nothing(), &[]),
        tool("ask_roots", nothing(), &[]),
        tool("ask_all", nothing(), &[]),
        tool("ask_twice", nothing(), &[]),
        tool("ask_again", nothing(), &[]),
        tool("ask_forever", nothing(), &[]),
        tool(
            "headers",
            json!({
                "region": header("string", "Region"),
                "count": header("integer", "Count"),
                "urgent": header("boolean", "Urgent"),
                "room": room,
                "plain": string,
            }),
            &[],
        ),
        tool("bad_header_type", json!({"a": header("number", "A")}), &[]),
        tool("bad_header_name", json!({"a": header("string", "not a token")}), &[]),
        tool("bad_header_twice", json!({"a": header("string", "Same"), "b": header("string", "sAME")}), &[]),
        tool("bad_header_place", json!({"a": {"type": "array", "items": header("string", "A")}}), &[]),
        tool("task_after", json!({"ms": integer, "is_error": {"type": "boolean"}}), &["ms"]),
        tool("task_fail", json!({"ms": integer}), &["ms"]),
        tool("task_ask", nothing(), &[]),
        tool("task_forever", nothing(), &[]),
    ]
}

/// Returns an echo tool that `grow` adds at runtime.
pub(crate) fn grown(name: &str) -> Tool {
    tool(name, json!({"text": {"type": "string"}}), &["text"])
}

fn tool(name: &str, properties: Value, required: &[&str]) -> Tool {
    let mut schema = json!({"type": "object"});
    schema["properties"] = properties;
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    parsed(json!({"name": name, "description": format!("The tool {name}."), "inputSchema": schema}))
}

pub(crate) fn prompts() -> Vec<Prompt> {
    parsed(json!([
        {"name": "greet", "description": "Ask for a greeting.", "arguments": [{"name": "name", "required": true}]},
        {"name": "ask", "description": "Ask who is to be greeted first."},
    ]))
}

pub(crate) fn resources() -> Vec<Resource> {
    parsed(json!([
        {"name": "hello", "uri": "note://hello", "mimeType": "text/plain"},
        {"name": "ask", "uri": "note://ask", "mimeType": "text/plain"},
    ]))
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    parsed(json!([{"name": "echo", "uriTemplate": "echo://{words}", "mimeType": "text/plain"}]))
}

fn parsed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("valid for rmcp")
}
