//! Requests and notifications of servers.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::time::Instant;
use wharf_client::{
    BoxFuture, CallOptions, ClientCapabilities, Elicitation, ElicitationAnswer, Host, LogLevel, Notification, Refusal,
    Root,
};
use wharf_protocol::Json;
use wharf_testkit::{Script, Step, eventually};

use crate::{in_memory, json, none, result_text, seconds, settle, with_host, with_shared_host};

/// Answers everything; the user takes a day to think.
struct Obliging;

impl Host for Obliging {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities { elicitation: true, sampling: true, roots: true }
    }

    fn elicit(&self, request: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
        Box::pin(async move {
            tokio::time::sleep(seconds(50 * 60)).await;
            let asked = request.schema.map_or("a page", |_| "a form");
            ElicitationAnswer::Accept(Some(json(json!({"message": request.message, "asked": asked}))))
        })
    }

    fn sample(&self, request: Json) -> BoxFuture<'_, Result<Json, Refusal>> {
        Box::pin(async move {
            let refused = request.as_str().contains("secret");
            if refused { Err(Refusal("not that".into())) } else { Ok(json(json!({"role": "assistant"}))) }
        })
    }

    fn roots(&self) -> BoxFuture<'_, Vec<Root>> {
        Box::pin(async { vec![Root { uri: "file:///project".into(), name: None }] })
    }
}

fn asking(method: &str, params: serde_json::Value) -> Script {
    Script::good().any_tool("ask").on_call("ask", [Step::Ask(method.into(), params), Step::EchoAnswer])
}

async fn answer(method: &str, params: serde_json::Value) -> String {
    let (session, _server) = with_host(asking(method, params), Obliging);
    result_text(eventually(session.call("ask", &none())).await)
}

#[tokio::test(start_paused = true)]
async fn each_request_of_the_server_gets_the_hosts_answer() {
    let form = json!({"message": "Who?", "requestedSchema": {"type": "object"}});
    let expected = r#"{"action":"accept","content":{"asked":"a form","message":"Who?"}}"#;
    let answered: serde_json::Value = serde_json::from_str(&answer("elicitation/create", form).await).unwrap();
    assert_eq!(answered, serde_json::from_str::<serde_json::Value>(expected).unwrap());
    assert_eq!(answer("roots/list", json!({})).await, r#"{"roots":[{"uri":"file:///project"}]}"#);
    assert_eq!(answer("sampling/createMessage", json!({"messages": []})).await, r#"{"role":"assistant"}"#);
    let refused = answer("sampling/createMessage", json!({"messages": ["secret"]})).await;
    assert_eq!(refused, r#"{"code":-1,"message":"not that"}"#);
    let unclear = answer("elicitation/create", json!({})).await;
    assert_eq!(unclear, r#"{"code":-32602,"message":"has no `message`"}"#);
}

#[tokio::test(start_paused = true)]
async fn a_form_that_is_too_large_or_takes_endless_work_is_refused() {
    let long = answer("elicitation/create", json!({"message": "x".repeat(70_000)})).await;
    assert_eq!(long, r#"{"code":-32602,"message":"is larger than 65536 bytes"}"#);
    let doubling = |level: usize| {
        let next = json!({"$ref": format!("#/$defs/a{}", level + 1)});
        (format!("a{level}"), json!({"anyOf": [next, next]}))
    };
    let mut definitions: serde_json::Map<_, _> = (0..30).map(doubling).collect();
    definitions.insert("a30".to_owned(), json!({}));
    let schema = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/a0"}}, "$defs": definitions});
    let bomb = answer("elicitation/create", json!({"message": "?", "requestedSchema": schema})).await;
    assert!(bomb.contains("-32602") && bomb.contains("too much work"), "{bomb}");
}

#[tokio::test(start_paused = true)]
async fn a_host_gets_only_requests_that_it_supports() {
    let (session, server) = in_memory(asking("sampling/createMessage", json!({})));
    let refused = result_text(eventually(session.call("ask", &none())).await);
    assert_eq!(refused, r#"{"code":-32601,"message":"this client does not support the method"}"#);
    assert_eq!(server.log().last_params("initialize").unwrap()["capabilities"], json!({}));

    let (session, server) = with_host(Script::good(), Obliging);
    eventually(session.connect()).await.unwrap();
    let offered = server.log().last_params("initialize").unwrap();
    assert_eq!(offered["capabilities"], json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}));
}

#[tokio::test(start_paused = true)]
async fn a_ping_of_the_server_is_answered() {
    let (session, _server) = in_memory(asking("ping", json!({})));
    assert_eq!(result_text(eventually(session.call("ask", &none())).await), "{}");
}

#[tokio::test(start_paused = true)]
async fn deadlines_are_paused_while_the_host_answers() {
    // The user takes 50 minutes. The call has 10 seconds, which the answer does not extend.
    let form = json!({"message": "Sure?"});
    let script = Script::good().any_tool("quick").any_tool("lazy");
    let script = script
        .on_call("quick", [Step::Ask("elicitation/create".into(), form.clone()), Step::Text("ok".into())])
        .on_call("lazy", [Step::Ask("elicitation/create".into(), form), Step::Hang]);
    let (session, _server) = with_host(script, Obliging);
    let limited = || CallOptions { total: Some(seconds(10)), ..CallOptions::default() };
    assert_eq!(result_text(eventually(session.call_with("quick", &none(), limited())).await), "ok");
    let began = Instant::now();
    eventually(session.call_with("lazy", &none(), limited())).await.unwrap_err();
    assert_eq!(began.elapsed().as_secs(), 50 * 60 + 10);
}

#[tokio::test(start_paused = true)]
async fn a_pause_before_the_last_progress_does_not_extend_the_idle_deadline() {
    let ask = Step::Ask("elicitation/create".into(), json!({"message": "Sure?"}));
    let steps = [ask, Step::Progress(1.0, 2.0, String::new()), Step::Hang];
    let (session, _server) = with_host(Script::good().any_tool("lazy").on_call("lazy", steps), Obliging);
    let began = Instant::now();
    eventually(session.call("lazy", &none())).await.unwrap_err();
    assert_eq!(began.elapsed().as_secs(), (50 + 30) * 60);
}

#[tokio::test(start_paused = true)]
async fn a_panicking_host_answers_the_server_with_an_error() {
    struct Clumsy;
    impl Host for Clumsy {
        fn capabilities(&self) -> ClientCapabilities {
            ClientCapabilities { roots: true, ..ClientCapabilities::default() }
        }
        fn roots(&self) -> BoxFuture<'_, Vec<Root>> {
            Box::pin(async { panic!("no roots today") })
        }
    }
    let (session, _server) = with_host(asking("roots/list", json!({})), Clumsy);
    let answer = result_text(eventually(session.call("ask", &none())).await);
    assert_eq!(answer, r#"{"code":-32603,"message":"internal error of the client"}"#);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_server_cancels_is_aborted() {
    struct Watched(Arc<Mutex<Option<tokio::sync::oneshot::Sender<()>>>>);
    impl Host for Watched {
        fn capabilities(&self) -> ClientCapabilities {
            ClientCapabilities { elicitation: true, ..ClientCapabilities::default() }
        }
        fn elicit(&self, _request: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
            let asking = self.0.lock().unwrap().take();
            Box::pin(async move {
                std::future::pending::<()>().await;
                drop(asking);
                ElicitationAnswer::Decline
            })
        }
    }
    let ask = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}"#;
    let take_back = Step::Notify("notifications/cancelled".into(), json!({"requestId": "q"}));
    let script = Script::good()
        .any_tool("go")
        .on_call("go", [Step::Line(ask.into()), Step::Wait(10), take_back, Step::Text("ok".into())]);
    let (asking, ended) = tokio::sync::oneshot::channel();
    let (session, _server) = with_host(script, Watched(Arc::new(Mutex::new(Some(asking)))));
    let began = Instant::now();
    eventually(session.call("go", &none())).await.unwrap();
    assert!(eventually(ended).await.is_err(), "the question was answered");
    assert!(began.elapsed() < seconds(60), "only the answer's deadline ended it");
}

#[derive(Default)]
struct Listener(Mutex<Vec<String>>);

impl Host for Listener {
    fn notify(&self, notice: Notification) {
        self.0.lock().unwrap().push(match notice {
            Notification::Log { level, logger, data } => format!("{level:?} {} {data}", logger.unwrap_or_default()),
            other => format!("{other:?}"),
        });
    }
}

#[tokio::test(start_paused = true)]
async fn notifications_arrive_in_the_order_they_were_sent() {
    let mut steps: Vec<Step> = (0..500)
        .map(|n| Step::Notify("notifications/message".into(), json!({"level": "info", "logger": "l", "data": n})))
        .collect();
    for method in ["tools/list_changed", "prompts/list_changed", "resources/list_changed", "custom"] {
        steps.push(Step::Notify(format!("notifications/{method}"), json!({})));
    }
    steps.push(Step::Notify("notifications/resources/updated".into(), json!({"uri": "note://a"})));
    steps.push(Step::Text("ok".into()));
    let host = Arc::new(Listener::default());
    let (session, _server) = with_shared_host(Script::good().any_tool("talk").on_call("talk", steps), &host);
    eventually(session.call("talk", &none())).await.unwrap();
    settle().await;
    let received = std::mem::take(&mut *host.0.lock().unwrap());
    let logged: Vec<String> = (0..500).map(|n| format!("Some(Info) l {n}")).collect();
    assert_eq!(received[..500], logged);
    let others = [
        "ToolsChanged",
        "PromptsChanged",
        "ResourcesChanged",
        r#"Other { method: "notifications/custom", params: Some({}) }"#,
        r#"ResourceUpdated { uri: "note://a" }"#,
    ];
    assert_eq!(received[500..], others);
}

#[tokio::test(start_paused = true)]
async fn a_flood_drops_notifications_but_no_answers_and_reports_how_many() {
    struct Slow(Mutex<(u64, u64)>);
    impl Host for Slow {
        fn notify(&self, notice: Notification) {
            let mut counts = self.0.lock().unwrap();
            match notice {
                Notification::Lagged(lost) => counts.1 += lost,
                _ => counts.0 += 1,
            }
        }
    }
    // One burst that the reader sees completely before the host's task runs.
    let line = r#"{"jsonrpc":"2.0","method":"notifications/custom"}"#;
    let burst = format!("{line}\n").repeat(3_000);
    let steps = [Step::Bytes(burst.into_bytes()), Step::Text("still here".into())];
    let host = Arc::new(Slow(Mutex::default()));
    let (session, _server) = with_shared_host(Script::good().any_tool("burst").on_call("burst", steps), &host);
    assert_eq!(result_text(eventually(session.call("burst", &none())).await), "still here");
    settle().await;
    eventually(session.call("burst", &none())).await.unwrap();
    settle().await;
    let (received, lagged) = *host.0.lock().unwrap();
    let lost = session.health().lost_notices;
    assert_eq!(received + lost, 6_000);
    assert!(lost > 0 && lagged > 0 && lagged <= lost, "reported {lagged} of {lost}");
}

#[tokio::test(start_paused = true)]
async fn the_log_level_is_sent_to_the_server() {
    let (session, server) = in_memory(Script::good());
    eventually(session.set_log_level(LogLevel::Warning)).await.unwrap();
    assert_eq!(server.log().last_params("logging/setLevel"), Some(json!({"level": "warning"})));
}

/// A server of 2025-11-25 whose tool works only as a task.
fn with_task(after: Script) -> Script {
    let task = json!({"taskId": "t1", "status": "working", "pollInterval": 60_000});
    with_answer(after, Step::Result(json!({ "task": task })))
}

/// The same server with another answer to a call.
fn with_answer(after: Script, answer: Step) -> Script {
    let capabilities = json!({"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}});
    let server = json!({"name": "tasks", "version": "1"});
    let initialized = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": server});
    let tool = json!({"name": "work", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}});
    after.tool(tool).on("initialize", [Step::Result(initialized)]).on_call("work", [answer])
}

#[tokio::test(start_paused = true)]
async fn a_server_may_answer_at_once_although_a_task_was_requested() {
    let (session, server) = with_host(with_answer(Script::good(), Step::Text("done".into())), Obliging);
    eventually(session.list_tools()).await.unwrap();
    assert_eq!(result_text(eventually(session.call("work", &none())).await), "done");
    assert_eq!(server.log().last_params("tools/call").unwrap()["task"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn the_list_before_a_task_call_takes_its_time_from_the_call() {
    let script = with_task(Script::good()).on("tools/list", [Step::Wait(600_000)]);
    let (session, server) = with_host(script, Obliging);
    eventually(session.connect()).await.unwrap();
    let began = tokio::time::Instant::now();
    let options = CallOptions { total: Some(seconds(2)), ..CallOptions::default() };
    let error = eventually(session.call_with("work", &none(), options)).await.unwrap_err();
    assert_eq!(error.outcome(), wharf_client::Outcome::NotRun, "{error}");
    assert!(began.elapsed() < seconds(3), "{:?}", began.elapsed());
    assert_eq!(server.log().count("tools/call"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_task_continues_after_its_input_for_as_long_as_one_without() {
    let task = |status: &str| Step::Result(json!({"taskId": "t1", "status": status, "pollInterval": 1_000}));
    let script = with_task(Script::good())
        .once("tasks/get", [task("input_required")])
        .times(5, "tasks/get", [task("working")])
        .on("tasks/get", [task("completed")])
        .once("tasks/result", [Step::Wait(60 * 60 * 1_000)])
        .on("tasks/result", [Step::Text("done".into())]);
    let (session, server) = with_host(script, Obliging);
    eventually(session.list_tools()).await.unwrap();
    let options = CallOptions { idle: Some(seconds(60)), ..CallOptions::default() };
    assert_eq!(result_text(eventually(session.call_with("work", &none(), options)).await), "done");
    assert_eq!(server.log().count("tasks/cancel"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_task_of_the_legacy_era_is_canceled() {
    let (session, server) = with_host(with_task(Script::good()), Obliging);
    eventually(session.list_tools()).await.unwrap();
    let arguments = none();
    let dropped = tokio::time::timeout(seconds(5), session.call("work", &arguments)).await;
    assert!(dropped.is_err());
    settle().await;
    assert_eq!(server.log().last_params("tools/call").unwrap()["task"], json!({}));
    assert_eq!(server.log().last_params("tasks/cancel").unwrap()["taskId"], "t1");
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_failed_task_is_the_error_of_the_call() {
    let failed = json!({"taskId": "t1", "status": "failed"});
    let script = with_task(Script::good())
        .on("tasks/get", [Step::Result(failed)])
        .on("tasks/result", [Step::Error(-32603, "no sources".into())]);
    let (session, server) = with_host(script, Obliging);
    eventually(session.list_tools()).await.unwrap();
    let error = eventually(session.call("work", &none())).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Some(-32603), wharf_client::Outcome::Answered));
    assert_eq!(server.log().count("tasks/cancel"), 0);
}
