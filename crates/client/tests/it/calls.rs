//! Calls: argument checks, deadlines, cancellation and retries.

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::Instant;
use wharf_client::{CallErrorKind, CallOptions, Deadline, OnLoss, Outcome};
use wharf_protocol::{ResultStatus, ToolResult};
use wharf_testkit::{Script, Step, eventually};

use crate::{in_memory, json, none, result_text, seconds, settle};

#[tokio::test(start_paused = true)]
async fn invalid_arguments_are_not_sent_and_the_error_names_the_path() {
    let (session, server) = in_memory(Script::good());
    eventually(session.list_tools()).await.unwrap();
    let error = eventually(session.call("add", &json(json!({"a": 1, "b": "x"})))).await.unwrap_err();
    assert_eq!(
        error.kind.to_string(),
        r#"the arguments of `add` do not match its schema: at `/b`: "x" is not of type "integer""#
    );
    assert_eq!((error.outcome(), server.log().count("tools/call")), (Outcome::NotRun, 0));
    let error = eventually(session.call("add", &json(json!([1])))).await.unwrap_err();
    assert!(error.to_string().ends_with("the arguments must be an object"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn arguments_checked_by_the_caller_are_not_checked_again() {
    let (session, server) = in_memory(Script::good());
    eventually(session.list_tools()).await.unwrap();
    let arguments = json(json!({"a": 1, "b": "x"}));
    let admitted = CallOptions { admitted: true, ..CallOptions::default() };
    let _ = eventually(session.call_with("add", &arguments, admitted)).await;
    assert_eq!(server.log().last_params("tools/call").unwrap()["arguments"], json!({"a": 1, "b": "x"}));
}

#[tokio::test(start_paused = true)]
async fn arrays_written_as_json_strings_arrive_as_arrays() {
    let tool = json!({"name": "sum", "inputSchema": {"type": "object", "properties": {"of": {"type": "array"}}}});
    let (session, server) = in_memory(Script::default().tool(tool).on_call("sum", [Step::Text("6".into())]));
    eventually(session.list_tools()).await.unwrap();
    assert_eq!(result_text(eventually(session.call("sum", &json(json!({"of": "[1,2,3]"})))).await), "6");
    assert_eq!(server.log().last_params("tools/call").unwrap()["arguments"], json!({"of": [1, 2, 3]}));
}

fn structured(result: serde_json::Value) -> Script {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let tool = json!({"name": "count", "inputSchema": {"type": "object"}, "outputSchema": schema});
    Script::good().tool(tool).on_call("count", [Step::Result(result)])
}

#[tokio::test(start_paused = true)]
async fn deadline_of_a_call_bounds_the_checks_of_arguments_and_result() {
    let alternatives: Vec<_> = ["null"; 60].into_iter().chain(["integer"]).map(|kind| json!({"type": kind})).collect();
    let slow = json!({"type": "object", "properties": {"n": {"items": {"anyOf": alternatives}}}});
    let tool = |name: &str, input: &str, output: &str| {
        let plain = json!({"type": "object"});
        let schema = |kind: &str| if kind == "slow" { slow.clone() } else { plain.clone() };
        json!({"name": name, "inputSchema": schema(input), "outputSchema": schema(output)})
    };
    let result = json!({"content": [], "structuredContent": {"n": vec![1; 15_000]}});
    let script = Script::good()
        .tool(tool("result", "plain", "slow"))
        .tool(tool("arguments", "slow", "plain"))
        .on_call("result", [Step::Result(result.clone())]);
    let (session, server) = in_memory(script);
    eventually(session.list_tools()).await.unwrap();
    let deadline = || CallOptions { total: Some(seconds(3)), ..CallOptions::default() };
    let started = Instant::now();
    let output = eventually(session.call_with("result", &none(), deadline())).await.unwrap();
    assert!(output.structured.is_some() && started.elapsed() <= seconds(4), "{:?}", started.elapsed());
    let started = Instant::now();
    let arguments = json(result["structuredContent"].clone());
    let error = eventually(session.call_with("arguments", &arguments, deadline())).await.unwrap_err();
    let has_timed_out = matches!(error.kind, CallErrorKind::CheckTimedOut { .. });
    assert!(has_timed_out && started.elapsed() <= seconds(4), "{error}");
    assert_eq!((error.outcome(), server.log().count("tools/call")), (Outcome::NotRun, 1));
}

#[tokio::test(start_paused = true)]
async fn structured_results_are_checked_and_a_missing_schema_is_fetched_once() {
    let (session, server) = in_memory(structured(json!({"content": [], "structuredContent": {"n": 3}})));
    for _ in 0..2 {
        assert_eq!(result_text(eventually(session.call("count", &none())).await), r#"{"n":3}"#);
    }
    assert_eq!(server.log().methods()[2..], ["tools/call", "tools/list", "tools/call"]);
    eventually(session.call("add", &json(json!({"a": 1, "b": 2})))).await.unwrap();
    assert_eq!(server.log().count("tools/list"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_violates_its_schema_is_an_error_that_contains_it() {
    let (session, _server) = in_memory(structured(json!({"content": [], "structuredContent": {"n": "three"}})));
    let error = eventually(session.call("count", &none())).await.unwrap_err();
    let CallErrorKind::Output { fault, output, .. } = &error.kind else { panic!("{error}") };
    assert_eq!((fault.path.as_str(), output.text().as_str()), ("/n", r#"{"n":"three"}"#));

    let (session, _server) = in_memory(structured(json!({"content": [{"type": "text", "text": "3"}]})));
    eventually(session.list_tools()).await.unwrap();
    let error = eventually(session.call("count", &none())).await.unwrap_err();
    assert!(error.to_string().contains("structured content is missing"), "{error}");

    let failed = json!({"content": [{"type": "text", "text": "no"}], "isError": true});
    let (session, _server) = in_memory(structured(failed));
    eventually(session.list_tools()).await.unwrap();
    assert_eq!(result_text(eventually(session.call("count", &none())).await), "failed: no");
}

#[tokio::test(start_paused = true)]
async fn a_changed_tool_list_is_invalidated_immediately() {
    let script = structured(json!({"content": [], "structuredContent": {"n": 3}})).any_tool("change").on_call(
        "change",
        [Step::Notify("notifications/tools/list_changed".into(), json!({})), Step::Text("changed".into())],
    );
    let (session, server) = in_memory(script);
    eventually(session.list_tools()).await.unwrap();
    eventually(session.call("change", &none())).await.unwrap();
    eventually(session.call("count", &none())).await.unwrap();
    assert_eq!(server.log().count("tools/list"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_for_a_model_always_has_a_result_with_its_id() {
    let (session, _server) = in_memory(Script::good().any_tool("die").on_call("die", [Step::HangUp]));
    let sum = eventually(session.use_tool("tool-123", "add", &json(json!({"a": 10, "b": 20})))).await;
    assert_eq!(
        serde_json::to_string(&sum).unwrap(),
        r#"{"status":"success","toolUseId":"tool-123","content":[{"text":"30"}]}"#
    );
    let died: ToolResult = eventually(session.use_tool("tool-124", "die", &none())).await;
    assert_eq!((died.status, died.tool_use_id.as_str()), (ResultStatus::Error, "tool-124"));
}

#[tokio::test(start_paused = true)]
async fn all_progress_arrives_in_order_before_the_result() {
    let mut steps: Vec<Step> = (1..=200).map(|n| Step::Progress(f64::from(n), 200.0, format!("step {n}"))).collect();
    steps.push(Step::Text("done".into()));
    let (session, _server) = in_memory(Script::good().any_tool("slow").on_call("slow", steps));
    let mut received = Vec::new();
    let mut listen = |step: wharf_client::Progress| received.push(step.message.unwrap());
    let options = CallOptions { progress: Some(&mut listen), ..CallOptions::default() };
    assert_eq!(result_text(eventually(session.call_with("slow", &none(), options)).await), "done");
    assert_eq!(received, (1..=200).map(|n| format!("step {n}")).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn progress_extends_the_idle_deadline_but_not_the_total_one() {
    let mut steps = Vec::new();
    for n in 0..10 {
        steps.extend([Step::Wait(20 * 60 * 1000), Step::Progress(f64::from(n), 10.0, String::new())]);
    }
    steps.push(Step::Text("three hours later".into()));
    let (session, server) = in_memory(Script::good().any_tool("slow").on_call("slow", steps));
    assert_eq!(result_text(eventually(session.call("slow", &none())).await), "three hours later");

    let began = Instant::now();
    let options = CallOptions { total: Some(seconds(3600)), ..CallOptions::default() };
    let error = eventually(session.call_with("slow", &none(), options)).await.unwrap_err();
    assert_eq!(began.elapsed().as_secs(), 3600);
    assert!(matches!(error.kind, CallErrorKind::Timeout { deadline: Deadline::Total, .. }), "{error}");
    settle().await;
    assert_eq!(server.log().count("notifications/cancelled"), 1);
}

#[tokio::test(start_paused = true)]
async fn silence_times_out_a_call_after_thirty_minutes_and_cancels_it() {
    let (session, server) = in_memory(Script::good().any_tool("hang").on_call("hang", [Step::Hang]));
    let began = Instant::now();
    let error = eventually(session.call("hang", &none())).await.unwrap_err();
    assert_eq!(began.elapsed().as_secs(), 30 * 60);
    assert_eq!(
        error.to_string(),
        "scripted: no response within 1800 s (idle timeout); whether the call ran is unknown"
    );
    assert_eq!(error.outcome(), Outcome::Unknown);
    settle().await;
    let call = server.log().messages().into_iter().find(|message| message["method"] == "tools/call").unwrap();
    assert_eq!(server.log().last_params("notifications/cancelled").unwrap()["requestId"], call["id"]);
    // The connection still works.
    eventually(session.ping()).await.unwrap();
    assert_eq!(server.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_is_canceled_and_its_late_answer_is_ignored() {
    let script = Script::good().any_tool("slow").on_call("slow", [Step::Wait(60_000), Step::Text("late".into())]);
    let (session, server) = in_memory(script);
    let dropped = tokio::time::timeout(seconds(1), session.call("slow", &none())).await;
    assert!(dropped.is_err());
    tokio::time::sleep(seconds(120)).await;
    assert_eq!(server.log().count("notifications/cancelled"), 1);
    assert_eq!(session.health().stray_answers, 1);
    assert_eq!(result_text(eventually(session.call("echo", &json(json!({"text": "on time"})))).await), "on time");
}

#[tokio::test(start_paused = true)]
async fn a_lost_call_is_retried_only_if_the_tool_is_idempotent() {
    let tool = |name: &str, hints| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": hints});
    let script = Script::good()
        .tool(tool("write", json!({"readOnlyHint": false})))
        .tool(tool("read", json!({"readOnlyHint": true})))
        .tool(tool("set", json!({"idempotentHint": true})))
        .on_call("write", [Step::HangUp])
        .once("tools/call", [Step::HangUp])
        .on_call("read", [Step::Text("read".into())])
        .on_call("set", [Step::HangUp]);
    let (session, server) = in_memory(script);
    let listed = async || eventually(session.list_tools()).await.unwrap();
    listed().await;
    let error = eventually(session.call("write", &none())).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    let expected = "scripted: the server closed the connection before it answered; whether the call ran is unknown";
    assert_eq!(error.to_string(), expected);
    assert_eq!(server.log().count("tools/call"), 1);

    listed().await;
    assert_eq!(result_text(eventually(session.call("read", &none())).await), "read");
    assert_eq!(server.log().count("tools/call"), 3);

    listed().await;
    eventually(session.call("set", &none())).await.unwrap_err();
    assert_eq!(server.log().count("tools/call"), 5, "it is sent again once, not for ever");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_have_run_is_reported_as_such_even_if_its_retry_did_not_run() {
    let tool = json!({"name": "read", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}});
    let script = Script::good().tool(tool).on_call("read", [Step::HangUp]).once("initialize", [Step::Normally]);
    let (session, server) = in_memory(script.on("initialize", [Step::HangUp]));
    eventually(session.list_tools()).await.unwrap();
    let error = eventually(session.call("read", &none())).await.unwrap_err();
    assert_eq!((error.outcome(), server.connections()), (Outcome::Unknown, 2), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_call_and_its_retry_share_one_total_deadline() {
    let tool = json!({"name": "read", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}});
    let script = Script::good().tool(tool).once("tools/call", [Step::Wait(7_000), Step::HangUp]);
    let (session, _server) = in_memory(script.on_call("read", [Step::Hang]));
    eventually(session.list_tools()).await.unwrap();
    let began = Instant::now();
    let options = CallOptions { total: Some(seconds(10)), ..CallOptions::default() };
    let error = eventually(session.call_with("read", &none(), options)).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Timeout { deadline: Deadline::Total, .. }), "{error}");
    assert_eq!(began.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_list_tools_is_asked_once_and_its_results_are_returned_unchecked() {
    let script = structured(json!({"content": [], "structuredContent": {"n": 3}})).on("tools/list", [Step::Hang]);
    let (session, server) = in_memory(script);
    let nothing = none();
    let began = Instant::now();
    let calls = (0..8).map(|_| session.call("count", &nothing));
    for result in eventually(futures_util::future::join_all(calls)).await {
        assert_eq!(result_text(result), r#"{"n":3}"#);
    }
    eventually(session.call("count", &nothing)).await.unwrap();
    assert_eq!((began.elapsed().as_secs(), server.log().count("tools/list")), (30, 1));
}

#[tokio::test(start_paused = true)]
async fn answers_reach_their_callers_in_any_order() {
    let steps = |delay, text: &str| vec![Step::Wait(delay), Step::Text(text.into())];
    let script = Script::good().any_tool("a").any_tool("b").any_tool("c");
    let script = script.on_call("a", steps(300, "a")).on_call("b", steps(200, "b")).on_call("c", steps(100, "c"));
    let (session, _server) = in_memory(script);
    let arguments = none();
    let calls = async {
        tokio::join!(session.call("a", &arguments), session.call("b", &arguments), session.call("c", &arguments))
    };
    let (a, b, c) = eventually(Box::pin(calls)).await;
    assert_eq!([result_text(a), result_text(b), result_text(c)], ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_limit_wait_for_their_turn() {
    let (session, _server) = in_memory(Script::good());
    let calls = (0..3_000).map(|n| {
        let session = session.clone();
        async move { result_text(session.call("add", &json(json!({"a": n, "b": 0}))).await) }
    });
    let sums = eventually(futures_util::future::join_all(calls)).await;
    assert_eq!(sums, (0..3_000).map(|n| n.to_string()).collect::<Vec<_>>());
}

/// Fills all slots with calls, lets the last one disconnect the server, and makes one more call.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_never_sent_is_retried_or_reported_as_requested() {
    for on_loss in [OnLoss::Recover, OnLoss::Report] {
        let script = Script::good().on_call("hang", [Step::Hang]).on_call("bye", [Step::HangUp]);
        let (session, server) = in_memory(script);
        eventually(session.connect()).await.unwrap();
        let crowd = (0..1023).map(|_| "hang").chain(["bye"]).map(|tool| {
            let session = session.clone();
            async move { result_text(session.call(tool, &none()).await) }
        });
        let last = async {
            let arguments = json(json!({"a": 1, "b": 1}));
            let options = CallOptions { on_loss, ..CallOptions::default() };
            session.call_with("add", &arguments, options).await
        };
        let (_, last) = eventually(async { tokio::join!(join_all(crowd), last) }).await;
        match on_loss {
            OnLoss::Recover => assert_eq!((result_text(last).as_str(), server.connections()), ("2", 2)),
            OnLoss::Report => {
                let error = last.unwrap_err();
                assert!(matches!(error.kind, CallErrorKind::Connect(_)), "{error}");
                assert_eq!((error.outcome(), server.connections()), (Outcome::NotRun, 1));
            }
        }
    }
}
