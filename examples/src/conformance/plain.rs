//! The tools with fixed results.

use serde_json::{Value, json};
use wharf::server::rmcp::model::{CallToolResult, ContentBlock};

use super::parse;

/// One red pixel.
pub(super) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

/// One sample of silence.
const WAV: &str = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQIAAAAAAA==";

pub(super) fn text(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

pub(super) fn failure(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

pub(super) fn result(tool: &str) -> Option<CallToolResult> {
    Some(match tool {
        "test_simple_text" => text("This is a simple text response for testing."),
        "test_image_content" => content(json!([image()])),
        "test_audio_content" => content(json!([{ "type": "audio", "data": WAV, "mimeType": "audio/wav" }])),
        "test_embedded_resource" => {
            let uri = "test://embedded-resource";
            let text = "This is an embedded resource content.";
            content(json!([resource(uri, "text/plain", text)]))
        }
        "test_multiple_content_types" => {
            let text = json!({ "type": "text", "text": "Multiple content types test:" });
            let data = json!({ "test": "data", "value": 123 }).to_string();
            content(json!([text, image(), resource("test://mixed-content-resource", "application/json", &data)]))
        }
        "test_error_handling" => failure("This tool intentionally returns an error for testing"),
        "test_x_mcp_header" | "json_schema_2020_12_tool" => text("The arguments were accepted."),
        _ => return None,
    })
}

fn content(blocks: Value) -> CallToolResult {
    CallToolResult::success(parse(blocks))
}

pub(super) fn image() -> Value {
    json!({ "type": "image", "data": PNG, "mimeType": "image/png" })
}

pub(super) fn resource(uri: &str, kind: &str, text: &str) -> Value {
    json!({ "type": "resource", "resource": { "uri": uri, "mimeType": kind, "text": text } })
}
