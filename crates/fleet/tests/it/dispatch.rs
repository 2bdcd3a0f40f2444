//! Calls, from the name that a model wrote to the output that it reads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;
use wharf_client::{CallErrorKind, Deadline, InProcess, NoHost, SchemaViolation, Session, SessionOptions};
use wharf_fleet::catalog::{Catalog, Entry, OwnTool, ToolFreshness};
use wharf_fleet::dispatch::{CallFailure, Dispatcher, Turn};
use wharf_fleet::{Policy, Settings};
use wharf_protocol::{Json, ToolOutput, Tools as _};
use wharf_testkit::{Script, Scripted, Step, soon};

use crate::dispatch_kit::{Fake, InSession, Recorder, call, catalog, notes, read, server_tools, shown, tool};

fn add(arguments: &Json) -> ToolOutput {
    let sum = arguments.to_value().unwrap();
    ToolOutput::said((sum["a"].as_i64().unwrap() + sum["b"].as_i64().unwrap()).to_string())
}

/// A tool that adds `b` to `a`: by a server in this process, by a function of the host,
/// and by a server behind a real session.
fn adders() -> Vec<Arc<Entry>> {
    let schema = json!({"type": "object", "required": ["a", "b"],
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}});
    let listed = json!([{"name": "add", "inputSchema": schema}]);
    let fake = Fake::new(|arguments| Ok(add(arguments)));
    let of_server = Arc::clone(&server_tools("fake", Settings::default(), listed.clone(), fake).entries()[0]);
    let own = OwnTool::new("add", "adds", schema).run_by(|arguments: Json| async move { Ok(add(&arguments)) }).unwrap();
    let server = Scripted::new(Script::good());
    let transport = InProcess::new(move |stream| server.clone().serve(stream));
    let session = Session::new("true".parse().unwrap(), transport, NoHost, SessionOptions::default());
    let of_session = Arc::new(InSession(session));
    let of_session = Arc::clone(&server_tools("true", Settings::default(), listed, of_session).entries()[0]);
    vec![of_server, own, of_session]
}

#[tokio::test]
async fn a_servers_tool_and_the_hosts_own_take_the_same_path() {
    for entry in adders() {
        let name = entry.name.to_string();
        let recorder = Arc::new(Recorder::default());
        let catalog = catalog(vec![entry]);
        let policy: Policy = serde_json::from_value(json!({"deny": ["arg.a=13"], "ask": ["arg.a=14"]})).unwrap();
        let dispatcher = Dispatcher::new(policy).with_trace(recorder.clone());
        let story = [
            json!({"a": 1, "b": 2}),
            json!("{\"a\":1,\"b\":3}"),
            json!({"a": 1}),
            json!({"a": 13, "b": 1}),
            json!({"a": 14, "b": 1}),
        ];
        let mut outputs = Vec::new();
        for arguments in story {
            outputs.push(read(&dispatcher, &catalog, &name, arguments).await.replace(&name, "NAME"));
            outputs.push(recorder.steps().replace(&name, "NAME"));
        }
        insta::allow_duplicates! {
            insta::assert_snapshot!(outputs.join("\n"), @r#"
            3
            {"step":"allowed","by":"standard mode"}
            4
            {"step":"repaired"}
            {"step":"allowed","by":"standard mode"}
            error: `NAME` was not called: its arguments do not match its schema: "b" is a required property. Fix them and call it again. Its schema: {"type":"object","required":["a","b"],"properties":{"a":{"type":"integer"},"b":{"type":"integer"}}}
            {"step":"misfit","fault":"\"b\" is a required property"}
            error: `NAME` was not called: denied by the policy (arg.a=13). Do not try again.
            {"step":"denied","by":"arg.a=13"}
            error: `NAME` was not called: it requires approval, and no user can be asked
            {"step":"asked","by":"arg.a=14","approved":false,"words":"it requires approval, and no user can be asked"}
            "#);
        }
    }
}

#[tokio::test]
async fn an_unknown_name_is_answered_with_suggestions() {
    let catalog = catalog(vec![notes("search", json!({}), Fake::echo())]);
    let dispatcher = Dispatcher::default();
    let unknown = async |name: &str| read(&dispatcher, &catalog, name, json!({})).await;
    insta::assert_snapshot!([unknown("search").await, unknown("mcp__notes__serch").await, unknown("weather").await].join("\n"), @"
    error: Unknown tool `search`. Did you mean `mcp__notes__search`?
    error: Unknown tool `mcp__notes__serch`. Did you mean `mcp__notes__search`?
    error: Unknown tool `weather`. Use only the offered tools, by their full names.
    ");
}

#[tokio::test]
async fn invalid_arguments_are_answered_with_the_path_and_the_schema() {
    let fake = Fake::echo();
    let catalog = catalog(vec![notes("add", json!({}), fake.clone())]);
    let outputs =
        read(&Dispatcher::default(), &catalog, "mcp__notes__add", json!({"what": "x", "tags": {"a": 1}})).await;
    insta::assert_snapshot!(outputs, @r#"error: `mcp__notes__add` was not called: its arguments do not match its schema: at `/tags`: {"a":1} is not of type "array". Fix them and call it again. Its schema: {"type":"object","required":["what"],"properties":{"what":{"type":"string"},"tags":{"type":"array"}}}"#);
    assert!(fake.calls().is_empty());
}

#[tokio::test]
async fn a_list_written_as_a_string_is_repaired_and_traced() {
    let fake = Fake::echo();
    let recorder = Arc::new(Recorder::default());
    let catalog = catalog(vec![notes("add", json!({}), fake.clone())]);
    let dispatcher = Dispatcher::default().with_trace(recorder.clone());
    soon(dispatcher.call(&catalog, &call("mcp__notes__add", json!({"what": "x", "tags": "[1]"})))).await.unwrap();
    assert_eq!(fake.calls(), [r#"add {"what":"x","tags":[1]}"#]);
    insta::assert_snapshot!(recorder.lines(), @r#"
    {"event":"tool_started","id":"call-1","name":"mcp__notes__add","arguments":{"what":"x","tags":"[1]"}}
    {"event":"tool_progress","id":"call-1","progress":1.0,"total":2.0,"message":"half"}
    {"event":"tool_finished","id":"call-1","name":"mcp__notes__add","server":"notes","tool":"add","sent":{"what":"x","tags":[1]},"steps":[{"step":"repaired"},{"step":"allowed","by":"standard mode"}],"output":{"content":[{"type":"text","text":"{\"what\":\"x\",\"tags\":[1]}"}]},"is_error":false}
    "#);
}

#[tokio::test]
async fn bound_arguments_are_always_sent_and_never_shown() {
    let fake = Fake::echo();
    let recorder = Arc::new(Recorder::default());
    let tools = json!([{"name": "t", "inputSchema": {"type": "object", "required": ["key", "q"],
        "properties": {"key": {"type": "string"}, "q": {"type": "string"}}}}]);
    let bound = json!({"key": "s3cret"}).as_object().unwrap().clone();
    let settings = Settings { bindings: BTreeMap::from([("t".to_owned(), bound)]), ..Settings::default() };
    let catalog = Catalog::new(vec![server_tools("s", settings, tools, fake.clone())], Vec::new());
    let dispatcher = Dispatcher::default().with_trace(recorder.clone());
    soon(dispatcher.call(&catalog, &call("mcp__s__t", json!({"q": "x", "key": "mine"})))).await.unwrap();
    assert_eq!(fake.calls(), [r#"t {"q":"x","key":"s3cret"}"#]);
    assert_eq!(recorder.steps().lines().next().unwrap(), r#"{"step":"bound","names":["key"]}"#);
    assert!(recorder.lines().contains(r#""sent":{"q":"x"}"#), "{}", recorder.lines());
}

#[tokio::test]
async fn a_tool_that_has_changed_is_called_only_if_the_call_still_means_the_same() {
    let now = |schema| ToolFreshness::Changed(tool(json!({"name": "add", "inputSchema": schema})));
    let object = |required| {
        json!({"type": "object", "required": required, "properties":
        {"what": {"type": "string"}, "tags": {"type": "array"}, "who": {"type": "string"}}})
    };
    let states = [
        now(object(json!(["what", "who"]))),
        now(object(json!(["what"]))),
        ToolFreshness::Gone,
        ToolFreshness::Unknown,
        ToolFreshness::Unlisted,
    ];
    let mut outputs = Vec::new();
    for freshness in states {
        let fake = Fake::with_freshness(freshness);
        let recorder = Arc::new(Recorder::default());
        let catalog = catalog(vec![notes("add", json!({}), fake.clone())]);
        let dispatcher = Dispatcher::default().with_trace(recorder.clone());
        outputs.push(read(&dispatcher, &catalog, "mcp__notes__add", json!({"what": "x"})).await);
        outputs.push(recorder.steps());
        let called = recorder.steps().contains("\"allowed\"");
        assert_eq!(fake.calls().len(), usize::from(called));
    }
    insta::assert_snapshot!(outputs.join("\n"), @r#"
    error: `mcp__notes__add` was not called: it has changed on its server since it was offered: `who` is required now. Its schema now: {"type":"object","required":["what","who"],"properties":{"what":{"type":"string"},"tags":{"type":"array"},"who":{"type":"string"}}}
    {"step":"drifted","what":"`who` is required now","called":false}
    {"what":"x"}
    {"step":"allowed","by":"standard mode"}
    {"step":"drifted","what":"`who` is a new optional argument","called":true}
    error: `mcp__notes__add` was not called: its server no longer offers it. Do not call it again.
    {"step":"drifted","what":"the tool was removed","called":false}
    {"what":"x"}
    {"step":"allowed","by":"standard mode"}
    error: `mcp__notes__add` was not called: the tools of its server may have changed, and the server has not listed them since. It may be another tool now. Try again later.
    {"step":"drifted","what":"the tools may have changed, and the server has not listed them since","called":false}
    "#);
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_check_takes_longer_than_the_call_may_is_not_made() {
    // Compiling this takes so long that it is done on a thread of its own, and the paused clock does not wait for it.
    let definitions: Map<_, _> = (0..20_000).map(|n| (format!("a{n}"), json!({"type": "string"}))).collect();
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "$defs": definitions});
    let settings = Settings { max_tool_bytes: Some(4 << 20), ..Settings::default() };
    let fake = Fake::echo();
    let tools = json!([{"name": "t", "inputSchema": schema}]);
    let catalog = Catalog::new(vec![server_tools("s", settings, tools, fake.clone())], Vec::new());
    let recorder = Arc::new(Recorder::default());
    let limit = Duration::from_secs(1);
    let dispatcher = Dispatcher::default().with_trace(recorder.clone()).with_limits(Some(limit), None);
    let began = Instant::now();
    let (result, cause) = dispatcher.call_explained(&catalog, &call("mcp__s__t", json!({"a": "no integer"}))).await;
    assert_eq!(began.elapsed().as_secs(), 1);
    assert!(matches!(cause, Some(CallFailure::CheckTimedOut)), "{cause:?}");
    let text = result.unwrap().text();
    assert!(text.contains("checking its arguments against its schema took too long"), "{text}");
    assert_eq!(recorder.steps(), r#"{"step":"misfit","fault":"checking the arguments took too long"}"#);
    assert!(fake.calls().is_empty());
}

#[tokio::test]
async fn a_tool_that_became_less_safe_is_not_called() {
    let schema = json!({"type": "object", "required": ["what"], "properties":
        {"what": {"type": "string"}, "tags": {"type": "array"}}});
    let now = |more: Value| {
        let mut tool = json!({"name": "add", "inputSchema": schema});
        tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ToolFreshness::Changed(crate::dispatch_kit::tool(tool))
    };
    let changes = [
        (json!({}), now(json!({"annotations": {"destructiveHint": true}}))),
        (json!({"readOnlyHint": true}), now(json!({"annotations": {}}))),
        (json!({}), now(json!({"_meta": {"anthropic/requiresUserInteraction": true}}))),
    ];
    let mut outputs = Vec::new();
    for (hints, freshness) in changes {
        let fake = Fake::with_freshness(freshness);
        let catalog = catalog(vec![notes("add", hints, fake.clone())]);
        let output = read(&Dispatcher::default(), &catalog, "mcp__notes__add", json!({"what": "x"})).await;
        outputs.push(output.split(" Its schema").next().unwrap().to_owned());
        assert!(fake.calls().is_empty());
    }
    insta::assert_snapshot!(outputs.join("\n"), @r"
    error: `mcp__notes__add` was not called: it has changed on its server since it was offered: it is destructive now.
    error: `mcp__notes__add` was not called: it has changed on its server since it was offered: it is no longer read-only.
    error: `mcp__notes__add` was not called: it has changed on its server since it was offered: it requires the user's approval now.
    ");
}

#[tokio::test]
async fn arguments_that_name_a_field_twice_are_refused() {
    let fake = Fake::echo();
    let bound = Settings {
        bindings: [("t".to_owned(), Map::from_iter([("key".to_owned(), json!("k"))]))].into(),
        ..Settings::default()
    };
    let unusable =
        json!([{"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"pattern": "(?<=x)"}}}}]);
    let catalogs = [
        catalog(vec![notes("t", json!({}), fake.clone())]),
        Catalog::new(
            vec![server_tools("notes", bound, json!([{"name": "t", "inputSchema": {}}]), fake.clone())],
            Vec::new(),
        ),
        Catalog::new(vec![server_tools("notes", Settings::default(), unusable, fake.clone())], Vec::new()),
    ];
    let inputs = [
        r#"{"what": "a", "what": "b"}"#,
        r#"{"what": "a", "tags": [{"x": 1, "\u0078": 2}]}"#,
        r#""{\"what\":1,\"what\":2}""#,
    ];
    for catalog in &catalogs {
        for input in inputs {
            let mut twice = call("mcp__notes__t", json!({}));
            twice.arguments = Json::parse(input).unwrap();
            let output = soon(Dispatcher::default().call(catalog, &twice)).await.unwrap();
            assert!(output.is_error && output.text().contains("is given twice"), "{input}: {}", output.text());
        }
    }
    assert!(fake.calls().is_empty());
}

#[tokio::test]
async fn server_errors_are_outputs_for_the_model_and_missing_responses_are_errors_for_the_host() {
    let fault = || SchemaViolation::at("/n", "it is a text");
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
    let mut outputs = Vec::new();
    for kind in kinds {
        let catalog = catalog(vec![notes("add", json!({}), Fake::new(move |_| Err(kind())))]);
        outputs.push(read(&Dispatcher::default(), &catalog, "mcp__notes__add", json!({"what": "x"})).await);
    }
    let outputs = outputs.join("\n");
    assert!(!outputs.contains("hunter2"), "stderr must not reach the model");
    insta::assert_snapshot!(outputs, @r#"
    error: `mcp__notes__add`: the server answered with error -32602: no such note
    {"id":7}
    error: The result of `mcp__notes__add` does not match its output schema: at `/n`: it is a text. The result:
    {"n":"x"}
    error: `mcp__notes__add` was not called: its arguments do not match its schema: at `/n`: it is a text. Fix them and call it again. Its schema: {"type":"object","required":["what"],"properties":{"what":{"type":"string"},"tags":{"type":"array"}}}
    failed: mcp__notes__add: fake: the server hung up before it answered; whether the call ran is unknown (unknown)
    failed: mcp__notes__add: fake: no response within 3 s (total timeout); whether the call ran is unknown (unknown)
    failed: mcp__notes__add: fake: the server's response is malformed: the result is a number (answered)
    failed: mcp__notes__add: fake: too many calls in flight; the request was not sent (not run)
    "#);
}

#[tokio::test]
async fn a_call_is_traced_from_start_to_end() {
    let recorder = Arc::new(Recorder::default());
    let catalog = catalog(vec![notes("add", json!({}), Fake::echo())]);
    let dispatcher = Dispatcher::default().with_trace(recorder.clone());
    read(&dispatcher, &catalog, "mcp__notes__add", json!({"what": "x"})).await;
    insta::assert_snapshot!(recorder.lines(), @r#"
    {"event":"tool_started","id":"call-1","name":"mcp__notes__add","arguments":{"what":"x"}}
    {"event":"tool_progress","id":"call-1","progress":1.0,"total":2.0,"message":"half"}
    {"event":"tool_finished","id":"call-1","name":"mcp__notes__add","server":"notes","tool":"add","steps":[{"step":"allowed","by":"standard mode"}],"output":{"content":[{"type":"text","text":"{\"what\":\"x\"}"}]},"is_error":false}
    "#);
}

#[tokio::test]
async fn a_dropped_call_is_traced_as_canceled() {
    let recorder = Arc::new(Recorder::default());
    let catalog = catalog(vec![notes("add", json!({}), Fake::echo())]);
    let dispatcher = Dispatcher::default().with_trace(recorder.clone());
    let call = call("mcp__notes__add", json!({"what": "x"}));
    let mut waiting = Box::pin(dispatcher.call(&catalog, &call));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    drop(waiting);
    let last = recorder.lines();
    assert!(last.ends_with(r#""failed":{"reason":"the caller canceled the call","outcome":"unknown"}}"#), "{last}");
}

#[tokio::test]
async fn a_real_server_receives_the_tools_bare_name_and_its_progress_and_errors_arrive() {
    let script = Script::good().any_tool("slow tool").any_tool("broken");
    let script = script.on_call("slow tool", [Step::Progress(1.0, 2.0, "half".into()), Step::Text("done".into())]);
    let script = script.on_call("broken", [Step::Error(-32602, "no such thing".into())]);
    let server = Scripted::new(script);
    let log = server.log().clone();
    let transport = InProcess::new(move |stream| server.clone().serve(stream));
    let session = Session::new("true".parse().unwrap(), transport, NoHost, SessionOptions::default());
    let tools = json!([{"name": "slow tool", "inputSchema": {}}, {"name": "broken", "inputSchema": {}}]);
    let server_tools = server_tools("true", Settings::default(), tools, Arc::new(InSession(session)));
    let recorder = Arc::new(Recorder::default());
    let turn = Turn::new(
        Arc::new(Catalog::new(vec![server_tools], Vec::new())),
        Arc::new(Dispatcher::default().with_trace(recorder.clone())),
    );
    let names: Vec<String> = turn.offered().iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(shown(soon(turn.call(&call(&names[0], json!({})))).await), "done");
    assert_eq!(log.last_params("tools/call").unwrap()["name"], "slow tool");
    assert!(
        recorder
            .lines()
            .contains(r#"{"event":"tool_progress","id":"call-1","progress":1.0,"total":2.0,"message":"half"}"#)
    );
    insta::assert_snapshot!(shown(soon(turn.call(&call(&names[1], json!({})))).await), @"error: `mcp__true__broken`: the server answered with error -32602: no such thing");
}

#[tokio::test(start_paused = true)]
async fn the_total_timeout_applies_to_the_hosts_own_tools() {
    let slow = OwnTool::new("slow", "", json!({})).run_by(|_| std::future::pending()).unwrap();
    let dispatcher = Dispatcher::default().with_limits(Some(Duration::from_secs(5)), None);
    let outputs = wharf_testkit::eventually(dispatcher.call(&catalog(vec![slow]), &call("slow", json!({})))).await;
    insta::assert_snapshot!(shown(outputs), @"failed: slow: host: no response within 5 s (total timeout); whether the call ran is unknown (unknown)");
}

#[tokio::test]
async fn arguments_are_sent_unchecked_if_the_schema_does_not_compile() {
    let fake = Fake::echo();
    let recorder = Arc::new(Recorder::default());
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(?!x)"}}});
    let server_tools =
        server_tools("s", Settings::default(), json!([{"name": "t", "inputSchema": schema}]), fake.clone());
    let catalog = Catalog::new(vec![server_tools], Vec::new());
    let dispatcher = Dispatcher::default().with_trace(recorder.clone());
    read(&dispatcher, &catalog, "mcp__s__t", json!({"a": "x"})).await;
    assert!(recorder.steps().contains("unchecked") && fake.calls().len() == 1, "{}", recorder.steps());
}
