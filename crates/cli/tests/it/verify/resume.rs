//! Interrupting, killing and resuming a run of the real binary.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use wharf_testkit::models::Turn;
use wharf_testkit::{Script, Step};

use super::{example, json_of, quickstart};
use crate::run::models::Provider;
use crate::shutdown::until;
use crate::{Person, RunOutput, Server, ran, run_output};

/// A benchmark whose second question calls a tool that waits for a file.
struct Waiting {
    person: Person,
    server: Server,
    provider: Provider,
}

impl Waiting {
    fn new() -> Self {
        let tool = json!({"name": "wait", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}});
        let steps = [Step::Touch("$/called".into()), Step::AwaitFile("$/go".into()), Step::Text("done".into())];
        let server = Server::new(&Script::default().tool(tool).on_call("wait", steps));
        let provider = Provider::new([
            Turn::text("One."),
            Turn::default().calling("c1", "mcp__s__wait", "{}"),
            Turn::text("Two."),
            Turn::text("Three."),
        ]);
        let question = |id: &str, regex: &str| {
            json!({"id": id, "question": format!("Question {id}?"), "template": {"fields": [{"name": "text", "type":
                "bool", "description": "d", "truth": true, "check": {"trace_regex": {"pattern": regex}}}]}})
        };
        let benchmark = json!({"name": "waiting", "servers": {"s": server.command_line()},
            "questions": [question("one", "One"), question("two", "Two"), question("three", "Two|Three")]});
        let person = Person::new();
        person.write("project/benchmark.json", &benchmark.to_string());
        Self { person, server, provider }
    }

    fn command(&self, more: &[&str]) -> Command {
        let arguments = ["verify", "run", "benchmark.json", "-m", "anthropic:x", "--trust", "--concurrency", "1"];
        let mut wharf = self.person.wharf(&[&arguments[..], more].concat());
        self.provider.env(&mut wharf);
        wharf.env("WHARF_VERIFY_LEASE", "1");
        wharf
    }

    /// Starts a run and waits until the second question's tool call is in flight.
    fn started(&self) -> Child {
        let child = self.command(&[]).spawn().unwrap();
        until("the tool is called", || self.server.path().join("called").exists());
        child
    }

    fn go(&self) {
        std::fs::write(self.server.path().join("go"), "").unwrap();
    }
}

fn signal(child: &Child, kind: Signal) {
    kill_process(Pid::from_child(child), kind).unwrap();
}

fn output(child: Child) -> RunOutput {
    run_output(&child.wait_with_output().unwrap())
}

#[test]
fn a_killed_run_resumes_without_paying_again() {
    let waiting = Waiting::new();
    let mut child = waiting.started();
    assert_eq!(waiting.provider.models.requests().len(), 2);
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    waiting.go();
    let ran = ran(waiting.command(&["--resume", "--json"]));
    let report = json_of(&ran);
    assert_eq!((ran.code, &report["models"][0]["passed"]), (0, &json!(3)), "{report} {}", ran.err);
    assert_eq!(waiting.provider.models.requests().len(), 4, "each answer and each call was paid for once");
}

#[test]
fn the_first_interruption_finishes_what_is_paid_for_and_says_how_to_resume() {
    let waiting = Waiting::new();
    let child = waiting.started();
    signal(&child, Signal::INT);
    waiting.go();
    let stopped = output(child);
    assert_eq!(stopped.code, 130, "{}", stopped.err);
    assert!(stopped.err.contains("interrupted; finishing the trials in flight"), "{}", stopped.err);
    let resume = stopped.err.lines().find_map(|line| line.strip_prefix("  wharf ")).unwrap();
    assert_eq!(waiting.provider.models.requests().len(), 3, "the second question is finished, the third is not begun");
    let run = resume.split_once("--resume ").unwrap().1;
    let resumed = ran(waiting.command(&["--resume", run, "--json"]));
    let report = json_of(&resumed);
    assert_eq!((resumed.code, &report["models"][0]["passed"]), (0, &json!(3)), "{report} {}", resumed.err);
    assert_eq!(waiting.provider.models.requests().len(), 4);
}

#[test]
fn the_second_interruption_stops_at_once() {
    let waiting = Waiting::new();
    let mut child = waiting.started();
    signal(&child, Signal::INT);
    // The second one counts only after the first was handled.
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut printed = String::new();
    while !printed.contains("finishing the trials in flight") {
        assert_ne!(err.read_line(&mut printed).unwrap(), 0, "{printed}");
    }
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130), "{printed}");
    assert_eq!(waiting.provider.models.requests().len(), 2);
    waiting.go();
    let resumed = ran(waiting.command(&["--resume", "--json"]));
    assert_eq!((resumed.code, &json_of(&resumed)["models"][0]["passed"]), (0, &json!(3)), "{}", resumed.err);
}

#[test]
fn at_most_once_repeats_nothing_and_shows_what_is_indeterminate() {
    let waiting = Waiting::new();
    let mut child = waiting.started();
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    waiting.go();
    let ran = ran(waiting.command(&["--resume", "--at-most-once", "--json"]));
    let report = json_of(&ran);
    assert_eq!(ran.code, 1, "{}", ran.err);
    let model = &report["models"][0];
    assert_eq!((&model["passed"], &model["indeterminate"]), (&json!(2), &json!(1)), "{report}");
}

#[test]
fn a_resume_without_a_run_is_a_usage_error() {
    let waiting = Waiting::new();
    let ran = ran(waiting.command(&["--resume"]));
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("no run of benchmark `waiting` in the store"), "{}", ran.err);
}

#[test]
fn resuming_continues_the_latest_run_that_asks_the_same() {
    let person = Person::new();
    let whole = quickstart(&person, &["--limit", "3", "--json"]);
    let whole = json_of(&whole)["run"].as_str().unwrap().to_owned();
    let part = quickstart(&person, &["--limit", "1", "--json", "--record", "part.jsonl"]);
    let part = json_of(&part)["run"].as_str().unwrap().to_owned();
    assert_eq!(quickstart(&person, &["--limit", "3", "--replay", "part.jsonl"]).code, 1, "a replay is a run, too");
    let resumed = quickstart(&person, &["--limit", "3", "--resume"]);
    assert_eq!(resumed.code, 0, "{}", resumed.err);
    assert!(resumed.err.contains(&format!("resuming run {whole}: 6 of 6 units on record")), "{}", resumed.err);
    let other = quickstart(&person, &["--limit", "2", "--resume"]);
    assert_eq!(other.code, 2);
    assert!(other.err.contains("has these questions, models, judges and replicates"), "{}", other.err);
    assert!(other.err.contains(&format!("--resume {part}")), "replays are not offered: {}", other.err);
}

#[test]
fn a_named_run_may_grow_and_does_not_shrink() {
    let person = Person::new();
    let first = quickstart(&person, &["--limit", "2", "--json"]);
    let run = json_of(&first)["run"].as_str().unwrap().to_owned();
    let more = quickstart(&person, &["--limit", "3", "--resume", &run]);
    assert_eq!(more.code, 0, "{}", more.err);
    assert!(more.err.contains(&format!("resuming run {run}: 4 of 6 units on record")), "{}", more.err);
    for less in [&["--limit", "1"][..], &["--limit", "3", "-m", "hasty"]] {
        let ran = quickstart(&person, &[less, &["--resume", &run]].concat());
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains(&format!("run `{run}` has more than this command line")), "{}", ran.err);
    }
    person.write(
        "project/other.json",
        &json!({"name": "other", "questions": [
        {"id": "q", "question": "What?", "trace": [{"max_calls": 1}]}]})
        .to_string(),
    );
    let model = example("quickstart").join("hasty.yaml");
    let model = format!("scripted:{}", model.display());
    let ran = person.run(&["verify", "run", "other.json", "-m", &model, "--resume", &run]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains(&format!("run `{run}` is of benchmark `quickstart`")), "{}", ran.err);
}

#[test]
fn a_replay_that_failed_is_not_offered_to_be_resumed() {
    let person = Person::new();
    assert_eq!(quickstart(&person, &["--limit", "1", "--record", "run.jsonl"]).code, 0);
    let ran = quickstart(&person, &["--limit", "2", "--replay", "run.jsonl"]);
    assert_eq!(ran.code, 1);
    assert!(!ran.err.contains("resume"), "{}", ran.err);
}
