//! How a call goes, from the name a model wrote to what it reads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use wharf_client::{CallErrorKind, Deadline, InProcess, NoHost, SchemaViolation, Session, SessionOptions};
use wharf_fleet::catalog::{Catalog, Entry, OwnTool, ToolFreshness};
use wharf_fleet::dispatch::{Dispatcher, Turn};
use wharf_fleet::{Policy, Settings};
use wharf_protocol::{Json, ToolOutput, Tools as _};
use wharf_testkit::{Script, Scripted, Step, soon};

use crate::dispatch_kit::{Fake, Heard, InSession, call, catalog, notes, read, shelf, shown, tool};

fn add(arguments: &Json) -> ToolOutput {
    let sum = arguments.to_value().unwrap();
    ToolOutput::said((sum["a"].as_i64().unwrap() + sum["b"].as_i64().unwrap()).to_string())
}

/// A tool that adds `b` to `a`: by a server in this process, by a function of the host,
/// and by a server behind a true session.
fn adders() -> Vec<Arc<Entry>> {
    let schema = json!({"type": "object", "required": ["a", "b"],
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}});
    let listed = json!([{"name": "add", "inputSchema": schema}]);
    let fake = Fake::new(|arguments| Ok(add(arguments)));
    let of_server = Arc::clone(&shelf("fake", Settings::default(), listed.clone(), fake).entries()[0]);
    let own = OwnTool::new("add", "adds", schema).run_by(|arguments: Json| async move { Ok(add(&arguments)) }).unwrap();
    let server = Scripted::new(Script::good());
    let transport = InProcess::new(move |stream| server.clone().serve(stream));
    let session = Session::new("true".parse().unwrap(), transport, NoHost, SessionOptions::default());
    let of_session = Arc::new(InSession(session));
    let of_session = Arc::clone(&shelf("true", Settings::default(), listed, of_session).entries()[0]);
    vec![of_server, own, of_session]
}

#[tokio::test]
async fn a_servers_tool_and_the_hosts_own_go_the_same_way() {
    for entry in adders() {
        let (name, heard) = (entry.name.to_string(), Arc::new(Heard::default()));
        let catalog = catalog(vec![entry]);
        let policy: Policy = serde_json::from_value(json!({"deny": ["arg.a=13"], "ask": ["arg.a=14"]})).unwrap();
        let dispatcher = Dispatcher::new(policy).with_trace(heard.clone());
        let story = [
            json!({"a": 1, "b": 2}),
            json!("{\"a\":1,\"b\":3}"),
            json!({"a": 1}),
            json!({"a": 13, "b": 1}),
            json!({"a": 14, "b": 1}),
        ];
        let mut told = Vec::new();
        for arguments in story {
            told.push(read(&dispatcher, &catalog, &name, arguments).await.replace(&name, "NAME"));
            told.push(heard.steps().replace(&name, "NAME"));
        }
        insta::allow_duplicates! {
            insta::assert_snapshot!(told.join("\n"), @r#"
            3
            {"step":"allowed","by":"standard mode"}
            4
            {"step":"repaired"}
            {"step":"allowed","by":"standard mode"}
            error: `NAME` was not called: its arguments do not fit its schema: "b" is a required property. Mend them and call it again. It takes: {"type":"object","required":["a","b"],"properties":{"a":{"type":"integer"},"b":{"type":"integer"}}}
            {"step":"misfit","fault":"\"b\" is a required property"}
            error: `NAME` was not called: the policy forbids it (arg.a=13). Do not try again.
            {"step":"denied","by":"arg.a=13"}
            error: `NAME` was not called: it needs approval, and no user can be asked
            {"step":"asked","by":"arg.a=14","approved":false,"words":"it needs approval, and no user can be asked"}
            "#);
        }
    }
}

#[tokio::test]
async fn a_name_that_is_not_offered_is_answered_with_what_may_have_been_meant() {
    let catalog = catalog(vec![notes("search", json!({}), Fake::echo())]);
    let dispatcher = Dispatcher::default();
    let unknown = async |name: &str| read(&dispatcher, &catalog, name, json!({})).await;
    insta::assert_snapshot!([unknown("search").await, unknown("mcp__notes__serch").await, unknown("weather").await].join("\n"), @"
    error: There is no tool `search`. Did you mean `mcp__notes__search`?
    error: There is no tool `mcp__notes__serch`. Did you mean `mcp__notes__search`?
    error: There is no tool `weather`. Use only tools that are offered, by their whole names.
    ");
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_answered_with_the_place_and_the_schema() {
    let fake = Fake::echo();
    let catalog = catalog(vec![notes("add", json!({}), fake.clone())]);
    let told = read(&Dispatcher::default(), &catalog, "mcp__notes__add", json!({"what": "x", "tags": {"a": 1}})).await;
    insta::assert_snapshot!(told, @r#"error: `mcp__notes__add` was not called: its arguments do not fit its schema: at `/tags`: {"a":1} is not of type "array". Mend them and call it again. It takes: {"type":"object","required":["what"],"properties":{"what":{"type":"string"},"tags":{"type":"array"}}}"#);
    assert!(fake.calls().is_empty());
}

#[tokio::test]
async fn a_list_written_as_a_text_is_mended_and_the_trace_tells() {
    let (fake, heard) = (Fake::echo(), Arc::new(Heard::default()));
    let catalog = catalog(vec![notes("add", json!({}), fake.clone())]);
    let dispatcher = Dispatcher::default().with_trace(heard.clone());
    soon(dispatcher.call(&catalog, &call("mcp__notes__add", json!({"what": "x", "tags": "[1]"})))).await.unwrap();
    assert_eq!(fake.calls(), [r#"add {"what":"x","tags":[1]}"#]);
    insta::assert_snapshot!(heard.lines(), @r#"
    {"event":"tool_started","id":"call-1","name":"mcp__notes__add","arguments":{"what":"x","tags":"[1]"}}
    {"event":"tool_progress","id":"call-1","progress":1.0,"total":2.0,"message":"half"}
    {"event":"tool_finished","id":"call-1","name":"mcp__notes__add","server":"notes","tool":"add","sent":{"what":"x","tags":[1]},"steps":[{"step":"repaired"},{"step":"allowed","by":"standard mode"}],"output":{"content":[{"type":"text","text":"{\"what\":\"x\",\"tags\":[1]}"}]},"is_error":false}
    "#);
}

#[tokio::test]
async fn bound_arguments_are_sent_whatever_the_model_writes_and_shown_to_nobody() {
    let (fake, heard) = (Fake::echo(), Arc::new(Heard::default()));
    let tools = json!([{"name": "t", "inputSchema": {"type": "object", "required": ["key", "q"],
        "properties": {"key": {"type": "string"}, "q": {"type": "string"}}}}]);
    let bound = json!({"key": "s3cret"}).as_object().unwrap().clone();
    let settings = Settings { bindings: BTreeMap::from([("t".to_owned(), bound)]), ..Settings::default() };
    let catalog = Catalog::new(vec![shelf("s", settings, tools, fake.clone())], Vec::new());
    let dispatcher = Dispatcher::default().with_trace(heard.clone());
    soon(dispatcher.call(&catalog, &call("mcp__s__t", json!({"q": "x", "key": "mine"})))).await.unwrap();
    assert_eq!(fake.calls(), [r#"t {"q":"x","key":"s3cret"}"#]);
    assert_eq!(heard.steps().lines().next().unwrap(), r#"{"step":"bound","names":["key"]}"#);
    assert!(heard.lines().contains(r#""sent":{"q":"x"}"#), "{}", heard.lines());
}

#[tokio::test]
async fn a_tool_that_has_changed_is_called_only_if_the_call_still_means_the_same() {
    let now = |schema| ToolFreshness::Changed(tool(json!({"name": "add", "inputSchema": schema})));
    let object = |required| {
        json!({"type": "object", "required": required, "properties":
        {"what": {"type": "string"}, "tags": {"type": "array"}, "who": {"type": "string"}}})
    };
    let standings = [
        now(object(json!(["what", "who"]))),
        now(object(json!(["what"]))),
        ToolFreshness::Gone,
        ToolFreshness::Unknown,
    ];
    let mut told = Vec::new();
    for standing in standings {
        let (fake, heard) = (Fake::standing(standing), Arc::new(Heard::default()));
        let catalog = catalog(vec![notes("add", json!({}), fake.clone())]);
        let dispatcher = Dispatcher::default().with_trace(heard.clone());
        told.push(read(&dispatcher, &catalog, "mcp__notes__add", json!({"what": "x"})).await);
        told.push(heard.steps());
        let called = heard.steps().contains("\"allowed\"");
        assert_eq!(fake.calls().len(), usize::from(called));
    }
    insta::assert_snapshot!(told.join("\n"), @r#"
    error: `mcp__notes__add` was not called: it has changed on its server since it was offered: `who` is required now. It takes now: {"type":"object","required":["what","who"],"properties":{"what":{"type":"string"},"tags":{"type":"array"},"who":{"type":"string"}}}
    {"step":"drifted","what":"`who` is required now","called":false}
    {"what":"x"}
    {"step":"allowed","by":"standard mode"}
    {"step":"drifted","what":"`who` may be given now","called":true}
    error: `mcp__notes__add` was not called: its server does not offer it any more. Do not call it again.
    {"step":"drifted","what":"it is gone","called":false}
    {"what":"x"}
    {"step":"allowed","by":"standard mode"}
    "#);
}

#[tokio::test]
async fn what_a_server_answers_is_for_the_model_and_what_did_not_come_is_for_the_host() {
    let fault = || SchemaViolation { path: "/n".to_owned(), message: "it is a text".to_owned() };
    let output = || {
        Box::new(ToolOutput::from_json(&Json::from(json!({"content": [], "structuredContent": {"n": "x"}}))).unwrap())
    };
    let kinds: Vec<Box<dyn Fn() -> CallErrorKind + Send + Sync>> = vec![
        Box::new(|| CallErrorKind::Server {
            code: -32602,
            message: "no such note".into(),
            data: Some(json!({"id": 7}).into()),
        }),
        Box::new(move || CallErrorKind::Output { tool: "add".into(), fault: fault(), output: output() }),
        Box::new(move || CallErrorKind::Arguments { tool: "add".into(), fault: fault() }),
        Box::new(|| CallErrorKind::Lost("hung up".into())),
        Box::new(|| CallErrorKind::Timeout { deadline: Deadline::Total, after: Duration::from_secs(3) }),
        Box::new(|| CallErrorKind::Malformed("the result is a number".into())),
        Box::new(|| CallErrorKind::Busy),
    ];
    let mut told = Vec::new();
    for kind in kinds {
        let catalog = catalog(vec![notes("add", json!({}), Fake::new(move |_| Err(kind())))]);
        told.push(read(&Dispatcher::default(), &catalog, "mcp__notes__add", json!({"what": "x"})).await);
    }
    let told = told.join("\n");
    assert!(!told.contains("hunter2"), "the server's stderr is nobody's business");
    insta::assert_snapshot!(told, @r#"
    error: `mcp__notes__add`: the server answered with error -32602: no such note
    {"id":7}
    error: `mcp__notes__add` answered with what does not fit its own output schema: at `/n`: it is a text. It said:
    {"n":"x"}
    error: `mcp__notes__add` was not called: its arguments do not fit its schema: at `/n`: it is a text. Mend them and call it again. It takes: {"type":"object","required":["what"],"properties":{"what":{"type":"string"},"tags":{"type":"array"}}}
    failed: mcp__notes__add: fake: the server hung up before it answered; whether the call ran is unknown (unknown)
    failed: mcp__notes__add: fake: no answer within 3 s (the limit for the whole call); whether the call ran is unknown (unknown)
    failed: mcp__notes__add: fake: the server's answer is malformed: the result is a number (answered)
    failed: mcp__notes__add: fake: too many calls are under way; the request was not sent (not run)
    "#);
}

#[tokio::test]
async fn a_call_is_told_of_from_its_beginning_to_its_end() {
    let heard = Arc::new(Heard::default());
    let catalog = catalog(vec![notes("add", json!({}), Fake::echo())]);
    let dispatcher = Dispatcher::default().with_trace(heard.clone());
    read(&dispatcher, &catalog, "mcp__notes__add", json!({"what": "x"})).await;
    insta::assert_snapshot!(heard.lines(), @r#"
    {"event":"tool_started","id":"call-1","name":"mcp__notes__add","arguments":{"what":"x"}}
    {"event":"tool_progress","id":"call-1","progress":1.0,"total":2.0,"message":"half"}
    {"event":"tool_finished","id":"call-1","name":"mcp__notes__add","server":"notes","tool":"add","steps":[{"step":"allowed","by":"standard mode"}],"output":{"content":[{"type":"text","text":"{\"what\":\"x\"}"}]},"is_error":false}
    "#);
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_any_more_has_an_end_too() {
    let heard = Arc::new(Heard::default());
    let catalog = catalog(vec![notes("add", json!({}), Fake::echo())]);
    let dispatcher = Dispatcher::default().with_trace(heard.clone());
    let call = call("mcp__notes__add", json!({"what": "x"}));
    let mut waiting = Box::pin(dispatcher.call(&catalog, &call));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    drop(waiting);
    let last = heard.lines();
    assert!(
        last.ends_with(r#""failed":{"reason":"nobody waits for the call any more","outcome":"unknown"}}"#),
        "{last}"
    );
}

#[tokio::test]
async fn a_true_server_gets_the_tools_own_name_and_its_progress_and_errors_come_through() {
    let script = Script::good().any_tool("slow tool").any_tool("broken");
    let script = script.on_call("slow tool", [Step::Progress(1.0, 2.0, "half".into()), Step::Text("done".into())]);
    let script = script.on_call("broken", [Step::Error(-32602, "no such thing".into())]);
    let server = Scripted::new(script);
    let log = server.log().clone();
    let transport = InProcess::new(move |stream| server.clone().serve(stream));
    let session = Session::new("true".parse().unwrap(), transport, NoHost, SessionOptions::default());
    let tools = json!([{"name": "slow tool", "inputSchema": {}}, {"name": "broken", "inputSchema": {}}]);
    let shelf = shelf("true", Settings::default(), tools, Arc::new(InSession(session)));
    let heard = Arc::new(Heard::default());
    let turn = Turn {
        catalog: Arc::new(Catalog::new(vec![shelf], Vec::new())),
        dispatcher: Arc::new(Dispatcher::default().with_trace(heard.clone())),
    };
    let names: Vec<String> = turn.offered().iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(shown(soon(turn.call(&call(&names[0], json!({})))).await), "done");
    assert_eq!(log.last_params("tools/call").unwrap()["name"], "slow tool");
    assert!(
        heard
            .lines()
            .contains(r#"{"event":"tool_progress","id":"call-1","progress":1.0,"total":2.0,"message":"half"}"#)
    );
    insta::assert_snapshot!(shown(soon(turn.call(&call(&names[1], json!({})))).await), @"error: `mcp__true__broken`: the server answered with error -32602: no such thing");
}

#[tokio::test(start_paused = true)]
async fn a_tool_of_the_hosts_own_has_the_limit_that_is_set_for_calls() {
    let slow = OwnTool::new("slow", "", json!({})).run_by(|_| std::future::pending()).unwrap();
    let dispatcher = Dispatcher::default().with_limits(Some(Duration::from_secs(5)), None);
    let told = wharf_testkit::eventually(dispatcher.call(&catalog(vec![slow]), &call("slow", json!({})))).await;
    insta::assert_snapshot!(shown(told), @"failed: slow: host: no answer within 5 s (the limit for the whole call); whether the call ran is unknown (unknown)");
}

#[tokio::test]
async fn a_schema_that_cannot_be_compiled_leaves_the_checking_to_the_server() {
    let (fake, heard) = (Fake::echo(), Arc::new(Heard::default()));
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(?!x)"}}});
    let shelf = shelf("s", Settings::default(), json!([{"name": "t", "inputSchema": schema}]), fake.clone());
    let catalog = Catalog::new(vec![shelf], Vec::new());
    let dispatcher = Dispatcher::default().with_trace(heard.clone());
    read(&dispatcher, &catalog, "mcp__s__t", json!({"a": "x"})).await;
    assert!(heard.steps().contains("unchecked") && fake.calls().len() == 1, "{}", heard.steps());
}
