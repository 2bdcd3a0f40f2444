//! Servers that connect after a run has started, and servers that are down.

use serde_json::{Value, json};
use wharf_testkit::{Script, Step};

use crate::{Person, RunOutput, Server, USER};

/// A user whose server `slow` connects when the tool `release` of the server `fast` is called.
struct Run {
    person: Person,
    _slow: Server,
    _fast: Server,
}

impl Run {
    fn new(turns: &str) -> Self {
        let slow = Script::good().on("initialize", [Step::AwaitFile("$/go".into()), Step::Normally]);
        let slow = Server::new(&slow.on("tools/list", [Step::Normally, Step::Touch("$/listed".into())]));
        let go = slow.path().join("go").display().to_string();
        let listed = slow.path().join("listed").display().to_string();
        let fast = Script::good().any_tool("release").any_tool("pause");
        let fast = fast.on_call("release", [Step::Touch(go), Step::Text("released".into())]);
        let fast = Server::new(&fast.on_call(
            "pause",
            // The list has arrived, and is about to be offered.
            [Step::AwaitFile(listed), Step::Wait(500), Step::Text("paused".into())],
        ));
        let entry = |server: &Server| {
            let line = server.command_line();
            let words: Vec<&str> = line.split(' ').collect();
            json!({"command": words[0], "args": &words[1..], "protocol": "legacy"})
        };
        let person = Person::new().with(USER, "slow", &entry(&slow)).with(USER, "fast", &entry(&fast));
        person.write("project/turns.yaml", turns);
        Self { person, _slow: slow, _fast: fast }
    }

    fn run(&self, more: &[&str]) -> RunOutput {
        self.person.run(&[&["run", "-m", "scripted:turns.yaml", "go"], more].concat())
    }
}

const JOINING: &str = "
- tools: [{name: mcp__fast__release}]
- tools: [{name: mcp__fast__pause}]
- tools: [{name: mcp__slow__add, arguments: {a: 2, b: 3}}]
- text: done
";

#[test]
fn a_late_server_joins_at_the_next_turn_and_user_and_model_read_it() {
    let run = Run::new(JOINING);
    let ran = run.run(&["--wait", "1.5"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("waiting up to 1.5 s for slow\n"), "{}", ran.err);
    let late = "warning: slow is not connected; continuing without its tools: connecting; it joins at the turn after it \
                connects\nhint: wait longer for slow servers: --wait SECONDS\n";
    assert!(ran.err.contains(late), "{}", ran.err);
    assert!(ran.err.contains("slow is connected; the model has its tools now\n"), "{}", ran.err);
    assert!(ran.err.contains("✓ mcp__slow__add"), "{}", ran.err);
}

#[test]
fn what_the_model_reads_about_a_late_server_is_in_the_trace() {
    let run = Run::new(JOINING);
    let ran = run.run(&["--wait", "0.2", "--json"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let about_slow = |at: usize| {
        let servers = report["instructions"][at]["servers"].as_array().unwrap();
        servers.iter().find(|about| about["server"] == "slow").unwrap().clone()
    };
    let text = "is not connected. Its tools are offered as soon as it is.";
    assert_eq!(about_slow(0), json!({"server": "slow", "notice": "late", "text": text}));
    let text = "has connected since this run started. Its tools are offered now.";
    assert_eq!(about_slow(1), json!({"server": "slow", "notice": "joined", "text": text}));
}

#[test]
fn a_tool_of_a_server_that_is_down_is_reported_as_such() {
    let run =
        Run::new("- tools: [{name: mcp__slow__add}, {name: mcp__fast__ad}, {name: mcp__gone__add}]\n- text: done\n");
    let person = &run.person;
    let entry = json!({"command": "sh", "args": ["-c", "echo broken >&2; exit 3"]});
    let ran = person.run(&["run", "-m", "scripted:turns.yaml", "go", "--wait", "1"]);
    assert!(
        ran.err.contains("`mcp__slow__add` was not called: server `slow` is not connected yet; connecting"),
        "{}",
        ran.err
    );
    // A tool of another server is not suggested.
    assert!(ran.err.contains("Unknown tool `mcp__fast__ad`. Did you mean `mcp__fast__add`?"), "{}", ran.err);
    assert!(ran.err.contains("Unknown tool `mcp__gone__add`. Use only the offered tools"), "{}", ran.err);
    let text = person.read(USER);
    let mut file: Value = serde_json::from_str(&text).unwrap();
    file["mcpServers"]["gone"] = entry;
    person.write(USER, &file.to_string());
    let ran = person.run(&["run", "-m", "scripted:turns.yaml", "go", "--wait", "1", "--json"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let trace = report["tool_traces"].as_array().unwrap().iter().find(|trace| trace["name"] == "mcp__gone__add");
    let step = &trace.unwrap()["steps"][0];
    assert_eq!((&step["step"], &step["server"]), (&json!("server_down"), &json!("gone")), "{step}");
    assert!(step["reason"].as_str().unwrap().contains("exited with status 3"), "{step}");
    assert!(!ran.out.contains("broken"), "the model does not read what the server wrote");
}

#[test]
fn a_run_quotes_why_a_server_died_once() {
    let dead = json!({"command": "sh", "args": ["-c", "echo 'error: no port' >&2; exit 3"]});
    let person = Person::new().with(USER, "dead", &dead);
    person.write("project/turns.yaml", "- text: done\n");
    let warning = "dead is not connected; continuing without its tools: the server exited with status 3 before it was \
        ready; stderr: error: no port";
    let first = person.run(&["run", "-m", "scripted:turns.yaml", "go", "--wait", "5", "--checkpoint", "saved"]);
    assert_eq!(first.err.matches(warning).count(), 1, "{}", first.err);
    // A turn that is not the first of its run may be the first of this process.
    person.write("project/more.yaml", "- tools: [{name: mcp__dead__x}]\n- text: done\n");
    let arguments = ["run", "-m", "scripted:more.yaml", "go", "--max-turns", "1", "--checkpoint", "more"];
    person.run(&[&arguments[..], &["--wait", "5"]].concat());
    let resumed =
        person.run(&["run", "-m", "scripted:more.yaml", "--resume", "more", "--max-turns", "9", "--wait", "5"]);
    assert_eq!(resumed.err.matches("dead is not connected").count(), 1, "{}", resumed.err);
}

#[test]
fn the_failure_of_a_required_server_is_not_delayed_by_a_slow_one() {
    let silent = Server::new(&Script::good().on("initialize", [Step::Wait(120_000)]));
    let line = silent.command_line();
    let words: Vec<&str> = line.split(' ').collect();
    let slow = json!({"command": words[0], "args": &words[1..], "protocol": "legacy"});
    let person = Person::new().with(USER, "slow", &slow);
    let person = person.with(USER, "gone", &json!({"command": "no-such-server", "required": true}));
    person.write("project/turns.yaml", "- text: done");
    // The slow server would be awaited for longer than a test may take.
    let ran = person.run(&["run", "-m", "scripted:turns.yaml", "go", "--wait", "300"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.err.contains("no-such-server"), "{}", ran.err);
}
