//! `wharf run` with model providers over HTTP: recording, replay, interruption and resumption.

use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use wharf_testkit::models::{FakeModels, ListeningModels, Tokens, Turn};
use wharf_testkit::{Script, Step};

use crate::shutdown::until;
use crate::{RunOutput, Server, on_terminal, ran, wharf};

/// A fake provider with scripted turns.
pub(crate) struct Provider {
    pub(crate) models: FakeModels,
    pub(crate) listening: ListeningModels,
    _runtime: Runtime,
}

impl Provider {
    pub(crate) fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::of(FakeModels::new(turns))
    }

    pub(crate) fn of(models: FakeModels) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listening = runtime.block_on(models.listen());
        Self { models, listening, _runtime: runtime }
    }

    /// Returns a provider that calls `add` and then answers.
    fn adding() -> Self {
        Self::new([
            Turn::default().saying("Let me add.").calling("c1", "mcp__s__add", r#"{"a":40,"b":2}"#),
            Turn::text("It is 42."),
        ])
    }

    pub(crate) fn env(&self, command: &mut Command) {
        command.env("ANTHROPIC_API_KEY", "k3y-of-anthropic").env("ANTHROPIC_BASE_URL", self.listening.anthropic_url());
        command.env("OPENAI_API_KEY", "k3y-of-openai").env("OPENAI_BASE_URL", self.listening.openai_url());
    }

    fn run(&self, server: &Server, arguments: &[&str]) -> RunOutput {
        let mut command = wharf(&[&["run"], arguments, &["--mcp", &server.mcp()]].concat());
        self.env(&mut command);
        ran(command)
    }
}

pub(super) fn parse_output(ran: &RunOutput) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{} {}", ran.out, ran.err))
}

#[test]
fn all_providers_produce_the_same_trace() {
    let server = Server::new(&Script::good());
    let mut traces = Vec::new();
    for model in ["anthropic:claude-sonnet-4-5", "openai:gpt-5"] {
        let provider = Provider::adding();
        let ran = provider.run(&server, &["-m", model, "--json", "How much?"]);
        let shown = parse_output(&ran);
        assert_eq!((ran.code, &shown["final_response"]), (0, &json!("It is 42.")), "{}", ran.err);
        assert_eq!(shown["trace_messages"][1]["content"], "42");
        assert_eq!((&shown["turns"], &shown["stop"]["why"]), (&json!(2), &json!("completed")));
        assert!(shown["usage"]["cost_usd"].as_f64().unwrap() > 0.0);
        assert!(!ran.out.contains("k3y") && !ran.err.contains("k3y"));
        traces.push(shown["raw_trace"].clone());
        let request = &provider.models.bodies()[0];
        assert!(request["tools"].as_array().unwrap().len() >= 2 && request["stream"] == true, "{request}");
    }
    assert_eq!(traces[0], traces[1]);
}

#[test]
fn context_counts_the_definitions_that_a_run_sends() {
    let odd = json!({"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"type": "object", "properties": {"b": {"type": "integer"}}}], "not": {"required": ["zzz"]}});
    let tool = |schema: &Value| json!({"name": "odd", "description": "word ".repeat(1_000), "inputSchema": schema});
    let server = |schema: &Value| Server::new(&Script::default().tool(tool(schema)));
    let provider = Provider::new([Turn::text("Hello.")]);
    let ran = provider.run(&server(&odd), &["-m", "anthropic:claude-sonnet-4-5", "Hi"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let sent = provider.models.bodies()[0]["tools"][0].clone();
    assert_ne!(sent["input_schema"], odd, "the schema is changed for models");
    let counted =
        |schema: &Value| parse_output(&server(schema).run(&["context", "--json"]))["servers"][0]["tools"][0].clone();
    // The same for a server that sends what the model receives.
    assert_eq!(counted(&odd), counted(&sent["input_schema"]));
    let uncut = sent["description"].as_str().unwrap().len();
    assert!(uncut < 3_000 && counted(&odd)["description"].as_u64().unwrap() < 600, "{uncut}");
}

#[test]
fn a_run_without_servers_sends_no_tools() {
    let provider = Provider::new([Turn::text("Hello.")]);
    let folder = tempfile::tempdir().unwrap();
    let mut command = wharf(&[
        "run",
        "-m",
        "anthropic:x",
        "--config-root",
        folder.path().to_str().unwrap(),
        "--system",
        "Be brief.",
        "Hi",
    ]);
    provider.env(&mut command);
    command.current_dir(folder.path());
    let ran = ran(command);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Hello.\n"), "{}", ran.err);
    let request = &provider.models.bodies()[0];
    assert!(request.get("tools").is_none() && request["system"].to_string().contains("Be brief."), "{request}");
}

#[test]
fn the_default_model_is_the_first_with_an_api_key() {
    let provider = Provider::new([Turn::text("Hello.")]);
    let server = Server::new(&Script::good());
    let with_key = provider.run(&server, &["Hi"]);
    assert_eq!((with_key.code, with_key.out.as_str()), (0, "Hello.\n"));
    assert!(with_key.err.contains("using anthropic:claude-sonnet-4-5; choose another with -m"), "{}", with_key.err);
    let mut command = wharf(&["run", "Hi"]);
    command.env("OLLAMA_HOST", "127.0.0.1:1");
    let no_key = ran(command);
    assert_eq!((no_key.code, no_key.out.as_str()), (2, ""));
    assert!(no_key.err.contains("ANTHROPIC_API_KEY") && no_key.err.contains("no model given"), "{}", no_key.err);
    let unset = ran(wharf(&["run", "-m", "openai:gpt-5", "Hi"]));
    assert!(unset.code == 2 && unset.err.contains("OPENAI_API_KEY is not set"), "{}", unset.err);
}

#[test]
fn a_recorded_run_replays_offline_with_the_same_trace() {
    let server = Server::new(&Script::good());
    let provider = Provider::adding();
    let file = server.path().join("tape.jsonl");
    let file = file.to_str().unwrap();
    let recorded = provider.run(&server, &["-m", "anthropic:x", "--json", "--record", file, "How much?"]);
    assert_eq!(recorded.code, 0, "{}", recorded.err);
    // The provider is gone.
    drop(provider);
    let played = ran(wharf(&["run", "--json", "--replay", file, "How much?"]));
    assert_eq!(played.code, 0, "{}", played.err);
    let before = parse_output(&recorded);
    let after = parse_output(&played);
    for key in ["raw_trace", "trace_messages", "final_response", "usage", "turns"] {
        assert_eq!(before[key], after[key], "{key}");
    }
    assert_eq!(after["servers"], json!([]), "no server is started");
    let other = ran(wharf(&["run", "--replay", file, "How many?"]));
    assert_eq!(other.code, 1);
    let difference = "message 1 at `content.0.text` was \"How much?\" and is \"How many?\"";
    assert_eq!(other.err.matches(difference).count(), 1, "{}", other.err);
    assert_eq!(other.err.matches("error:").count(), 1, "{}", other.err);
    assert_eq!(after["model"], "anthropic:x", "the recorded model");
    assert_eq!(ran(wharf(&["run", "--replay", file, "-m", "anthropic:x", "How much?"])).code, 0);
    let model = ran(wharf(&["run", "--replay", file, "-m", "openai:gpt-5", "How much?"]));
    assert_eq!(model.code, 2);
    assert!(model.err.contains("error: the recording is of anthropic:x, not of openai:gpt-5\n"), "{}", model.err);
    let tape = std::fs::read_to_string(file).unwrap();
    assert!(!tape.contains("k3y"));
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn stream_json_writes_one_event_per_line() {
    let progress = [Step::Progress(1.0, 2.0, "half".into()), Step::Text("42".into())];
    let server = Server::new(&Script::good().on_call("add", progress));
    let provider = Provider::adding();
    let ran = provider.run(&server, &["-m", "openai:gpt-5", "--output", "stream-json", "How much?"]);
    let lines: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "run_started",
            "turn_started",
            "model_delta",
            "model_message",
            "tool_started",
            "tool_progress",
            "tool_finished",
            "turn_started",
            "model_delta",
            "model_message",
            "finished",
            "result"
        ]
    );
    let text: String = lines.iter().filter_map(|line| line["text"].as_str()).collect();
    assert_eq!(text, "Let me add.It is 42.");
    assert_eq!(lines.last().unwrap()["final_response"], "It is 42.");
}

#[test]
fn a_killed_run_resumes_without_repeating_finished_calls() {
    let script = Script::good()
        .tool(json!({"name": "mark", "inputSchema": {"type": "object"}}))
        .tool(json!({"name": "hang", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}}))
        .on_call("mark", [Step::Touch("$/marked".into()), Step::Text("marked".into())])
        .on_call("hang", [Step::Touch("$/hangs".into()), Step::Wait(120_000)]);
    let server = Server::new(&script);
    let file = server.path().join("run.json");
    let turn = Turn::default().calling("c1", "mcp__s__mark", "{}").calling("c2", "mcp__s__hang", "{}");
    let provider = Provider::new([turn, Turn::text("Done.")]);
    let arguments = ["run", "-m", "anthropic:x", "--checkpoint", file.to_str().unwrap(), "--mcp", &server.mcp(), "Go"];
    let mut command = wharf(&arguments);
    provider.env(&mut command);
    let mut child = command.spawn().unwrap();
    until("the tool to be called", || server.path().join("hangs").exists());
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    std::fs::remove_file(server.path().join("marked")).unwrap();
    // The tool `hang` of this server returns immediately, and is still read-only.
    let read_only = json!({"name": "hang", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}});
    let quick =
        Server::new(&Script::good().tool(json!({"name": "mark", "inputSchema": {"type": "object"}})).tool(read_only));
    let ran = provider.run(&quick, &["-m", "anthropic:x", "--json", "--resume", file.to_str().unwrap()]);
    let shown = parse_output(&ran);
    assert_eq!((ran.code, &shown["final_response"]), (0, &json!("Done.")), "{}", ran.err);
    assert_eq!(shown["trace_messages"][1]["content"], "marked", "what it had answered");
    assert_eq!(shown["tool_traces"].as_array().unwrap().len(), 1, "only what had not ended is done again");
    assert!(!server.path().join("marked").exists());
}

#[test]
fn a_run_that_reached_a_limit_resumes_with_a_higher_one() {
    let server = Server::new(&Script::good());
    let provider = Provider::adding();
    let file = server.path().join("run.jsonl");
    let file = file.to_str().unwrap();
    let ended = provider.run(&server, &["-m", "anthropic:x", "--max-turns", "1", "--checkpoint", file, "How much?"]);
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("raise it with") && ended.err.contains(&format!("--resume {file}")), "{}", ended.err);
    let again = provider.run(&server, &["-m", "anthropic:x", "--resume", file]);
    assert!(again.code == 1 && again.err.contains(" reached"), "its limits are those it had: {}", again.err);
    let nowhere = provider.run(&server, &["-m", "anthropic:x", "--checkpoint", "/no/such/folder/run", "How much?"]);
    assert!(nowhere.code == 2 && nowhere.err.contains("cannot save the checkpoint"), "{}", nowhere.err);
    let more = provider.run(&server, &["-m", "anthropic:x", "--max-turns", "2", "--resume", file]);
    assert_eq!((more.code, more.out.as_str()), (0, "It is 42.\n"), "{}", more.err);
}

#[test]
fn ctrl_c_ends_the_run_with_a_partial_result() {
    let script = Script::good().any_tool("hang").on_call("hang", [Step::Touch("$/hangs".into()), Step::Wait(120_000)]);
    let server = Server::new(&script);
    let provider = Provider::new([Turn::default().calling("c1", "mcp__s__hang", "{}")]);
    let mut command = wharf(&["run", "-m", "anthropic:x", "--json", "--mcp", &server.mcp(), "Go"]);
    provider.env(&mut command);
    let child = command.spawn().unwrap();
    until("the tool to be called", || server.path().join("hangs").exists());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&shown["stop"]["why"], &shown["final_response"]), (&json!("cancelled"), &Value::Null));
    assert!(shown["trace_messages"][1]["content"].as_str().unwrap().starts_with("The call was canceled"));
}

#[test]
fn max_cost_limits_a_run() {
    let server = Server::new(&Script::good());
    let expensive = Tokens { input: 1_000_000, output: 100_000, ..Tokens::default() };
    let provider = Provider::new([
        Turn::default().calling("c1", "mcp__s__add", r#"{"a":1,"b":1}"#).costing(expensive),
        Turn::text("2"),
    ]);
    let ran = provider.run(&server, &["-m", "anthropic:claude-sonnet-4-5", "--max-cost", "$0.5", "Hi"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains("the limit of $0.5 reached"), "{}", ran.err);
    assert_eq!(provider.models.remaining_turns(), 1, "the model is not asked again");
}

#[test]
fn the_answer_is_streamed_once_on_a_terminal() {
    let server = Server::new(&Script::good());
    let provider = Provider::adding();
    let line = format!(
        "{} run -m anthropic:x --color never --mcp '{}' 'How much?'",
        env!("CARGO_BIN_EXE_wharf"),
        server.mcp()
    );
    let mut command = on_terminal(&line);
    provider.env(&mut command);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap().replace('\r', "");
    assert_eq!(text.matches("It is 42.").count(), 1, "{text}");
    let said = text.find("Let me add.").unwrap();
    let called = text.find("✓ mcp__s__add").unwrap();
    let answered = text.find("It is 42.").unwrap();
    let took = text.find("2 turns · 1 tool call").unwrap();
    assert!(said < called && called < answered && answered < took, "{text}");
}

#[test]
fn answers_that_begin_like_our_lines_are_quoted_on_a_terminal() {
    let server = Server::new(&Script::good());
    let provider = Provider::new([Turn::text("hint: a\nIt is 42.\nError: b")]);
    let file = server.path().join("traces.json");
    // The digest of `How much?`.
    std::fs::write(&file, r#"{"6362cf5662c3ed301f701732ecd8616c": "hint: a\nIt is 42.\nError: b"}"#).unwrap();
    for model in ["anthropic:x", &format!("manual:{}", file.display())] {
        let mut command =
            on_terminal(&format!("{} run -m {model} --color never 'How much?'", env!("CARGO_BIN_EXE_wharf")));
        provider.env(&mut command);
        let seen = String::from_utf8(command.output().unwrap().stdout).unwrap().replace('\r', "");
        assert!(seen.contains("│ hint: a\nIt is 42.\n│ Error: b\n"), "{model}: {seen}");
    }
}

#[test]
fn files_of_models_are_regular_and_of_limited_size() {
    // The limit of the memory ends a run that reads without end.
    let run = |arguments: &str| {
        let mut command = std::process::Command::new("sh");
        let line = format!("ulimit -v 4000000; exec {} run {arguments} Hi", env!("CARGO_BIN_EXE_wharf"));
        command.args(["-c", &line]).env_clear().env("PATH", "/usr/bin:/bin");
        ran(command)
    };
    for model in ["manual:/dev/zero", "scripted:/dev/zero"] {
        let ran = run(&format!("-m {model}"));
        assert_eq!((ran.code, ran.err.as_str()), (2, "error: cannot read /dev/zero: not a regular file\n"));
    }
    let endless = run("--models /dev/zero");
    assert_eq!((endless.code, endless.err.as_str()), (2, "error: /dev/zero is larger than 16 MiB\n"));
}

#[test]
fn usage_of_any_size_is_summarized() {
    let server = Server::new(&Script::good());
    let model = super::turns(&server, "- text: done\n");
    let tokens = u64::MAX;
    let checkpoint = json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "what?"}]}], "progress": {
        "version": 1, "session_id": "test", "given": 1,
        "limits": {"model_calls": 25, "tool_calls": 50, "exit_behavior": "end"}, "model_calls": 0, "tool_calls": 0,
        "per_tool": {}, "usage": {"input_tokens": tokens, "output_tokens": tokens}, "model": null, "stop_reason": null,
        "reached": [], "spent": {"secs": tokens, "nanos": 999_999_999}, "state": {"ask": {"last": false}}}});
    let file = server.path().join("run.jsonl");
    std::fs::write(&file, format!("{checkpoint}\n")).unwrap();
    let resumed = ran(wharf(&["run", "-m", &model, "--resume", file.to_str().unwrap()]));
    assert_eq!((resumed.code, resumed.out.as_str()), (0, "done\n"), "{}", resumed.err);
    assert!(resumed.err.contains(&format!("{tokens} tokens in, {tokens} out")), "{}", resumed.err);
}

#[test]
fn a_manual_model_answers_from_its_file_and_rejects_servers() {
    let server = Server::new(&Script::good());
    let file = server.path().join("traces.json");
    // The digest of `How much?`.
    std::fs::write(&file, r#"{"6362cf5662c3ed301f701732ecd8616c": "It is 42."}"#).unwrap();
    let model = format!("manual:{}", file.display());
    let answered = ran(wharf(&["run", "-m", &model, "How much?"]));
    assert_eq!((answered.code, answered.out.as_str()), (0, "It is 42.\n"), "{}", answered.err);
    let unknown = ran(wharf(&["run", "-m", &model, "How many?"]));
    assert!(unknown.code == 1 && unknown.err.contains("no trace for this prompt"), "{}", unknown.err);
    let note = "It is 41.\\n\\n[Note: Turn limit reached - partial response shown]";
    std::fs::write(&file, format!(r#"{{"6362cf5662c3ed301f701732ecd8616c": "{note}"}}"#)).unwrap();
    let limited = parse_output(&ran(wharf(&["run", "-m", &model, "--json", "How much?"])));
    assert_eq!((&limited["final_response"], &limited["limit_reached"]), (&json!("It is 41."), &json!(true)));
    let with_servers = server.run(&["run", "-m", &model, "How much?"]);
    assert!(with_servers.code == 2 && with_servers.err.contains("--mcp has no effect"), "{}", with_servers.err);
}

#[test]
fn a_manual_model_replays_the_json_of_a_run() {
    let server = Server::new(&Script::good());
    let recorded = Provider::adding().run(&server, &["-m", "anthropic:x", "--max-turns", "1", "--json", "How much?"]);
    let before = parse_output(&recorded);
    assert_eq!(before["limit_reached"], true, "{}", recorded.err);
    let file = server.path().join("traces.json");
    std::fs::write(&file, json!({"6362cf5662c3ed301f701732ecd8616c": before}).to_string()).unwrap();
    let model = format!("manual:{}", file.display());
    let replayed = ran(wharf(&["run", "-m", &model, "--json", "How much?"]));
    let after = parse_output(&replayed);
    assert_eq!((recorded.code, replayed.code), (1, 1));
    for key in ["trace_messages", "raw_trace", "metrics", "limits", "stop", "turns", "usage", "final_response"] {
        assert_eq!(before[key], after[key], "{key}");
    }
}

#[test]
fn a_model_without_prompt_caching_is_warned_about_once_if_caching_is_lost_or_was_asked_for() {
    let server = Server::new(&Script::good());
    let provider = Provider::adding();
    let ran = provider.run(&server, &["-m", "openai:gpt-5", "How much?"]);
    assert!(ran.code == 0 && !ran.err.contains("caching"), "{}", ran.err);
    let ran = Provider::adding().run(&server, &["-m", "anthropic:x", "How much?"]);
    assert!(!ran.err.contains("caching"), "{}", ran.err);
    let explicit = json!([{"id": "m", "model_name": "gpt-5", "interface": "openai",
        "agent_middleware": {"prompt_caching": {}}}]);
    std::fs::write(server.path().join("models.json"), explicit.to_string()).unwrap();
    let models = server.path().join("models.json").display().to_string();
    let ran = Provider::adding().run(&server, &["--models", &models, "How much?"]);
    assert_eq!(ran.err.matches("warning: openai:gpt-5 does not support prompt caching").count(), 1, "{}", ran.err);
}

#[test]
fn thoughts_are_shown_with_verbose_and_nothing_is_cut_with_more() {
    let script = Script::good().any_tool("long").on_call("long", [Step::Text(format!("{}END", "x".repeat(6_000)))]);
    let server = Server::new(&script);
    let turns = || {
        let thinking = Turn::default().thinking("Let me see.\nerror: hm").saying("I look.");
        [thinking.calling("c1", "mcp__s__long", "{}"), Turn::text("Done.")]
    };
    let run = |option: &str| {
        let arguments = ["-m", "anthropic:x", "Go", option];
        Provider::new(turns()).run(&server, if option.is_empty() { &arguments[..3] } else { &arguments })
    };
    let quiet = run("");
    assert!(!quiet.err.contains("Let me see.") && !quiet.err.contains("END"), "{}", quiet.err);
    let verbose = run("-v");
    assert!(verbose.err.contains("thinking │ Let me see.\nthinking │ error: hm\n"), "{}", verbose.err);
    assert!(verbose.err.contains("xxxx") && !verbose.err.contains("END"), "{}", verbose.err);
    let more = run("-vv");
    assert_eq!((more.code, more.out.as_str()), (0, "Done.\n"));
    assert!(more.err.contains("Let me see.") && more.err.contains("xEND"), "{}", more.err);
}

#[test]
fn thoughts_are_dim_on_stderr_of_a_terminal() {
    let server = Server::new(&Script::good());
    let provider = Provider::new([Turn::default().thinking("Hm, let me see.").saying("Hello.")]);
    let line = format!("{} run -v -m anthropic:x --mcp '{}' Hi 2>/dev/tty", env!("CARGO_BIN_EXE_wharf"), server.mcp());
    let mut command = on_terminal(&line);
    provider.env(&mut command);
    let seen = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let dim = "\u{1b}[2m";
    assert!(seen.contains(&format!("{dim}Hm")) && !seen.contains(&format!("{dim}Hello")), "{seen:?}");
}
