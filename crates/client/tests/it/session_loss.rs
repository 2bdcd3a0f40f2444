//! Lost sessions, in every form in which servers report them.

use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use serde_json::json;
use wharf_client::{CallErrorKind, CallOptions, OnLoss, Outcome, Phase, Session, SessionStatus};
use wharf_testkit::{GetBehavior, HttpScripted, ResponseFormat, Script, Step, UnknownSession, eventually, soon};

use crate::remote::{http, sse};
use crate::{json, legacy, none, result_text, settle};

fn add(a: i64) -> wharf_protocol::Json {
    json(json!({"a": a, "b": 1}))
}

fn ways() -> Vec<UnknownSession> {
    let rpc = |code: i64, message: &str| UnknownSession::OkRpc(code, message.to_owned());
    let with_id = |status, code: i64, message: &str| {
        UnknownSession::Custom(
            status,
            format!(r#"{{"jsonrpc":"2.0","id":{{id}},"error":{{"code":{code},"message":"{message}"}}}}"#),
        )
    };
    vec![
        UnknownSession::NotFound,
        UnknownSession::NotFoundRpc,
        UnknownSession::NotFound,
        rpc(-32000, "Session not found"),
        rpc(32600, "Session terminated"),
        rpc(-32600, "session expired"),
        rpc(-32001, "Session not found"),
        with_id(400, -32600, "Session not found"),
        UnknownSession::Custom(404, "<html>gone</html>".into()),
        UnknownSession::Custom(400, "Invalid session id".into()),
        UnknownSession::Custom(
            404,
            r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}"#.into(),
        ),
        UnknownSession::Custom(
            400,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}"#
                .into(),
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn any_form_of_session_loss_is_recovered_on_a_new_session() {
    for way in ways() {
        for answers in [ResponseFormat::Json, ResponseFormat::Sse] {
            let server =
                HttpScripted::new(Script::good()).on_unknown_session(way.clone()).with_response_format(answers);
            let (session, _) = http(&server);
            eventually(session.connect()).await.unwrap();
            server.wipe();
            assert_eq!(result_text(eventually(session.call("add", &add(1))).await), "2", "{way:?}");
            assert_eq!(server.log().count("initialize"), 2, "{way:?}");
            assert_eq!(server.log().count("tools/call"), 2, "{way:?}");
            server.wipe();
            eventually(session.notify("notifications/own", &none())).await.unwrap();
            assert_eq!(server.log().count("initialize"), 3, "{way:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_method_recovers_from_session_loss() {
    let server = HttpScripted::new(
        Script::good()
            .on("prompts/get", [Step::Result(json!({"messages": []}))])
            .on("resources/read", [Step::Result(json!({"contents": []}))]),
    );
    let (session, _) = http(&server);
    eventually(session.connect()).await.unwrap();
    let mut sessions = 1;
    let mut lost = |did: &str, server: &HttpScripted| {
        sessions += 1;
        assert_eq!(server.log().count("initialize"), sessions, "{did}");
        server.wipe();
    };
    server.wipe();
    assert_eq!(eventually(session.list_tools()).await.unwrap().items.len(), 2);
    lost("list_tools", &server);
    eventually(session.list_prompts()).await.unwrap();
    lost("list_prompts", &server);
    eventually(session.list_resources()).await.unwrap();
    lost("list_resources", &server);
    eventually(session.list_resource_templates()).await.unwrap();
    lost("list_resource_templates", &server);
    eventually(session.get_prompt("p", &none())).await.unwrap();
    lost("get_prompt", &server);
    eventually(session.read_resource("r://x")).await.unwrap();
    lost("read_resource", &server);
    eventually(session.ping()).await.unwrap();
    lost("ping", &server);
    eventually(session.set_log_level(wharf_client::LogLevel::Info)).await.unwrap();
    lost("set_log_level", &server);
    eventually(session.notify("notifications/own", &none())).await.unwrap();
    assert_eq!(server.log().count("notifications/own"), 2);
    lost("notify", &server);
    assert_eq!(result_text(eventually(session.call("add", &add(1))).await), "2");
    lost("call", &server);
}

#[tokio::test(start_paused = true)]
async fn other_errors_are_returned_to_the_caller() {
    let errors = [(-32602, "Session not found"), (-32000, "disk is full"), (-32603, "session expired"), (-32601, "no")];
    for (code, message) in errors {
        let server = HttpScripted::new(Script::good().on("tools/call", [Step::Error(code, message.into())]));
        let (session, _) = http(&server);
        let error = eventually(session.call("add", &none())).await.unwrap_err();
        assert_eq!((error.code(), error.outcome()), (Some(code), Outcome::Answered));
        assert_eq!((server.log().count("initialize"), server.log().count("tools/call")), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_404_without_a_session_is_not_a_session_loss() {
    let gone = Step::Http { status: 404, headers: Vec::new(), body: "nothing here".into() };
    let server = HttpScripted::new(Script::good().on("tools/call", [gone])).without_sessions();
    let (session, _) = http(&server);
    let error = eventually(session.call("add", &none())).await.unwrap_err();
    assert_eq!(error.to_string(), "remote: the server answered with HTTP 404: nothing here");
    assert_eq!((server.log().count("initialize"), server.log().count("tools/call")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn sixty_four_callers_of_a_lost_session_share_one_new_session() {
    for stale in [UnknownSession::NotFound, UnknownSession::NotFound] {
        let server = HttpScripted::new(Script::good()).on_unknown_session(stale);
        let (session, transport) = http(&server);
        let everybody = |session: &Session| {
            let session = session.clone();
            join_all((0..64).map(move |n| {
                let session = session.clone();
                async move { result_text(session.call("add", &add(n)).await) }
            }))
        };
        eventually(everybody(&session)).await;
        let connections = server.connections();
        for round in 2..5 {
            server.wipe();
            let sums = eventually(everybody(&session)).await;
            assert_eq!(sums, (1..=64).map(|sum| sum.to_string()).collect::<Vec<_>>());
            assert_eq!(server.log().count("initialize"), round);
        }
        assert_eq!((server.connections(), transport.clients_made()), (connections, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn the_cache_is_cleared_with_a_lost_session() {
    // The tool's schema forbids this call until the session is lost; then the server decides.
    let strict = json!({"name": "take", "inputSchema": {"type": "object", "required": ["old"]}});
    let server = HttpScripted::new(Script::default().tool(strict).on_call("take", [Step::Text("taken".into())]));
    let (session, _) = http(&server);
    eventually(session.list_tools()).await.unwrap();
    assert!(result_text(eventually(session.call("take", &none())).await).contains("do not match its schema"));
    server.wipe();
    eventually(session.ping()).await.unwrap();
    assert_eq!(result_text(eventually(session.call("take", &none())).await), "taken");
}

#[tokio::test(start_paused = true)]
async fn a_new_session_reopens_the_stream_on_pooled_connections() {
    let server = HttpScripted::new(Script::good()).with_get(GetBehavior::Stream);
    let (session, _) = http(&server);
    assert_eq!(result_text(eventually(session.call("add", &add(1))).await), "2");
    settle().await;
    let connections = server.connections();
    let before = server.requests().len();
    server.wipe();
    settle().await;
    assert_eq!(result_text(eventually(session.call("add", &add(2))).await), "3");
    settle().await;
    let mut methods: Vec<_> = server.requests().split_off(before).into_iter().map(|seen| seen.method).collect();
    methods.sort();
    assert_eq!(methods, ["GET", "POST", "POST", "POST", "POST"]);
    assert_eq!((server.connections(), server.open_streams()), (connections, 1));
}

#[tokio::test(start_paused = true)]
async fn the_lists_of_a_new_session_are_its_own() {
    let named = |key: &str, name: &str| json!({ key: [{"name": name, "uri": format!("r://{name}"), "inputSchema": {"type": "object"}}] });
    let mut script = Script::good();
    for (method, key) in [("tools/list", "tools"), ("resources/list", "resources"), ("prompts/list", "prompts")] {
        script = script.once(method, [Step::Result(named(key, "old"))]).on(method, [Step::Result(named(key, "new"))]);
    }
    let server = HttpScripted::new(script);
    let (session, _) = http(&server);
    let listed = async || {
        let tools = session.list_tools().await.unwrap().items[0].name.to_string();
        let resources = session.list_resources().await.unwrap().items[0].name.clone();
        [tools, resources, session.list_prompts().await.unwrap().items[0].name.clone()]
    };
    assert_eq!(eventually(listed()).await, ["old"; 3]);
    server.wipe();
    assert_eq!(eventually(listed()).await, ["new"; 3]);
    // A removed tool must be refused by the server, and not by the client's cache.
    assert_eq!(result_text(eventually(session.call("old", &none())).await), "failed: Unknown tool");
}

#[tokio::test(start_paused = true)]
async fn a_failed_handshake_does_not_break_the_session() {
    let busy = Step::Http { status: 403, headers: Vec::new(), body: "not now".into() };
    let server = HttpScripted::new(Script::good().once("initialize", [Step::Normally]).once("initialize", [busy]));
    let (session, transport) = http(&server);
    eventually(session.connect()).await.unwrap();
    server.wipe();
    let error = eventually(session.call("add", &add(1))).await.unwrap_err();
    assert_eq!(
        (error.outcome(), error.to_string().as_str()),
        (Outcome::NotRun, "remote: the server answered with HTTP 403: not now")
    );
    assert_eq!(result_text(eventually(session.call("add", &add(2))).await), "3");
    assert_eq!((server.log().count("initialize"), transport.clients_made()), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn a_starting_server_is_retried_and_a_refusing_one_is_not() {
    let status = |status| Step::Http { status, headers: Vec::new(), body: String::new() };
    for (step, tries) in [(status(503), 3), (Step::Reset, 3), (status(401), 1), (status(404), 1)] {
        let server = HttpScripted::new(Script::good().on("initialize", [step]));
        let (session, _) = http(&server);
        eventually(session.connect()).await.unwrap_err();
        assert_eq!(server.log().count("initialize"), tries);
    }
    let starting = Script::good().once("initialize", [status(502)]).once("initialize", [Step::Reset]);
    let server = HttpScripted::new(starting);
    let (session, _) = http(&server);
    assert_eq!(result_text(eventually(session.call("add", &add(1))).await), "2");
    assert_eq!((server.log().count("initialize"), server.log().count("tools/call")), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn a_list_is_retried_after_transient_errors() {
    let status = |status| Step::Http { status, headers: Vec::new(), body: String::new() };
    let script = Script::good().once("tools/list", [status(500)]).once("tools/list", [Step::Reset]);
    let server = HttpScripted::new(script);
    let (session, _) = http(&server);
    assert_eq!(eventually(session.list_tools()).await.unwrap().items.len(), 2);
    assert_eq!(server.log().count("tools/list"), 3);

    let server = HttpScripted::new(Script::good().on("tools/list", [status(500)]));
    let (session, _) = http(&server);
    eventually(session.list_tools()).await.unwrap_err();
    assert_eq!(server.log().count("tools/list"), 3);
    let server = HttpScripted::new(Script::good().on("tools/list", [Step::Error(-32603, "broken".into())]));
    let (session, _) = http(&server);
    eventually(session.list_tools()).await.unwrap_err();
    assert_eq!(server.log().count("tools/list"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_lost_during_the_handshake_is_started_again() {
    let gone = || [Step::Http { status: 404, headers: Vec::new(), body: String::new() }];
    let server = HttpScripted::new(Script::good().once("notifications/initialized", gone()));
    let (session, _) = http(&server);
    assert_eq!(result_text(eventually(session.call("add", &add(1))).await), "2");
    assert_eq!((server.log().count("initialize"), server.log().count("tools/call")), (2, 1));

    let server = HttpScripted::new(Script::good().on("notifications/initialized", gone()));
    let (session, _) = http(&server);
    let error = eventually(session.connect()).await.unwrap_err();
    assert_eq!(error.to_string(), "remote: the server lost the session (HTTP 404) before it was ready");
    // Twice in each of three tries.
    assert_eq!(server.log().count("initialize"), 6);
}

#[tokio::test(start_paused = true)]
async fn a_call_being_answered_survives_the_loss_of_its_session() {
    let slow = [Step::Progress(1.0, 2.0, "half".into()), Step::Wait(5000), Step::Text("done".into())];
    let server = HttpScripted::new(Script::good().any_tool("slow").on_call("slow", slow));
    let (session, _) = http(&server);
    eventually(session.connect()).await.unwrap();
    let one = session.clone();
    let other = session.clone();
    let before = async { result_text(one.call("slow", &none()).await) };
    let after = async {
        tokio::time::sleep(crate::seconds(1)).await;
        server.wipe_silently();
        result_text(other.call("add", &add(1)).await)
    };
    assert_eq!(Box::pin(eventually(async { tokio::join!(before, after) })).await, ("done".into(), "2".into()));
    assert_eq!((server.log().count("initialize"), server.log().count("tools/call")), (2, 3));
}

#[tokio::test(start_paused = true)]
async fn closing_also_fails_calls_of_lost_sessions() {
    let slow = [Step::Progress(1.0, 2.0, "half".into()), Step::Hang];
    let server = HttpScripted::new(Script::good().any_tool("slow").on_call("slow", slow));
    let (session, _) = http(&server);
    eventually(session.connect()).await.unwrap();
    let before = async { session.call("slow", &none()).await.unwrap_err() };
    let after = async {
        settle().await;
        server.wipe_silently();
        session.call("add", &add(1)).await.unwrap();
        session.close().await;
    };
    let began = tokio::time::Instant::now();
    let (error, ()) = Box::pin(eventually(async { tokio::join!(before, after) })).await;
    assert!(matches!(error.kind, CallErrorKind::Closed), "{error}");
    assert!(began.elapsed() < crate::seconds(1));
}

#[tokio::test(start_paused = true)]
async fn a_session_error_after_progress_is_not_a_session_loss() {
    let steps = [Step::Progress(1.0, 2.0, "half".into()), Step::Error(-32000, "Session not found".into())];
    let server = HttpScripted::new(Script::good().any_tool("slow").on_call("slow", steps));
    let (session, _) = http(&server);
    eventually(session.connect()).await.unwrap();
    let error = eventually(session.call("slow", &none())).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Some(-32000), Outcome::Answered), "{error}");
    assert_eq!(server.log().count("tools/call"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_session_repeats_only_the_handshake() {
    let server = HttpScripted::new(Script::good());
    let (session, _) = http(&server);
    let history = Arc::new(Mutex::new(Vec::new()));
    let mut status = session.status();
    let seen = Arc::clone(&history);
    let watching = async move {
        loop {
            let state = match &*status.borrow_and_update() {
                SessionStatus::Idle => "created",
                SessionStatus::Connecting(Phase::Transport) => "client initializing",
                SessionStatus::Connecting(Phase::Handshake) => "session initializing",
                SessionStatus::Connected(_) => "active",
                SessionStatus::Failed(_) => "failed",
                SessionStatus::Closed => "closed",
            };
            seen.lock().unwrap().push(state);
            if status.changed().await.is_err() {
                return;
            }
        }
    };
    let doing = async {
        settle().await;
        assert_eq!(result_text(session.call("add", &add(1)).await), "2");
        settle().await;
        server.wipe();
        assert_eq!(result_text(session.call("add", &add(2)).await), "3");
        settle().await;
        session.close().await;
        settle().await;
    };
    let mut watcher = tokio::task::JoinSet::new();
    watcher.spawn(watching);
    eventually(doing).await;
    assert_eq!(
        *history.lock().unwrap(),
        [
            "created",
            "client initializing",
            "session initializing",
            "active",
            "session initializing",
            "active",
            "closed"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_explicit_handshake_starts_a_new_session_with_its_own_stream() {
    let server = HttpScripted::new(Script::good()).with_get(GetBehavior::Stream);
    let (session, transport) = http(&server);
    eventually(session.connect()).await.unwrap();
    settle().await;
    eventually(session.initialize()).await.unwrap();
    settle().await;
    assert_eq!((session.session_id().as_deref(), transport.clients_made()), (Some("session-2"), 1));
    assert_eq!(server.open_streams(), 1);
    let streams: Vec<_> = server
        .requests()
        .iter()
        .filter(|seen| seen.method == "GET")
        .map(|seen| seen.headers["mcp-session-id"].clone())
        .collect();
    assert_eq!(streams, ["session-1", "session-2"]);
}

#[tokio::test(start_paused = true)]
async fn an_sse_session_whose_posts_report_a_loss_is_replaced() {
    let server = HttpScripted::new(Script::good());
    let session = sse(&server);
    assert_eq!(result_text(eventually(session.call("add", &add(1))).await), "2");
    server.wipe_silently();
    assert_eq!(result_text(eventually(session.call("add", &add(2))).await), "3");
    assert_eq!((server.log().count("initialize"), server.log().count("tools/call")), (2, 3));
}

#[tokio::test]
async fn a_restarted_server_is_reconnected() {
    let server = HttpScripted::new(Script::good()).with_get(GetBehavior::Stream);
    let listening = server.listen().await;
    let transport = wharf_client::Http::new(&listening.url(), wharf_client::RemoteOptions::default()).unwrap();
    let session = Session::new("remote".parse().unwrap(), transport, wharf_client::NoHost, legacy());
    assert_eq!(result_text(soon(session.call("add", &add(1))).await), "2");
    let address = listening.address();
    listening.close().await;
    let error = soon(session.call("add", &add(2))).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Connect(_)), "{error}");
    assert!(error.to_string().contains("cannot be reached"), "{error}");
    server.wipe();
    let _listening = server.listen_on(address).await.unwrap();
    assert_eq!(result_text(soon(session.call("add", &add(3))).await), "4");
    assert_eq!(server.log().count("initialize"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_caller_can_get_the_loss_reported_instead_of_a_retry() {
    for way in ways() {
        let server = HttpScripted::new(Script::good()).on_unknown_session(way.clone());
        let (session, _) = http(&server);
        eventually(session.connect()).await.unwrap();
        server.wipe();
        let report = || CallOptions { on_loss: OnLoss::Report, ..CallOptions::default() };
        let error = eventually(session.call_with("add", &add(1), report())).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::SessionLost { .. }), "{way:?}: {error}");
        assert_eq!(error.outcome(), Outcome::NotRun);
        assert_eq!((server.log().count("initialize"), server.log().count("tools/call")), (1, 1), "{way:?}");
        // The session is marked as lost nevertheless.
        assert_eq!((session.epoch(), session.is_connected()), (0, false));
        assert_eq!(result_text(eventually(session.call_with("add", &add(1), report())).await), "2");
        assert_eq!((server.log().count("initialize"), server.log().count("tools/call")), (2, 2), "{way:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_new_session_has_another_epoch_and_a_call_can_require_one() {
    let server = HttpScripted::new(Script::good());
    let (session, _) = http(&server);
    assert_eq!(session.epoch(), 0);
    eventually(session.connect()).await.unwrap();
    let first = session.epoch();
    let status = session.status();
    let published = || match &*status.borrow() {
        SessionStatus::Connected(info) => info.epoch,
        other => panic!("{other:?}"),
    };
    assert!(first > 0 && published() == first);
    let held = |to| CallOptions { epoch: Some(to), ..CallOptions::default() };
    assert_eq!(result_text(eventually(session.call_with("add", &add(1), held(first))).await), "2");
    server.wipe();
    // No other session is used or created for it: its tools may differ, and the caller may not want it.
    let error = eventually(session.call_with("add", &add(1), held(first))).await.unwrap_err();
    assert_eq!(
        (error.outcome(), error.to_string().as_str()),
        (Outcome::NotRun, "remote: a new session has replaced the one the call was meant for; the call did not run")
    );
    assert_eq!(session.epoch(), 0);
    eventually(session.connect()).await.unwrap();
    let second = session.epoch();
    assert!(second > first && published() == second);
    let calls = server.log().count("tools/call");
    assert_eq!(result_text(eventually(session.call_with("add", &add(1), held(second))).await), "2");
    assert_eq!(server.log().count("tools/call"), calls + 1);
}
