//! Scenarios with the real binary: the example, and a conversation that is killed.

use serde_json::{Value, json};
use wharf_testkit::models::Turn;
use wharf_testkit::{Script, Step};

use super::{example, json_of};
use crate::run::models::Provider;
use crate::shutdown::until;
use crate::{Person, RunOutput, Server, ran};

fn scenario(person: &Person, command: &str, more: &[&str]) -> RunOutput {
    let folder = example("scenario");
    let (benchmark, models) = (folder.join("benchmark.yaml"), folder.join("models.yaml"));
    let arguments =
        ["verify", command, benchmark.to_str().unwrap(), "--models", models.to_str().unwrap(), "--judge", "judge"];
    person.run(&[&arguments[..], more].concat())
}

/// Reads a file of results, one per line.
fn results(person: &Person, file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(person.path("project").join(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_example_shows_who_stands_firm() {
    let person = Person::new();
    let ran = scenario(&person, "run", &["--trust", "--output", "results.jsonl", "--record", "run.jsonl"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[1].starts_with("firm      100.0 %") && lines[2].starts_with("yielding  50.0 %"), "{}", ran.out);
    let reason = "criterion `right in the end`: turn `doubt` failed: field `product`: found 401, expected 391";
    assert!(ran.out.contains(reason), "{}", ran.out);
    let found = results(&person, "results.jsonl");
    let path = |result: &Value| {
        let turns = result["scenario"]["turns"].as_array().unwrap();
        turns.iter().map(|turn| turn["turn"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
    };
    let paths: Vec<String> = found.iter().map(path).collect();
    assert_eq!(paths, ["ask doubt", "ask doubt", "write read", "write write read"]);
    let yielding = &found[1]["scenario"];
    assert_eq!((&yielding["steering_judge"], &yielding["state"]["product"]), (&json!("judge"), &json!(391)));
    assert_eq!(yielding["turns"][1]["prompt"], "Are you sure that it is 391? A colleague has another result.");
    assert_eq!(found[3]["scenario"]["outcome"][1]["passed"], true);
    // A replay takes the same path, without servers, and gives the same bytes.
    let replayed = scenario(&person, "run", &["--replay", "run.jsonl", "--output", "again.jsonl"]);
    assert_eq!(replayed.code, 0, "{}", replayed.err);
    assert_eq!(results(&person, "again.jsonl"), found);
}

#[test]
fn the_estimate_has_the_shortest_and_the_longest_conversation() {
    let person = Person::new();
    let ran = scenario(&person, "check", &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("requests    about 24 to 36 to models, 4 to judges"), "{}", ran.out);
    assert!(ran.out.contains("tokens      up to about"), "{}", ran.out);
    let estimate = &json_of(&scenario(&person, "check", &["--json"]))["estimate"];
    assert_eq!((&estimate["min_model_requests"], &estimate["model_requests"]), (&json!(24), &json!(36)));
}

#[test]
fn a_log_of_a_scenario_is_not_judged() {
    let person = Person::new();
    person.write("project/log.jsonl", r#"{"question_id": "stands-firm", "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "It is 391."}]}"#);
    let folder = example("scenario");
    let judge = format!("scripted:{}", folder.join("judge.yaml").display());
    let benchmark = folder.join("benchmark.yaml");
    let ran =
        person.run(&["verify", "trace", "log.jsonl", "--benchmark", benchmark.to_str().unwrap(), "--judge", &judge]);
    assert_eq!(ran.code, 2, "{}", ran.out);
    let expected = "question `stands-firm` is a scenario: only questions of one turn can be judged from a log";
    assert!(ran.err.contains(expected), "{}", ran.err);
}

#[test]
fn a_conversation_that_is_killed_in_its_second_turn_resumes_there() {
    killed_in_the_second_turn("shared", |run| {
        let ran = run(&["--resume", "--json", "--output", "results.jsonl"]);
        assert_eq!(ran.code, 0, "{} {}", ran.out, ran.err);
        assert_eq!(json_of(&ran)["models"][0]["passed"], json!(1), "{}", ran.out);
        4
    });
}

#[test]
fn a_killed_conversation_whose_servers_are_gone_is_indeterminate_until_it_runs_again() {
    killed_in_the_second_turn("fresh", |run| {
        let ran = run(&["--resume", "--json", "--output", "results.jsonl"]);
        assert_eq!(ran.code, 1, "{} {}", ran.out, ran.err);
        assert_eq!(json_of(&ran)["models"][0]["indeterminate"], json!(1), "{}", ran.out);
        // From the first turn, with new requests: the provider's last answer calls no tool.
        let again = run(&["--rerun", "indeterminate", "--json"]);
        assert_eq!(json_of(&again)["models"][0]["failed"], json!(1), "{} {}", again.out, again.err);
        4
    });
}

/// Kills a run in the second turn of a conversation, after a call that writes in the first one. `resume` runs commands of
/// the same run, and returns how many requests the provider has seen then.
fn killed_in_the_second_turn(isolation: &str, resume: impl FnOnce(&dyn Fn(&[&str]) -> RunOutput) -> usize) {
    let tool = |name: &str, is_read_only: bool| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": is_read_only}});
    let script = Script::default()
        .tool(tool("note", false))
        .tool(tool("wait", true))
        .on_call("note", [Step::Touch("$/noted".into()), Step::Text("noted".into())])
        .on_call("wait", [Step::Touch("$/called".into()), Step::AwaitFile("$/go".into()), Step::Text("done".into())]);
    let server = Server::new(&script);
    let provider = Provider::new([
        Turn::default().calling("c1", "mcp__s__note", "{}"),
        Turn::text("Noted, code 17."),
        Turn::default().calling("c2", "mcp__s__wait", "{}"),
        Turn::text("Code 17 again."),
    ]);
    let scenario = json!({
        "state": {"code": "none"},
        "turns": [
            {"name": "first", "prompt": "Note it.", "trace": [{"called": "note"}], "set": {"code": {"match": "code ([0-9]+)"}},
                "branches": [{"when": {"passed": true}, "to": "second"}]},
            {"name": "second", "prompt": "Wait for {{code}}.", "trace": [{"called": "wait"}],
                "template": {"fields": [{"name": "code", "check": {"trace_contains": {"substring": "17"}}}]}},
        ],
        "outcome": [{"name": "both", "when": {"path": ["first", "second"]}}, {"name": "all", "when": {"passed": true, "visit": "all"}}],
    });
    let benchmark = json!({"name": "talk", "defaults": {"isolation": isolation}, "servers": {"s": server.command_line()},
        "questions": [{"id": "q", "scenario": scenario}]});
    let person = Person::new();
    person.write("project/benchmark.json", &benchmark.to_string());
    let command = |more: &[&str]| {
        let arguments = ["verify", "run", "benchmark.json", "-m", "anthropic:x", "--trust", "--concurrency", "1"];
        let mut wharf = person.wharf(&[&arguments[..], more].concat());
        provider.env(&mut wharf);
        wharf.env("WHARF_VERIFY_LEASE", "1");
        wharf
    };
    let mut child = command(&[]).spawn().unwrap();
    until("the second turn calls its tool", || server.path().join("called").exists());
    assert_eq!(provider.models.requests().len(), 3);
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::KILL).unwrap();
    child.wait().unwrap();
    std::fs::remove_file(server.path().join("noted")).unwrap();
    std::fs::write(server.path().join("go"), "").unwrap();
    let requests = resume(&|more: &[&str]| ran(command(more)));
    assert_eq!(provider.models.requests().len(), requests, "each answer was paid for once");
    assert!(!server.path().join("noted").exists(), "the first turn does not write again");
    let found = results(&person, "results.jsonl");
    assert_eq!(found[0]["scenario"]["turns"][1]["prompt"], "Wait for 17.");
}

#[test]
fn the_report_of_a_scenario_is_written() {
    let person = Person::new();
    let outputs =
        ["--trust", "--output", "run.csv", "--output", "run.md", "--output", "run.xml", "--output", "run.html"];
    let ran = scenario(&person, "run", &outputs);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let csv = std::fs::read_to_string(person.path("project/run.csv")).unwrap();
    let header = csv.lines().next().unwrap();
    assert!(header.ends_with("scenario_path,scenario_end,scenario_turns,scenario_state,scenario_outcome"), "{header}");
    assert!(csv.contains(",ask;doubt,completed,") && csv.contains(",write;write;read,completed,"), "{csv}");
    for file in ["run.md", "run.xml"] {
        let text = std::fs::read_to_string(person.path("project").join(file)).unwrap();
        assert!(text.contains("stands-firm"), "{text}");
    }
    assert!(person.path("project/run.html").exists());
}
