//! `wharf run --models FILE`: models with their own servers and settings.

use std::path::Path;

use serde_json::{Value, json};
use wharf_testkit::Script;
use wharf_testkit::models::Turn;

use super::models::{Provider, parse_output};
use crate::{RunOutput, Server, ran, wharf};

fn with_models(folder: &Path, models: &Value) -> String {
    let file = folder.join("models.json");
    std::fs::write(&file, models.to_string()).unwrap();
    file.display().to_string()
}

/// Runs with a config root that has a configured server, which models of a file must ignore.
fn run(provider: &Provider, server: &Server, arguments: &[&str]) -> RunOutput {
    let project = server.path().join("project");
    std::fs::create_dir_all(&project).unwrap();
    let configured = json!({"mcpServers": {"configured": {"type": "http", "url": "http://127.0.0.1:1/mcp"}}});
    let root = server.path().join("root/config");
    std::fs::create_dir_all(&root).unwrap();
    std::fs::write(root.join("mcp.json"), configured.to_string()).unwrap();
    let root = server.path().join("root");
    let mut command = wharf(&[&["run", "--config-root", root.to_str().unwrap()], arguments].concat());
    provider.env(&mut command);
    command.current_dir(project);
    ran(command)
}

fn names(request: &Value) -> Vec<&str> {
    request["tools"]
        .as_array()
        .map(|tools| tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect())
        .unwrap_or_default()
}

#[test]
fn a_model_of_a_file_uses_its_own_servers_filters_and_descriptions() {
    let server = Server::new(&Script::good());
    let provider = Provider::new([
        Turn::default().calling("c1", "mcp__mine__add", r#"{"a":40,"b":2}"#),
        Turn::text("It is 42."),
        Turn::text("Just so."),
    ]);
    let url = provider.listening.anthropic_url();
    let file = with_models(
        server.path(),
        &json!([
            {"id": "agent", "model_name": "claude-sonnet-4-5", "model_provider": "anthropic", "interface": "langchain",
             "mcp_urls_dict": {"mine": server.command_line()}, "mcp_tool_filter": ["add", "ad"],
             "agent_middleware": {"limits": {"per_tool_limit": {"add": 1, "mcp__mine__add": 9}},
                 "prompt_caching": {"enabled": false}},
             "mcp_tool_description_overrides": {"add": "Adds, and nothing else."}, "system_prompt": "Be exact.",
             "anthropic_base_url": url, "anthropic_api_key": "0wn-k3y", "temperature": 0.7, "max_tokens": 99},
            {"id": "plain", "model_name": "claude-sonnet-4-5", "interface": "claude_tool", "temperature": null,
             "agent_middleware": {"limits": {"model_call_limit": 1}}},
        ]),
    );
    let ran = run(&provider, &server, &["--models", &file, "-m", "agent", "--json", "How much?"]);
    let report = parse_output(&ran);
    assert_eq!((ran.code, &report["final_response"]), (0, &json!("It is 42.")), "{}", ran.err);
    assert_eq!(report["trace_messages"][1]["content"], "42");
    assert_eq!(report["servers"].as_array().unwrap().len(), 1, "what is configured is left out");
    let request = &provider.models.bodies()[0];
    assert_eq!(names(request), ["mcp__mine__add", "read_output"]);
    insta::assert_snapshot!(ran.err, @"
    warning: `mcp_tool_filter` names the unknown tool `ad`
    warning: `per_tool_limit` names the unknown tool `add`
    ");
    assert_eq!(request["tools"][0]["description"], "Adds, and nothing else.");
    assert_eq!((&request["temperature"], &request["max_tokens"]), (&json!(0.7), &json!(99)));
    assert!(request["system"].to_string().contains("Be exact."));
    // A model without servers gets no `tools` field, and settings for agents do not apply.
    let ran = run(&provider, &server, &["--models", &file, "-m", "plain", "--json", "And so?"]);
    let report = parse_output(&ran);
    assert_eq!((&report["final_response"], &report["servers"]), (&json!("Just so."), &json!([])), "{}", ran.err);
    let request = provider.models.bodies().pop().unwrap();
    assert!(request.get("tools").is_none() && request.get("temperature").is_none(), "{request}");
}

#[test]
fn command_line_limits_override_those_of_the_model() {
    let server = Server::new(&Script::good());
    let calls = || Turn::default().calling("c1", "mcp__mine__add", r#"{"a":1,"b":1}"#);
    let provider = Provider::new([calls(), calls(), calls(), calls()]);
    let line = server.command_line();
    let (program, script) = line.split_once(' ').unwrap();
    let file = with_models(
        server.path(),
        &json!({"model_name": "x", "interface": "openai", "mcp_urls_dict": {"mine": {"command": program,
            "args": [script]}}, "agent_middleware": {"limits": {"model_call_limit": 1}}}),
    );
    let ran = run(&provider, &server, &["--models", &file, "--json", "Go on"]);
    let report = parse_output(&ran);
    assert_eq!((ran.code, &report["limits"]), (1, &json!([{"kind": "model_calls", "most": 1}])), "{}", ran.err);
    let more = parse_output(&run(&provider, &server, &["--models", &file, "--max-turns", "2", "--json", "Go on"]));
    assert_eq!((&more["turns"], &more["limit_reached"]), (&json!(2), &json!(true)));
}

#[test]
fn unusable_models_are_reported_with_the_reason() {
    let server = Server::new(&Script::good());
    let provider = Provider::new([]);
    let error = |models: &Value, more: &[&str]| {
        let file = with_models(server.path(), models);
        let ran = run(&provider, &server, &[&["--models", &file], more, &["Hi"]].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""));
        ran.err.replace(&server.path().display().to_string(), "[folder]")
    };
    let model = |id: &str| json!({"id": id, "model_name": "x", "interface": "claude_tool"});
    let manual = json!({"id": "old", "model_name": "t.json", "interface": "manual", "mcp_urls_dict": {"a": "uvx a"}});
    let servers = json!({"id": "odd", "model_name": "x", "interface": "claude_tool",
        "mcp_urls_dict": {"a": "", "b": "https://", "c": {"url": "https://c.example", "timeout": 3}}});
    let key = json!({"id": "mine", "model_name": "x", "interface": "openai", "endpoint_base_url": "http://127.0.0.1:1",
        "endpoint_api_key": "${NOT_SET_ANYWHERE}"});
    let filters = json!({"id": "twice", "model_name": "x", "interface": "claude_tool", "mcp_tool_filter": ["a"],
        "mcp_urls_dict": {"s": {"command": "true", "tools": {"allow": ["b"]}}}});
    let errors = [
        error(&json!([model("one"), model("two")]), &[]),
        error(&json!([model("one"), model("two")]), &["-m", "three"]),
        error(&manual, &[]),
        error(&servers, &[]),
        error(&key, &[]),
        error(&filters, &[]),
    ];
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn an_unavailable_model_is_substituted_unless_strict() {
    let server = Server::new(&Script::good());
    let provider = Provider::new([Turn::text("Hello.")]);
    let file = with_models(server.path(), &json!({"model_name": "claude-sonnet-4-5", "interface": "claude_agent_sdk"}));
    let strict = run(&provider, &server, &["--models", &file, "--strict", "Hi"]);
    assert!(strict.code == 2 && strict.err.contains("claude-code is unavailable"), "{}", strict.err);
    let ran = run(&provider, &server, &["--models", &file, "Hi"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Hello.\n"), "{}", ran.err);
    assert!(ran.err.contains("; using anthropic:claude-sonnet-4-5 instead"), "{}", ran.err);
}

#[test]
fn scripted_models_resolve_paths_relative_to_their_file() {
    let server = Server::new(&Script::good());
    std::fs::write(server.path().join("turns.yaml"), "- text: As told.\n").unwrap();
    let file = with_models(server.path(), &json!({"models": [{"model_name": "turns.yaml", "interface": "scripted"}]}));
    let ran = run(&Provider::new([]), &server, &["--models", &file, "Hi"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "As told.\n"), "{}", ran.err);
}
