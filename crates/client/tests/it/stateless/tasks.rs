//! Calls that became tasks, and tasks that fail.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use wharf_client::{CallErrorKind, CallOptions, Outcome, Session};
use wharf_testkit::{HttpScripted, Script, Scripted, Step, eventually};

use super::{Obliging, http, piped, piped_with};
use crate::{none, result_text, seconds, settle};

fn task(status: &str, more: &Value) -> Step {
    let mut task = json!({"resultType": "complete", "taskId": "t1", "status": status, "ttlMs": null});
    for (key, value) in more.as_object().unwrap() {
        task[key] = value.clone();
    }
    Step::Result(task)
}

fn created(more: &Value) -> Step {
    let mut more = more.clone();
    more["resultType"] = "task".into();
    task("working", &more)
}

fn done() -> Step {
    task("completed", &json!({"result": {"content": [{"type": "text", "text": "done"}]}}))
}

/// A tool that becomes a task, which is then polled.
fn tasking(first: Step, polled: impl Into<Vec<Step>>) -> Script {
    Script::modern().any_tool("tool").on_call("tool", [first]).on("tasks/get", polled)
}

async fn failure(script: Script) -> (CallErrorKind, Outcome, Scripted) {
    let (session, server) = piped(script.on("tasks/cancel", [Step::Result(json!({}))]));
    let error = eventually(session.call("tool", &none())).await.unwrap_err();
    // By now everything else was sent.
    settle().await;
    drop(session);
    (error.kind.clone(), error.outcome(), server)
}

#[tokio::test(start_paused = true)]
async fn an_invalid_task_fails_its_call() {
    let kinds = [
        tasking(Step::Result(json!({"resultType": "task", "status": "working"})), [done()]),
        tasking(Step::Result(json!({"resultType": "task", "taskId": 7, "status": "working"})), [done()]),
        tasking(Step::Result(json!({"resultType": "task", "taskId": "t1"})), [done()]),
        tasking(created(&json!({})), [task("dreaming", &json!({}))]),
        tasking(created(&json!({})), [task("completed", &json!({}))]),
        tasking(created(&json!({})), [Step::Result(json!({}))]),
        tasking(created(&json!({})), [Step::Result(json!(null))]),
        tasking(created(&json!({})), [task("input_required", &json!({"inputRequests": "please"}))]),
    ];
    for script in kinds {
        let what = format!("{:?}", script.rules);
        let (kind, outcome, server) = failure(script).await;
        assert!(matches!(kind, CallErrorKind::Malformed(_)), "{what}: {kind}");
        assert_eq!(outcome, Outcome::Answered, "{what}");
        assert!(server.log().count("tasks/get") <= 1, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_poll_interval_of_a_server_is_clamped() {
    // A requested poll interval, and the number of polls in ten minutes.
    let intervals = [
        (json!({}), 480..=601),
        (json!({"pollIntervalMs": 0}), 9_000..=12_001),
        (json!({"pollIntervalMs": -5}), 480..=601),
        (json!({"pollIntervalMs": "soon"}), 480..=601),
        (json!({"pollIntervalMs": null}), 480..=601),
        (json!({"pollIntervalMs": 2500.5}), 190..=241),
        (json!({"pollIntervalMs": 1e300}), 8..=11),
        (json!({"pollIntervalMs": u64::MAX}), 8..=11),
    ];
    for (interval, expected) in intervals {
        let (session, server) = piped(tasking(created(&interval), [task("working", &interval)]));
        let options = CallOptions { total: Some(seconds(600)), ..CallOptions::default() };
        let error = eventually(session.call_with("tool", &none(), options)).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Timeout { .. }), "{error}");
        let polls = server.log().count("tasks/get");
        assert!(expected.contains(&polls), "{interval}: {polls}");
        // The task is canceled on the server.
        settle().await;
        assert_eq!(server.log().count("tasks/cancel"), 1, "{interval}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_is_polled_for_a_day_at_most() {
    let interval = json!({"pollIntervalMs": 60_000});
    let (session, server) = piped(tasking(created(&interval), [task("working", &interval)]));
    let began = Instant::now();
    let error = eventually(session.call("tool", &none())).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Timeout { .. }), "{error}");
    assert!((seconds(86_400)..seconds(86_500)).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert!(server.log().count("tasks/get") <= 1_441);
}

#[tokio::test(start_paused = true)]
async fn a_task_can_be_refused_fail_or_be_canceled() {
    let refused = tasking(created(&json!({})), [Step::Error(-32602, "unknown task: t1".into())]);
    let (kind, _, server) = failure(refused).await;
    assert!(matches!(&kind, CallErrorKind::Server { code: -32602, .. }), "{kind}");
    assert_eq!(server.log().count("tasks/get"), 1);

    let broke = json!({"error": {"code": -32603, "message": "it broke", "data": {"at": 3}}});
    let (kind, outcome, server) = failure(tasking(created(&json!({})), [task("failed", &broke)])).await;
    assert!(matches!(&kind, CallErrorKind::Server { code: -32603, message, .. } if message == "it broke"), "{kind}");
    assert_eq!((outcome, server.log().count("tasks/cancel")), (Outcome::Answered, 0));
    for odd in [json!({}), json!({"error": "it broke"}), json!({"error": {"code": "x"}})] {
        let (kind, _, _) = failure(tasking(created(&json!({})), [task("failed", &odd)])).await;
        assert!(matches!(kind, CallErrorKind::Server { .. }), "{kind}");
    }

    let (kind, outcome, server) =
        failure(tasking(created(&json!({})), [task("cancelled", &json!({"statusMessage": "shutting down"}))])).await;
    assert!(matches!(&kind, CallErrorKind::TaskCancelled(message) if message == "shutting down"), "{kind}");
    assert_eq!((outcome, server.log().count("tasks/cancel")), (Outcome::Unknown, 0));
}

#[tokio::test(start_paused = true)]
async fn a_task_outlives_the_connection_that_created_it() {
    let script = Script::modern().any_tool("tool").on_call("tool", [created(&json!({}))]);
    let script = script.times(2, "tasks/get", [Step::HangUp]).on("tasks/get", [done()]);
    let (session, server) = piped(script);
    assert_eq!(result_text(eventually(session.call("tool", &none())).await), "done");
    assert_eq!((server.connections(), server.log().count("tools/call")), (3, 1));

    // But not forever.
    let (session, server) = piped(tasking(created(&json!({})), [Step::HangUp]));
    let error = eventually(session.call("tool", &none())).await.unwrap_err();
    assert_eq!((error.outcome(), server.log().count("tools/call")), (Outcome::Unknown, 1), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_tasks_input_request_is_answered_once_however_often_it_is_repeated() {
    let question = json!({"method": "elicitation/create", "params": {"message": "who?"}});
    let needs = task("input_required", &json!({"inputRequests": {"name": question}}));
    let script = Script::modern().any_tool("tool").on_call("tool", [created(&json!({}))]);
    let script = script.times(5, "tasks/get", [needs]).on("tasks/get", [done()]);
    let host = Obliging::default();
    let (session, server) = piped_with(script.on("tasks/update", [Step::Result(json!({}))]), host.clone());
    assert_eq!(result_text(eventually(session.call("tool", &none())).await), "done");
    assert_eq!((host.received(), server.log().count("tasks/update")), (vec!["who?".to_owned()], 1));
    let answer = server.log().last_params("tasks/update").unwrap();
    assert_eq!((&answer["taskId"], &answer["inputResponses"]), (&json!("t1"), &json!({"name": {"action": "accept"}})));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_task_is_canceled_once() {
    let server = HttpScripted::new(tasking(created(&json!({})), [task("working", &json!({}))]));
    let session: Session = http(&server);
    assert!(tokio::time::timeout(seconds(5), session.call("tool", &none())).await.is_err());
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!((server.log().count("tasks/cancel"), server.log().count("notifications/cancelled")), (1, 0));
    let cancelled = server.requests().into_iter().find(|seen| seen.body.contains("tasks/cancel")).unwrap();
    assert_eq!(cancelled.headers["mcp-method"], "tasks/cancel");
    assert_eq!(cancelled.headers["mcp-name"], "t1");
}
