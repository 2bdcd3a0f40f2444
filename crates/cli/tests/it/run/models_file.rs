//! `wharf run --models FILE`: models with their own servers and settings.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use wharf_testkit::models::Turn;
use wharf_testkit::{Script, Step, scripted_server};

use super::models::{Provider, parse_output};
use crate::terminal::{Terminal, on_terminal};
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
    let root = server.path().join("root");
    std::fs::create_dir_all(&root).unwrap();
    std::fs::write(root.join("mcp.json"), configured.to_string()).unwrap();
    ran(command(provider, server, arguments))
}

/// Returns the binary with the user state next to the server.
fn command(provider: &Provider, server: &Server, arguments: &[&str]) -> Command {
    let root = server.path().join("root");
    let mut command = wharf(&[&["run", "--config-root", root.to_str().unwrap()], arguments].concat());
    provider.env(&mut command);
    command.current_dir(server.path().join("project"));
    command
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
             "system_prompt": "Be plain.",
             "agent_middleware": {"prompt_caching": {"enabled": false}}},
        ]),
    );
    let ran = run(&provider, &server, &["--models", &file, "-m", "agent", "--trust", "--json", "How much?"]);
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
    assert!(!request.to_string().contains("cache_control"), "the setting for agents applies: {request}");
    // A model without servers gets no `tools` field, and settings for agents do not apply.
    let ran = run(&provider, &server, &["--models", &file, "-m", "plain", "--json", "And so?"]);
    let report = parse_output(&ran);
    assert_eq!((&report["final_response"], &report["servers"]), (&json!("Just so."), &json!([])), "{}", ran.err);
    let request = provider.models.bodies().pop().unwrap();
    assert!(request.get("tools").is_none() && request.get("temperature").is_none(), "{request}");
    assert!(request.to_string().contains("cache_control"), "the setting for agents does not apply: {request}");
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
    let ran = run(&provider, &server, &["--models", &file, "--trust", "--json", "Go on"]);
    let report = parse_output(&ran);
    assert_eq!((ran.code, &report["limits"]), (1, &json!([{"kind": "model_calls", "most": 1}])), "{}", ran.err);
    let more =
        parse_output(&run(&provider, &server, &["--models", &file, "--trust", "--max-turns", "2", "--json", "Go on"]));
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
        "mcp_urls_dict": {"a": "", "b": "https://", "c": {"url": "https://c.example", "required": 3}}});
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

#[test]
fn a_file_that_a_model_file_names_is_not_quoted() {
    let server = Server::new(&Script::good());
    std::fs::write(server.path().join("notes.txt"), "root: x-of-root\n").unwrap();
    for (interface, kind) in [("scripted", "scripted turns"), ("manual", "answers")] {
        let model = json!({"model_name": "notes.txt", "interface": interface});
        let file = with_models(server.path(), &json!({"models": [model]}));
        let ran = run(&Provider::new([]), &server, &["--models", &file, "Hi"]);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains(&format!("notes.txt: not a file of {kind}")), "{}", ran.err);
        assert!(!ran.err.contains("x-of-root"), "{}", ran.err);
    }
    // The user may see what is wrong with a file of their own.
    let file = server.path().join("notes.txt");
    let ran = run(&Provider::new([]), &server, &["-m", &format!("scripted:{}", file.display()), "Hi"]);
    assert!(ran.code == 2 && ran.err.contains("line 1"), "{}", ran.err);
}

/// Returns a model file with a server that is a command.
fn with_command(server: &Server, more: &str) -> String {
    let mut entry = json!({"command": "env", "args": ["A=b"], "env": {"MINE": "${SECRET}"}});
    let words = server.command_line();
    entry["args"].as_array_mut().unwrap().extend(words.split(' ').chain([more]).map(Value::from));
    let model =
        json!({"id": "m", "model_name": "turns.yaml", "interface": "scripted", "mcp_urls_dict": {"mine": entry}});
    std::fs::write(server.path().join("turns.yaml"), "- text: Done.\n").unwrap();
    with_models(server.path(), &model)
}

#[test]
fn commands_of_a_model_file_start_only_after_approval_or_with_trust() {
    let server = Server::new(&Script::good());
    let provider = Provider::new([]);
    let file = with_command(&server, "one");
    let refused = run(&provider, &server, &["--models", &file, "Hi"]);
    let shown = refused.err.replace(&server.path().display().to_string(), "[folder]");
    let shown = shown.replace(&scripted_server().display().to_string(), "[server]");
    insta::assert_snapshot!(shown, @"
    server `mine` (env 'A=b' [server] [folder]/script one) reads your SECRET
    error: [folder]/models.json: server `mine` runs a command that you have not approved
    hint: run it at a terminal to review and approve it, or start its commands without approval with --trust
    ");
    assert_eq!((refused.code, refused.out.as_str()), (2, ""));
    let trusted = run(&provider, &server, &["--models", &file, "--trust", "Hi"]);
    assert_eq!((trusted.code, trusted.out.as_str()), (0, "Done.\n"), "{}", trusted.err);
    assert!(trusted.err.contains("server `mine`") && trusted.err.contains("reads your SECRET"), "{}", trusted.err);

    // Trust is for one run; an approval at the terminal stays.
    assert_eq!(run(&provider, &server, &["--models", &file, "Hi"]).code, 2);
    let (code, seen) = answered(&provider, &server, &file, "n");
    assert!(code == Some(2) && seen.contains("Approve? [y/N]") && seen.contains("with      MINE=${SECRET}"), "{seen}");
    let (code, seen) = answered(&provider, &server, &file, "y");
    assert!(code == Some(0) && seen.contains("Done."), "{seen}");
    let approved = run(&provider, &server, &["--models", &file, "Hi"]);
    assert_eq!((approved.code, approved.out.as_str()), (0, "Done.\n"), "{}", approved.err);
    // It covers the exact entry.
    let file = with_command(&server, "two");
    let changed = run(&provider, &server, &["--models", &file, "Hi"]);
    assert!(changed.code == 2 && changed.err.contains("you have not approved"), "{}", changed.err);
}

#[test]
fn an_approval_of_a_model_files_command_is_for_one_directory() {
    let server = Server::new(&Script::good());
    let provider = Provider::new([]);
    let model = json!({"id": "m", "model_name": "turns.yaml", "interface": "scripted",
        "mcp_urls_dict": {"mine": "sh srv.sh"}});
    std::fs::write(server.path().join("turns.yaml"), "- text: Done.\n").unwrap();
    let file = with_models(server.path(), &model);
    let [project, other] = ["project", "other"].map(|name| server.path().join(name));
    std::fs::create_dir_all(&project).unwrap();
    std::fs::create_dir_all(&other).unwrap();
    std::fs::write(project.join("srv.sh"), format!("exec {}\n", server.command_line())).unwrap();
    std::fs::write(other.join("srv.sh"), "touch started\n").unwrap();
    let (code, seen) = answered(&provider, &server, &file, "y");
    assert!(code == Some(0) && seen.contains(project.to_str().unwrap()), "{seen}");
    assert_eq!(run(&provider, &server, &["--models", &file, "Hi"]).code, 0);

    let mut elsewhere = command(&provider, &server, &["--models", "../models.json", "Hi"]);
    elsewhere.current_dir(&other);
    let refused = ran(elsewhere);
    assert!(refused.code == 2 && refused.err.contains("you have not approved"), "{}", refused.err);
    assert!(!other.join("started").exists());
}

/// Runs at a terminal, and answers the question.
fn answered(provider: &Provider, server: &Server, file: &str, answer: &str) -> (Option<i32>, String) {
    let plain = command(provider, server, &["--models", file, "Hi"]);
    let words = std::iter::once(plain.get_program()).chain(plain.get_args()).map(|word| word.to_str().unwrap());
    let mut script = on_terminal(&shlex_join(words));
    provider.env(&mut script);
    script.current_dir(server.path().join("project"));
    let mut terminal = Terminal::start(script);
    terminal.answer("Approve? [y/N] ", answer);
    terminal.finish()
}

fn shlex_join<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_headers_helper_of_a_model_file_is_a_command() {
    let server = Server::new(&Script::good());
    let helper = format!("touch {}", server.path().join("started").display());
    let entry = json!({"type": "http", "url": "http://127.0.0.1:1/mcp", "headersHelper": helper});
    let file = with_models(
        server.path(),
        &json!({"model_name": "x", "interface": "claude_tool", "mcp_urls_dict": {"mine": entry}}),
    );
    let ran = run(&Provider::new([]), &server, &["--models", &file, "Hi"]);
    assert!(ran.code == 2 && ran.err.contains("runs a command that you have not approved"), "{}", ran.err);
    assert!(!server.path().join("started").exists());
}

#[test]
fn keys_of_the_environment_are_not_sent_to_urls_of_a_model_file() {
    let server = Server::new(&Script::good());
    let provider = Provider::new([Turn::text("Hello.")]);
    let anthropic = provider.listening.anthropic_url();
    let model = |key: Option<&str>, url: &str| {
        let mut model = json!({"id": "m", "model_name": "x", "interface": "claude_tool", "anthropic_base_url": url});
        if let Some(key) = key {
            model["anthropic_api_key"] = json!(key);
        }
        with_models(server.path(), &model)
    };
    let refused = |file: &str, more: &[&str], expected: &str| {
        let ran = run(&provider, &server, &[&["--models", file], more, &["Hi"]].concat());
        assert!(ran.code == 2 && ran.err.contains(expected), "{}", ran.err);
    };
    refused(&model(None, &anthropic), &[], "model `m`: ANTHROPIC_API_KEY is not sent to the base URL of a file");
    refused(&model(None, &anthropic), &["--trust"], "ANTHROPIC_API_KEY is not sent");
    let named = model(Some("${ANTHROPIC_API_KEY}"), &anthropic);
    refused(&named, &[], "ANTHROPIC_API_KEY would be sent to http://127.0.0.1:");
    refused(
        &model(Some("${OPENAI_API_KEY}"), "https://evil.test"),
        &[],
        "OPENAI_API_KEY would be sent to https://evil.test",
    );
    let plain = "its API key would be sent to http://evil.test over unencrypted http";
    refused(&model(Some("own-key"), "http://evil.test/v1"), &[], plain);
    refused(&model(Some("own-key"), "http://evil.test/v1"), &["--trust"], plain);
    assert!(provider.models.bodies().is_empty());

    let named = model(Some("${ANTHROPIC_API_KEY}"), &anthropic);
    let trusted = run(&provider, &server, &["--models", &named, "--trust", "Hi"]);
    assert_eq!((trusted.code, trusted.out.as_str()), (0, "Hello.\n"), "{}", trusted.err);
    let listed = "model `m` reads your ANTHROPIC_API_KEY and sends it to http://127.0.0.1:";
    assert!(trusted.err.starts_with(listed), "{}", trusted.err);
}

#[test]
fn variables_that_a_model_file_names_are_listed_before_the_run() {
    let server = Server::new(&Script::good());
    let provider = Provider::new([Turn::text("Hello."), Turn::text("Hello.")]);
    let url = provider.listening.anthropic_url();
    let model = json!({"id": "m", "model_name": "x", "interface": "claude_tool", "anthropic_base_url": url,
        "anthropic_api_key": "${SECRET}"});
    let file = with_models(server.path(), &model);
    for more in [&[][..], &["-q"]] {
        let ran = run(&provider, &server, &[&["--models", &file], more, &["Hi"]].concat());
        assert_eq!((ran.code, ran.out.as_str()), (0, "Hello.\n"), "{}", ran.err);
        assert!(ran.err.starts_with("model `m` reads your SECRET and sends it to http://127.0.0.1:"), "{}", ran.err);
        assert!(!ran.err.contains("s3cr3t"), "{}", ran.err);
    }
    let file = with_command(&server, "one");
    let ran = run(&provider, &server, &["--models", &file, "--trust", "-q", "Hi"]);
    assert!(ran.code == 0 && ran.err.contains("server `mine`") && ran.err.contains("reads your SECRET"), "{}", ran.err);
}

#[test]
fn remote_servers_of_a_model_file_do_not_get_the_keys_of_providers() {
    let server = Server::new(&Script::good());
    let entry = json!({"type": "http", "url": "https://evil.test/mcp", "headers": {"X": "${OPENAI_API_KEY}"}});
    let file = with_models(
        server.path(),
        &json!({"model_name": "x", "interface": "claude_tool", "mcp_urls_dict": {"mine": entry}}),
    );
    let ran = run(&Provider::new([]), &server, &["--models", &file, "Hi"]);
    assert!(ran.code == 2 && ran.err.contains("server `mine` would get your OPENAI_API_KEY"), "{}", ran.err);
}

#[test]
fn variables_of_a_model_file_are_not_sent_over_unencrypted_connections() {
    let server = Server::new(&Script::good());
    let provider = Provider::new([]);
    std::fs::write(server.path().join("turns.yaml"), "- text: Done.\n").unwrap();
    let with = |entry: serde_json::Value| {
        let model = json!({"model_name": "turns.yaml", "interface": "scripted", "mcp_urls_dict": {"mine": entry}});
        with_models(server.path(), &model)
    };
    for entry in [
        json!({"type": "http", "url": "http://192.0.2.1/mcp", "headers": {"A": "${SECRET}"}}),
        json!({"type": "sse", "url": "http://192.0.2.1/mcp", "headers": {"A": "Bearer ${SECRET}"}}),
        json!({"type": "http", "url": "http://192.0.2.1/mcp?key=${SECRET}"}),
    ] {
        let ran = run(&provider, &server, &["--models", &with(entry.clone()), "Hi"]);
        let message = "error: server `mine` would get your SECRET over an unencrypted connection";
        assert!(ran.code == 2 && ran.err.contains(message), "{entry}: {}", ran.err);
    }
    // A connection on this machine does not cross a network.
    let local = json!({"type": "http", "url": "http://127.0.0.1:9/mcp", "headers": {"A": "${SECRET}"}});
    let ran = run(&provider, &server, &["--models", &with(local), "Hi"]);
    assert!(!ran.err.contains("unencrypted"), "{}", ran.err);
}

#[test]
fn policy_rules_and_hooks_of_the_user_apply_to_every_server_of_a_run() {
    let touch =
        Script::good().any_tool("wipe").on_call("wipe", [Step::Touch("$/wiped".into()), Step::Text("wiped".into())]);
    let server = Server::new(&touch);
    let provider = Provider::new([]);
    let turns = "- tools: [{name: mcp__mine__wipe, arguments: {}}]\n- text: Done.\n";
    std::fs::write(server.path().join("turns.yaml"), turns).unwrap();
    let model =
        json!({"model_name": "turns.yaml", "interface": "scripted", "mcp_urls_dict": {"mine": server.command_line()}});
    let file = with_models(server.path(), &model);
    let mcp = server.mcp().replacen("s=", "mine=", 1);
    let scripted = format!("scripted:{}", server.path().join("turns.yaml").display());
    let with_file = ["--models", &file, "--trust", "--json", "Hi"];
    let with_mcp = ["-m", &scripted, "--only-mcp", "--mcp", &mcp, "--json", "Hi"];
    std::fs::create_dir_all(server.path().join("project")).unwrap();
    let root = server.path().join("root");
    std::fs::create_dir_all(&root).unwrap();
    let hook =
        json!({"PreToolUse": [{"hooks": [{"type": "command", "command": "sh -c 'echo not today >&2; exit 2'"}]}]});
    for arguments in [&with_file[..], &with_mcp] {
        for (settings, reason) in [
            (json!({"policy": {"deny": ["mcp__mine__wipe"]}}), "denied by the policy"),
            (json!({"hooks": hook}), "not today"),
        ] {
            std::fs::write(root.join("mcp.json"), settings.to_string()).unwrap();
            let ran = ran(command(&provider, &server, arguments));
            assert!(ran.out.contains(reason), "{settings} {arguments:?}: {} {}", ran.out, ran.err);
            assert!(!server.path().join("wiped").exists(), "{settings} {arguments:?}");
        }
        std::fs::write(root.join("mcp.json"), r#"{"deniedMcpServers": [{"serverName": "mine"}]}"#).unwrap();
        let ran = ran(command(&provider, &server, arguments));
        assert!(ran.code == 2 && ran.err.contains("server `mine` is not allowed"), "{arguments:?}: {}", ran.err);
    }
    std::fs::write(root.join("mcp.json"), "{}").unwrap();
    assert_eq!(ran(command(&provider, &server, &with_file)).code, 0);
    assert!(server.path().join("wiped").exists());
}
