//! Tools that change under the fleet.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use wharf_client::{BoxFuture, ClientCapabilities};
use wharf_fleet::catalog::{ExecutionError, ToolFreshness};
use wharf_fleet::dispatch::{ApprovalAnswer, Question, UserAnswer, UserPrompt};
use wharf_fleet::{Dispatcher, Entry, Fleet, ServerState, Turn};
use wharf_protocol::{Json, Outcome, ToolCall, Tools as _};
use wharf_testkit::{HttpScripted, Script, Scripted, Step, eventually, soon};

use super::{LONG, call, entry, in_memory, name, offered, open, over_http, reaches};

const CHANGED: &str = "notifications/tools/list_changed";

fn listing(tools: &[&str]) -> Step {
    let tools: Vec<Value> = tools.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
    Step::Result(json!({ "tools": tools }))
}

/// A server whose second list differs, and which reports that when `change` is called.
fn changing(second: Step) -> Script {
    Script::good()
        .any_tool("change")
        .once("tools/list", [Step::Normally])
        .on("tools/list", [second])
        .on_call("change", [Step::Notify(CHANGED.into(), json!({})), Step::Text("done".into())])
}

/// Returns the freshness of a tool as a call determines it.
async fn freshness(entry: &Entry) -> ToolFreshness {
    match entry.executor.cached_freshness(&entry.tool) {
        Some(freshness) => freshness,
        None => entry.executor.freshness(&entry.tool).await,
    }
}

async fn until_offered(fleet: &Fleet, expected: &[&str]) {
    let mut changes = fleet.changes();
    while offered(fleet) != expected {
        changes.changed().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn changed_tools_are_listed_without_a_restart_and_a_removed_one_is_gone() {
    let server = Scripted::new(changing(listing(&["new"])));
    let fleet = open([in_memory("s", &server)]);
    fleet.settled(LONG).await;
    let old = entry(&fleet, "mcp__s__add");
    assert!(matches!(old.executor.cached_freshness(&old.tool), Some(ToolFreshness::Same)));
    call(&entry(&fleet, "mcp__s__change"), json!({})).await.unwrap();
    eventually(until_offered(&fleet, &["mcp__s__new"])).await;
    assert!(matches!(old.executor.freshness(&old.tool).await, ToolFreshness::Gone));
    assert_eq!(server.log().count("tools/list"), 2);
    assert_eq!(server.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_right_after_a_change_waits_for_the_new_list() {
    let server = Scripted::new(changing(listing(&["change"])));
    let fleet = open([in_memory("s", &server)]);
    fleet.settled(LONG).await;
    let change = entry(&fleet, "mcp__s__change");
    let add = entry(&fleet, "mcp__s__add");
    call(&change, json!({})).await.unwrap();
    // The notification arrived with the response: a call must not use the old list now.
    assert!(add.executor.cached_freshness(&add.tool).is_none());
    assert!(matches!(eventually(add.executor.freshness(&add.tool)).await, ToolFreshness::Gone));
    assert!(matches!(change.executor.freshness(&change.tool).await, ToolFreshness::Same));
}

#[tokio::test(start_paused = true)]
async fn a_call_right_after_the_second_of_two_changes_waits_for_the_new_list_too() {
    let script = Script::good()
        .any_tool("change")
        .times(2, "tools/list", [Step::Normally])
        .on("tools/list", [listing(&["change"])])
        .on_call("change", [Step::Notify(CHANGED.into(), json!({})), Step::Text("done".into())]);
    let server = Scripted::new(script);
    let fleet = open([in_memory("s", &server)]);
    fleet.settled(LONG).await;
    let change = entry(&fleet, "mcp__s__change");
    let add = entry(&fleet, "mcp__s__add");
    call(&change, json!({})).await.unwrap();
    assert!(matches!(eventually(add.executor.freshness(&add.tool)).await, ToolFreshness::Same));
    // Notifications in quick succession are delivered late.
    call(&change, json!({})).await.unwrap();
    assert!(matches!(eventually(freshness(&add)).await, ToolFreshness::Gone));
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_not_called_while_its_changed_list_is_missing() {
    let slow = || Step::Wait(10 * 60 * 1_000);
    for missing in [slow(), Step::Error(-32603, "the database is down".into())] {
        let script = Script::good()
            .any_tool("change")
            .once("tools/list", [Step::Normally])
            .once("tools/list", [missing])
            .on("tools/list", [Step::Normally])
            .on_call("change", [Step::Notify(CHANGED.into(), json!({})), Step::Text("done".into())]);
        let server = Scripted::new(script);
        let fleet = open([in_memory("s", &server)]);
        fleet.settled(LONG).await;
        let turn = Turn::new(fleet.catalog(), Arc::default());
        call(&entry(&fleet, "mcp__s__change"), json!({})).await.unwrap();
        let arguments = Json::from(json!({"a": 1, "b": 1}));
        let add = ToolCall { id: "1".into(), name: "mcp__s__add".into(), arguments };
        let output = eventually(turn.call(&add)).await.unwrap();
        assert!(output.is_error && output.text().contains("has not listed them since"), "{}", output.text());
        assert_eq!(server.log().count("tools/call"), 1);
        // The list is requested again, and then the tool is known again.
        tokio::time::sleep(Duration::from_secs(20 * 60)).await;
        assert_eq!(eventually(turn.call(&add)).await.unwrap().text(), "2");
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_changes_causes_a_few_lists() {
    let storm: Vec<Step> =
        (0..1000).map(|_| Step::Notify(CHANGED.into(), json!({}))).chain([Step::Text("done".into())]).collect();
    let server = Scripted::new(Script::good().any_tool("storm").on_call("storm", storm));
    let fleet = open([in_memory("s", &server)]);
    fleet.settled(LONG).await;
    let storm = entry(&fleet, "mcp__s__storm");
    let began = Instant::now();
    for _ in 0..5 {
        call(&storm, json!({})).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let lists = server.log().count("tools/list") - 1;
    assert!((1..=3).contains(&lists), "{lists} lists in {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_old_list_stays_if_the_new_one_fails_and_is_retried() {
    let broken = Step::Error(-32603, "the database is down".into());
    let script = Script::good()
        .any_tool("change")
        .once("tools/list", [Step::Normally])
        .times(2, "tools/list", [broken])
        .on("tools/list", [listing(&["new"])])
        .on_call("change", [Step::Notify(CHANGED.into(), json!({})), Step::Text("done".into())]);
    let server = Scripted::new(script);
    let fleet = open([in_memory("s", &server)]);
    fleet.settled(LONG).await;
    let before = offered(&fleet);
    call(&entry(&fleet, "mcp__s__change"), json!({})).await.unwrap();
    let mut changes = fleet.changes();
    while fleet.status(&name("s")).unwrap().stale.is_none() {
        eventually(changes.changed()).await.unwrap();
    }
    let status = fleet.status(&name("s")).unwrap();
    assert_eq!((status.state, offered(&fleet)), (ServerState::Connected, before));
    assert!(status.stale.unwrap().to_string().contains("the database is down"));
    let add = entry(&fleet, "mcp__s__add");
    assert!(matches!(call(&add, json!({"a": 1, "b": 1})).await, Err(ExecutionError::ToolChanged)));
    eventually(until_offered(&fleet, &["mcp__s__new"])).await;
    assert!(fleet.status(&name("s")).unwrap().stale.is_none());
}

#[tokio::test]
async fn a_new_session_is_listed_before_a_tool_is_called_on_it() {
    let script = Script::good().once("tools/list", [Step::Normally]).on("tools/list", [listing(&["other"])]);
    let server = HttpScripted::new(script);
    let (remote, _listening) = over_http("remote", &server).await;
    let fleet = open([remote]);
    soon(fleet.settled(LONG)).await;
    let turn = Turn::new(fleet.catalog(), Arc::default());
    server.wipe();
    let add =
        ToolCall { id: "1".into(), name: "mcp__remote__add".into(), arguments: Json::from(json!({"a": 1, "b": 1})) };
    let output = soon(turn.call(&add)).await.unwrap();
    assert!(output.is_error);
    insta::assert_snapshot!(output.text(), @"`mcp__remote__add` was not called: its server no longer offers it. Do not call it again.");
    assert_eq!(server.log().count("tools/call"), 1, "the new session was never asked for a tool it does not have");
    soon(until_offered(&fleet, &["mcp__remote__other"])).await;
    soon(reaches(&fleet, "remote", ServerState::Connected)).await;
    soon(fleet.close()).await;
}

#[tokio::test]
async fn many_callers_of_a_lost_session_cause_one_handshake_and_one_list() {
    let server = HttpScripted::new(Script::good());
    let (remote, _listening) = over_http("remote", &server).await;
    let fleet = open([remote]);
    soon(fleet.settled(LONG)).await;
    let turn = Turn::new(fleet.catalog(), Arc::default());
    let greetings = server.log().count("initialize");
    let lists = server.log().count("tools/list");
    server.wipe();
    let call = |number: i64| {
        let arguments = Json::from(json!({"a": number, "b": 0}));
        ToolCall { id: number.to_string().into(), name: "mcp__remote__add".into(), arguments }
    };
    let calls: Vec<ToolCall> = (0..64).map(call).collect();
    let answers = soon(futures_util::future::join_all(calls.iter().map(|call| turn.call(call)))).await;
    let answers: Vec<String> = answers.into_iter().map(|answer| answer.unwrap().text()).collect();
    assert_eq!(answers, (0..64).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(server.log().count("initialize") - greetings, 1);
    assert_eq!(server.log().count("tools/list") - lists, 1);
    assert_eq!(server.handled().count("tools/call"), 64);
    soon(fleet.close()).await;
}

/// Answers yes after the server has reported changed tools, and has listed them or failed to.
struct Slow(Fleet);

impl UserPrompt for Slow {
    fn ask(&self, _question: Question) -> BoxFuture<'_, UserAnswer> {
        Box::pin(async {
            let mut changes = self.0.changes();
            call(&entry(&self.0, "mcp__s__change"), json!({})).await.unwrap();
            while offered(&self.0) != ["mcp__s__wipe"] && self.0.status(&name("s")).unwrap().stale.is_none() {
                changes.changed().await.unwrap();
            }
            UserAnswer::Approval(ApprovalAnswer::Yes)
        })
    }

    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_changes_while_the_user_decides_is_not_called() {
    let wipe = |required: Value| {
        json!({"name": "wipe", "annotations": {"destructiveHint": true},
            "inputSchema": {"type": "object", "properties": {"disk": {"type": "string"}}, "required": required}})
    };
    let script = changing(Step::Result(json!({"tools": [wipe(json!(["disk"]))]}))).tool(wipe(json!([])));
    let server = Scripted::new(script);
    let fleet = open([in_memory("s", &server)]);
    fleet.settled(LONG).await;
    let dispatcher = Dispatcher::default().with_user_prompt(Arc::new(Slow(fleet.clone())));
    let turn = Turn::new(fleet.catalog(), Arc::new(dispatcher));
    let wipe = ToolCall { id: "1".into(), name: "mcp__s__wipe".into(), arguments: Json::from(json!({})) };
    let output = eventually(turn.call(&wipe)).await.unwrap();
    assert!(output.is_error && output.text().contains("`disk` is required now"), "{}", output.text());
    assert_eq!(server.log().count("tools/call"), 1, "only `change` was called");
}

#[tokio::test(start_paused = true)]
async fn a_tool_whose_new_list_fails_while_the_user_decides_is_not_called() {
    let wipe = json!({"name": "wipe", "annotations": {"destructiveHint": true}, "inputSchema": {"type": "object"}});
    let server = Scripted::new(changing(Step::Error(-32603, "the database is down".into())).tool(wipe));
    let fleet = open([in_memory("s", &server)]);
    fleet.settled(LONG).await;
    let dispatcher = Dispatcher::default().with_user_prompt(Arc::new(Slow(fleet.clone())));
    let turn = Turn::new(fleet.catalog(), Arc::new(dispatcher));
    let wipe = ToolCall { id: "1".into(), name: "mcp__s__wipe".into(), arguments: Json::from(json!({})) };
    let output = eventually(turn.call(&wipe)).await.unwrap();
    assert!(output.is_error && output.text().contains("was not called"), "{}", output.text());
    assert_eq!(server.log().count("tools/call"), 1, "only `change` was called");
}

#[tokio::test]
async fn a_call_does_not_use_the_old_list_while_a_large_new_one_is_prepared() {
    let large = "x".repeat(60_000);
    let tools: Vec<Value> = (0..40)
        .map(|number| {
            let schema = json!({"type": "object", "description": &large});
            json!({"name": format!("t{number}"), "inputSchema": schema})
        })
        .collect();
    let server = Scripted::new(changing(Step::Result(json!({ "tools": tools }))));
    let fleet = open([in_memory("s", &server)]);
    soon(fleet.settled(LONG)).await;
    let add = entry(&fleet, "mcp__s__add");
    call(&entry(&fleet, "mcp__s__change"), json!({})).await.unwrap();
    // A call may be made at any moment until then.
    let prepared = async {
        while fleet.status(&name("s")).unwrap().tools != 40 {
            let cached = add.executor.cached_freshness(&add.tool);
            assert!(!matches!(cached, Some(ToolFreshness::Same)), "the old list passes as current");
            tokio::task::yield_now().await;
        }
    };
    soon(prepared).await;
    assert!(matches!(freshness(&add).await, ToolFreshness::Gone));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_keeps_reporting_changes_delays_a_call_for_one_list_only() {
    let restless = [Step::Normally, Step::Notify(CHANGED.into(), json!({}))];
    let server = Scripted::new(
        Script::good()
            .once("tools/list", [Step::Normally])
            .on("tools/list", restless)
            .any_tool("change")
            .on_call("change", [Step::Notify(CHANGED.into(), json!({})), Step::Text("done".into())]),
    );
    let fleet = open([in_memory("s", &server)]);
    fleet.settled(LONG).await;
    let turn = Turn::new(fleet.catalog(), Arc::default());
    let add = |id: &str| ToolCall {
        id: id.into(),
        name: "mcp__s__add".into(),
        arguments: Json::from(json!({"a": 1, "b": 1})),
    };
    call(&entry(&fleet, "mcp__s__change"), json!({})).await.unwrap();
    for id in ["1", "2", "3"] {
        let began = Instant::now();
        assert_eq!(eventually(turn.call(&add(id))).await.unwrap().text(), "2");
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_without_tools_connects() {
    let script = Script { tools: Vec::new(), ..Script::good() }
        .on("initialize", [Step::Result(json!({"protocolVersion": "2025-06-18", "capabilities": {"prompts": {}}, "serverInfo": {"name": "p", "version": "1"}}))])
        .on("tools/list", [Step::Error(-32601, "no such method".into())]);
    let fleet = open([in_memory("prompts", &Scripted::new(script))]);
    assert!(fleet.settled(LONG).await);
    assert_eq!(super::summary(&fleet), "prompts connected 0");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_have_run_is_retried_only_if_its_tool_is_idempotent() {
    let cases = [(json!({"idempotentHint": true}), Ok("done".to_owned()), 2), (json!({}), Err(Outcome::Unknown), 1)];
    for (annotations, expected, calls) in cases {
        let put = json!({"name": "put", "annotations": annotations, "inputSchema": {"type": "object"}});
        let script = Script::default().tool(put).once("tools/call", [Step::HangUp]);
        let server = Scripted::new(script.on_call("put", [Step::Text("done".into())]));
        let fleet = open([in_memory("s", &server)]);
        fleet.settled(LONG).await;
        let turn = Turn::new(fleet.catalog(), Arc::default());
        let put = ToolCall { id: "1".into(), name: "mcp__s__put".into(), arguments: Json::from(json!({})) };
        let result = eventually(turn.call(&put)).await;
        assert_eq!(result.map(|output| output.text()).map_err(|failed| failed.outcome), expected);
        assert_eq!(server.log().count("tools/call"), calls);
        fleet.close().await;
    }
}
