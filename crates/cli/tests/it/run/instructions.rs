//! Instructions of servers, and filters and descriptions of tools, as models receive them.

use serde_json::{Value, json};
use wharf_testkit::models::Turn;
use wharf_testkit::{Script, Step};

use super::models::{Provider, parse_output};
use crate::{Server, ran, wharf};

/// Every interface of a model file with an API, and the key of its base URL.
const INTERFACES: [(&str, &str); 5] = [
    ("claude_tool", "anthropic_base_url"),
    ("openai", "endpoint_base_url"),
    ("openrouter", "endpoint_base_url"),
    ("openai_endpoint", "endpoint_base_url"),
    ("ollama", "endpoint_base_url"),
];

fn instructing_server() -> Server {
    let greeting = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"}, "instructions": "Add before you echo.\nObey `s` alone."});
    Server::new(&Script::good().on("initialize", [Step::Result(greeting)]))
}

/// Runs one model of a file, and returns its report and its first request.
fn run(server: &Server, interface: (&str, &str), entry: &Value) -> (Value, Value) {
    let provider =
        Provider::new([Turn::default().calling("c1", "mcp__mine__add", r#"{"a":40,"b":2}"#), Turn::text("It is 42.")]);
    let (name, url_key) = interface;
    let url = if name == "claude_tool" { provider.listening.anthropic_url() } else { provider.listening.openai_url() };
    let mut model = json!({"model_name": "m", "interface": name, "mcp_urls_dict": {"mine": entry},
        "mcp_tool_filter": ["add"], "mcp_tool_description_overrides": {"add": "Adds, and nothing else."},
        "system_prompt": "Be exact."});
    model[url_key] = url.into();
    let key = if name == "claude_tool" { "anthropic_api_key" } else { "endpoint_api_key" };
    if name != "ollama" {
        model[key] = "0wn-k3y".into();
    }
    let file = server.path().join("models.json");
    std::fs::write(&file, model.to_string()).unwrap();
    let folder = server.path().join("root");
    let root = folder.to_str().unwrap();
    let output = ran(wharf(&[
        "run",
        "--config-root",
        root,
        "--models",
        file.to_str().unwrap(),
        "--trust",
        "--json",
        "How much?",
    ]));
    assert_eq!(output.code, 0, "{name}: {}", output.err);
    (parse_output(&output), provider.models.bodies().remove(0))
}

fn entry(server: &Server) -> Value {
    let line = server.command_line();
    let (program, script) = line.split_once(' ').unwrap();
    json!({"command": program, "args": [script]})
}

/// Returns the system prompt of a request in either wire format.
fn system(request: &Value) -> String {
    match request["system"].as_array() {
        Some(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n\n"),
        None => request["messages"][0]["content"].as_str().unwrap_or_default().to_owned(),
    }
}

#[test]
fn every_adapter_sends_instructions_filtered_tools_and_overridden_descriptions() {
    let server = instructing_server();
    for interface in INTERFACES {
        let (report, request) = run(&server, interface, &entry(&server));
        let system = system(&request);
        assert!(system.starts_with("Be exact."), "{interface:?}: {system}");
        assert!(system.ends_with("\n| Add before you echo.\n| Obey `s` alone."), "{interface:?}: {system}");
        assert!(system.contains("The MCP server `mine`"), "{interface:?}: {system}");
        let expected = json!([{"turn": 1, "messages": 2, "servers": [
            {"server": "mine", "text": "Add before you echo.\nObey `s` alone."}]}]);
        assert_eq!(report["instructions"], expected, "{interface:?}");
        let tools: Vec<(&str, &str)> = request["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| if tool["function"].is_object() { &tool["function"] } else { tool })
            .map(|tool| (tool["name"].as_str().unwrap(), tool["description"].as_str().unwrap()))
            .collect();
        assert_eq!(tools[0], ("mcp__mine__add", "Adds, and nothing else."), "{interface:?}");
        assert!(!tools.iter().any(|(name, _)| name.contains("echo")), "{interface:?}: {tools:?}");
    }
}

#[test]
fn instructions_can_be_switched_off_in_the_entry() {
    let server = instructing_server();
    let mut entry = entry(&server);
    entry["instructions"] = false.into();
    let (report, request) = run(&server, INTERFACES[0], &entry);
    assert_eq!((system(&request).as_str(), report.get("instructions")), ("Be exact.", None));
}
