//! Interrupting, killing and resuming a run of the real binary.

use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use wharf_testkit::models::Turn;
use wharf_testkit::{Script, Step};

use super::json_of;
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
    let child = waiting.started();
    signal(&child, Signal::INT);
    // The second one counts only after the first was handled.
    std::thread::sleep(std::time::Duration::from_millis(300));
    signal(&child, Signal::INT);
    let stopped = output(child);
    assert_eq!(stopped.code, 130, "{}", stopped.err);
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
