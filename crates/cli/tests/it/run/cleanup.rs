//! What a run leaves behind when it fails: sessions, stored outputs, and the error that is reported.

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::json;
use wharf_testkit::models::Turn;
use wharf_testkit::{Script, Step};

use super::models::Provider;
use crate::remote::{refuse, remote};
use crate::shutdown::until;
use crate::{Person, RunOutput, Server, ran, wharf};

/// Runs a model that fails after its first tool call, with a remote server.
fn failing_run(script: Script) -> (RunOutput, usize) {
    let server = remote(script);
    let wrong = r#"{"type":"error","error":{"type":"authentication_error","message":"the key was revoked meanwhile"}}"#;
    let provider = Provider::new([
        Turn::default().calling("c1", "mcp__s__add", r#"{"a":40,"b":2}"#),
        Turn::status(401, &[], wrong),
    ]);
    let mcp = format!("s={}", server.url());
    let mut command = wharf(&["run", "-m", "anthropic:x", "--protocol", "legacy", "--mcp", &mcp, "How much?"]);
    provider.env(&mut command);
    let output = ran(command);
    assert_eq!(provider.models.bodies().len(), 2, "it failed in the middle of the loop");
    (output, server.requests().iter().filter(|seen| seen.method == "DELETE").count())
}

#[test]
fn sessions_are_closed_after_the_model_failed_in_mid_loop() {
    let (output, deletes) = failing_run(Script::good());
    assert_eq!((output.code, deletes), (2, 1), "{}", output.err);
    assert!(output.err.contains("not authorized: the key was revoked meanwhile"), "{}", output.err);
}

#[test]
fn a_failed_cleanup_does_not_hide_the_reason_of_the_failure() {
    let (output, deletes) = failing_run(Script::good().on("DELETE", [refuse(500, &[], "the session is stuck")]));
    assert_eq!((output.code, deletes), (2, 1), "{}", output.err);
    assert!(output.err.contains("not authorized: the key was revoked meanwhile"), "{}", output.err);
    assert!(!output.err.contains("stuck"), "{}", output.err);
}

#[test]
fn stored_outputs_of_a_killed_run_are_removed_by_the_next_one() {
    let person = Person::new();
    let script = Script::good()
        .any_tool("long")
        .any_tool("hang")
        .on_call("long", [Step::Text("0123456789".repeat(20_000))])
        .on_call("hang", [Step::Touch("$/hangs".into()), Step::Wait(120_000)]);
    let server = Server::new(&script);
    person.write("project/turns.yaml", "- tools: [{name: mcp__s__long}, {name: mcp__s__hang}]\n- text: done\n");
    person.write("project/short.yaml", "- text: done\n");
    let mcp = server.mcp();
    let mut child = person.wharf(&["run", "-m", "scripted:turns.yaml", "--mcp", &mcp, "go"]).spawn().unwrap();
    until("the tool to be called", || server.path().join("hangs").exists());
    let outputs = person.path("home/.cache/wharf/outputs");
    let folders = || std::fs::read_dir(&outputs).unwrap().count();
    assert_eq!(folders(), 1);
    // A run at the same time leaves the outputs of the other alone.
    assert_eq!(person.run(&["run", "-m", "scripted:short.yaml", "--mcp", &mcp, "go"]).code, 0);
    assert_eq!(folders(), 1);
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    assert_eq!(folders(), 1, "nothing could remove it");
    assert_eq!(person.run(&["run", "-m", "scripted:short.yaml", "--mcp", &mcp, "go"]).code, 0);
    assert_eq!(folders(), 0);
}

#[test]
fn a_run_whose_checkpoint_cannot_be_written_stops_before_the_next_model_request() {
    for (optional, too_large) in [(false, false), (true, false), (false, true), (true, true)] {
        let script = Script::good()
            .any_tool("slow")
            .on_call("slow", [Step::Touch("$/called".into()), Step::Wait(1500), Step::Text("done".into())]);
        let server = Server::new(&script);
        let folder = server.path().join("saved");
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("run.jsonl");
        let provider = Provider::new([Turn::default().calling("c1", "mcp__s__slow", "{}"), Turn::text("Done.")]);
        let mcp = server.mcp();
        let mut arguments = vec!["run", "-m", "anthropic:x", "--json", "--mcp", &mcp, "--checkpoint"];
        arguments.extend([file.to_str().unwrap(), "Go"]);
        arguments.extend(optional.then_some("--checkpoint-optional"));
        let mut command = wharf(&arguments);
        provider.env(&mut command);
        let child = command.spawn().unwrap();
        until("the tool to be called", || server.path().join("called").exists());
        if too_large {
            // As `ulimit -f` does: the next write raises SIGXFSZ.
            let pid = Pid::from_raw(child.id().cast_signed());
            let limit = Rlimit { current: Some(1), maximum: None };
            prlimit(pid, Resource::Fsize, limit).unwrap();
        } else {
            std::fs::remove_dir_all(&folder).unwrap();
        }
        let output = crate::run_output(&child.wait_with_output().unwrap());
        let shown: serde_json::Value = serde_json::from_str(&output.out).unwrap();
        let requests = provider.models.bodies().len();
        if optional {
            assert_eq!((output.code, requests), (0, 2), "{}", output.err);
            assert_eq!(shown["final_response"], "Done.");
        } else {
            assert_eq!((output.code, requests), (1, 1), "{}", output.err);
            assert_eq!((&shown["stop"]["why"], &shown["final_response"]), (&json!("checkpoint_failed"), &json!(null)));
        }
    }
}

#[test]
fn a_pending_call_of_a_resumed_run_needs_approval_again() {
    let tool = json!({"name": "delete", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": true}});
    let script =
        Script::good().tool(tool).on_call("delete", [Step::Touch("$/deleted".into()), Step::Text("gone".into())]);
    let server = Server::new(&script);
    let file = server.path().join("run.jsonl");
    // A checkpoint whose next step is a call that was neither made nor approved yet.
    let run = json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "go"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "mcp__s__delete", "input": {}}]}],
        "progress": {"version": 1, "session_id": "x", "given": 1, "limits": {}, "model_calls": 1, "tool_calls": 1,
            "per_tool": {}, "usage": {}, "model": null, "stop_reason": null, "reached": [],
            "spent": {"secs": 0, "nanos": 0}, "state": {"call": {"open": [{"call": {"id": "c1",
                "name": "mcp__s__delete", "arguments": {}}, "reads": true, "repeatable": true, "stage": "waiting"}]}}}});
    let resume = |more: &[&str]| {
        std::fs::write(&file, run.to_string()).unwrap();
        let provider = Provider::new([Turn::text("Done.")]);
        let mcp = server.mcp();
        let resumed = ["run", "-m", "anthropic:x", "--json", "--mcp", &mcp, "--resume", file.to_str().unwrap()];
        let mut command = wharf(&[&resumed, more].concat());
        provider.env(&mut command);
        let output = ran(command);
        let shown: serde_json::Value = serde_json::from_str(&output.out).unwrap_or_else(|_| panic!("{}", output.err));
        shown["trace_messages"][1]["content"].as_str().unwrap().to_owned()
    };
    let denied = resume(&[]);
    assert!(denied.contains("was not called: it needs approval"), "{denied}");
    assert!(!server.path().join("deleted").exists());
    assert_eq!(resume(&["--allow", "mcp__s__delete"]), "gone");
    assert!(server.path().join("deleted").exists());
}
