//! The list of tools.

use serde_json::{Value, json};
use wharf::server::rmcp::model::Tool;

use super::parse;

/// The tools without arguments.
const WITHOUT_ARGUMENTS: [&str; 31] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_error_handling",
    "test_tool_with_logging",
    "test_logging_tool",
    "test_tool_with_progress",
    "test_reconnection",
    "test_missing_capability",
    "test_streaming_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
    "test_tool_with_task",
    "failing_job",
    "protocol_error_job",
    "multi_input",
    "confirm_delete",
    "slow_compute",
    "greet",
];

/// Returns all tools, always in the same order.
pub(super) fn list() -> Vec<Tool> {
    let bare = WITHOUT_ARGUMENTS.iter().map(|name| tool(name, &arguments(name)));
    let others = [
        tool("test_sampling", &strings(&["prompt"])),
        tool("test_elicitation", &strings(&["message"])),
        tool("json_schema_2020_12_tool", &complex_schema()),
        tool("test_x_mcp_header", &schema_with_header()),
    ];
    bare.chain(others).collect()
}

fn tool(name: &str, schema: &Value) -> Tool {
    let description = format!("The fixture `{name}` of the conformance suite");
    parse(json!({ "name": name, "description": description, "inputSchema": schema }))
}

/// Returns the optional arguments of task tools.
fn arguments(name: &str) -> Value {
    let properties = match name {
        "greet" => json!({ "name": { "type": "string" } }),
        "slow_compute" => json!({ "seconds": { "type": "number" }, "label": { "type": "string" } }),
        "confirm_delete" => json!({ "filename": { "type": "string" } }),
        _ => json!({}),
    };
    json!({ "type": "object", "properties": properties })
}

fn strings(names: &[&str]) -> Value {
    let properties = names.iter().map(|name| ((*name).to_owned(), json!({ "type": "string" })));
    json!({ "type": "object", "properties": properties.collect::<serde_json::Map<_, _>>(), "required": names })
}

/// Returns a schema with rarely used features of JSON Schema 2020-12, which must arrive unchanged.
fn complex_schema() -> Value {
    let street_and_city = json!({ "street": { "type": "string" }, "city": { "type": "string" } });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": { "$anchor": "addressDef", "type": "object", "properties": street_and_city } },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}

fn schema_with_header() -> Value {
    let region = json!({ "type": "string", "x-mcp-header": "Region" });
    json!({ "type": "object", "properties": { "region": region }, "required": ["region"] })
}
