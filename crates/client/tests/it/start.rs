//! Connecting, closing and reconnecting.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::Instant;
use wharf_client::{CallOptions, ConnectErrorKind, InProcess, NoHost, OpenError, Session, SessionStatus};
use wharf_testkit::{Script, Scripted, Step, eventually};

use crate::{in_memory, json, legacy, none, result_text, seconds, settle};

fn state(session: &Session) -> String {
    match &*session.status().borrow() {
        SessionStatus::Idle => "idle".into(),
        SessionStatus::Connecting(_) => "connecting".into(),
        SessionStatus::Connected(info) => format!("connected to {} {}", info.name, info.revision),
        SessionStatus::Failed(error) => format!("failed: {}", error.kind),
        SessionStatus::Closed => "closed".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_happens_before_the_first_use() {
    let transport = || async { Err(OpenError::Other("unreachable".into())) };
    let session = Session::new("lazy".parse().unwrap(), transport, NoHost, legacy());
    settle().await;
    assert_eq!((state(&session).as_str(), session.is_connected()), ("idle", false));
    assert_eq!(result_text(eventually(session.call("add", &none())).await), "lazy: unreachable");
    assert_eq!(state(&session), "failed: unreachable");
}

#[tokio::test(start_paused = true)]
async fn fifty_concurrent_first_calls_share_one_connection_and_handshake() {
    let (session, server) = in_memory(Script::good().once("initialize", [Step::Wait(300), Step::Normally]));
    let calls = (0..50).map(|n| {
        let session = session.clone();
        async move { result_text(session.call("add", &json(json!({"a": n, "b": 1}))).await) }
    });
    let sums = eventually(join_all(calls)).await;
    assert_eq!(sums, (1..=50).map(|sum| sum.to_string()).collect::<Vec<_>>());
    assert_eq!(server.connections(), 1);
    assert_eq!(server.log().count("initialize"), 1);
    assert_eq!(server.log().methods()[..2], ["initialize", "notifications/initialized"]);
    assert_eq!(state(&session), "connected to scripted 2025-11-25");
}

#[tokio::test(start_paused = true)]
async fn fifty_concurrent_callers_of_a_dead_server_share_one_failure() {
    let attempts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&attempts);
    let transport = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Err(OpenError::Other("no".into())) }
    };
    let session = Session::new("dead".parse().unwrap(), transport, NoHost, legacy());
    let answers = eventually(join_all((0..50).map(|_| session.ping()))).await;
    assert!(answers.iter().all(Result::is_err));
    assert_eq!(attempts.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_closed_session_can_be_used_again() {
    let (session, server) = in_memory(Script::good());
    eventually(session.ping()).await.unwrap();
    assert!(session.is_connected());
    eventually(session.close()).await;
    assert_eq!((state(&session).as_str(), session.is_connected()), ("closed", false));
    assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 2})))).await), "3");
    assert_eq!((server.connections(), session.health().connections), (2, 2));
    assert_eq!(server.log().count("initialize"), 2);
}

#[tokio::test(start_paused = true)]
async fn closing_fails_calls_and_handshakes_in_flight() {
    let (session, _server) = in_memory(Script::good().any_tool("slow").on_call("slow", [Step::Hang]));
    let nothing = none();
    let (call, ()) = eventually(async {
        tokio::join!(session.call("slow", &nothing), async {
            settle().await;
            session.close().await;
        })
    })
    .await;
    let expected = "scripted: the session was closed before the response arrived; whether the call ran is unknown";
    assert_eq!(result_text(call), expected);

    let (session, _server) = in_memory(Script::good().on("initialize", [Step::Hang]));
    let (ping, ()) = eventually(async {
        tokio::join!(session.ping(), async {
            settle().await;
            session.close().await;
        })
    })
    .await;
    assert_eq!(ping.unwrap_err().to_string(), "scripted: the session was closed; nothing was sent");
    assert_eq!(state(&session), "closed");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_stops_waiting_does_not_abort_connecting_for_others() {
    let (session, server) = in_memory(Script::good().once("initialize", [Step::Wait(20_000), Step::Normally]));
    let impatient = tokio::time::timeout(seconds(5), session.ping());
    assert!(impatient.await.is_err());
    eventually(session.ping()).await.unwrap();
    assert_eq!((server.connections(), server.log().count("initialize")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn connecting_times_out_after_thirty_seconds() {
    let (session, _server) = in_memory(Script::good().on("initialize", [Step::Hang]));
    let began = Instant::now();
    let error = eventually(session.connect()).await.unwrap_err();
    assert_eq!(began.elapsed().as_secs(), 30);
    assert_eq!(error.to_string(), "scripted: the server was not ready within 30 s");
}

#[tokio::test(start_paused = true)]
async fn unsupported_revisions_are_refused_and_supported_ones_accepted() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let script = Script { revision: Some(revision.into()), ..Script::good() };
        assert_eq!(eventually(in_memory(script).0.connect()).await.unwrap().revision, revision);
    }
    let script = Script { revision: Some("1999-01-01".into()), ..Script::good() };
    let error = eventually(in_memory(script).0.connect()).await.unwrap_err();
    assert!(
        matches!(&error.kind, ConnectErrorKind::Refused(refusal) if refusal.reason.contains("1999-01-01")),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn malformed_handshake_results_are_refused_with_the_reason() {
    let refusal = async |step: Step| {
        let (session, _server) = in_memory(Script::good().on("initialize", [step]));
        eventually(session.connect()).await.unwrap_err().to_string()
    };
    let expected = "scripted: the server refused the session: its handshake result has no `protocolVersion`";
    assert_eq!(refusal(Step::Result(json!({}))).await, expected);
    let expected = "scripted: the server refused the session: error -32602: no such client";
    assert_eq!(refusal(Step::Error(-32602, "no such client".into())).await, expected);
    let expected = "scripted: the server closed the connection before it was ready";
    assert_eq!(refusal(Step::HangUp).await, expected);
}

#[tokio::test(start_paused = true)]
async fn the_handshake_can_be_repeated_on_the_same_connection() {
    let (session, server) = in_memory(Script::good());
    eventually(session.initialize()).await.unwrap();
    eventually(session.initialize()).await.unwrap();
    settle().await;
    assert_eq!((server.connections(), server.log().count("initialize")), (1, 3));
    assert_eq!(server.log().count("notifications/initialized"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_keeps_crashing_gets_a_cooldown_and_then_another_attempt() {
    let (session, server) = in_memory(Script::good().on("initialize", [Step::HangUp]));
    let mut history = Vec::new();
    for _ in 0..8 {
        let began = Instant::now();
        let error = eventually(session.ping()).await.unwrap_err();
        let is_cooldown = error.to_string().contains("next attempt in");
        history.push((server.connections(), began.elapsed().as_secs_f64() > 0.2, is_cooldown));
    }
    // Tried immediately, immediately again, then after growing delays, then not until the cooldown has passed.
    let expected = [
        (1, false, false),
        (2, false, false),
        (3, true, false),
        (4, true, false),
        (5, true, false),
        (6, true, false),
        (6, false, true),
        (6, false, true),
    ];
    assert_eq!(history, expected);
    tokio::time::sleep(seconds(38)).await;
    eventually(session.ping()).await.unwrap_err();
    assert_eq!(server.connections(), 7);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_terminates_the_server() {
    let (ended, watch) = tokio::sync::oneshot::channel::<()>();
    let ended = Arc::new(std::sync::Mutex::new(Some(ended)));
    let server = Scripted::new(Script::good());
    let transport = InProcess::new(move |stream| {
        let server = server.clone();
        let ended = ended.lock().unwrap().take();
        async move {
            server.serve(stream).await;
            drop(ended);
        }
    });
    let session = Session::new("dropped".parse().unwrap(), transport, NoHost, legacy());
    eventually(session.ping()).await.unwrap();
    drop(session);
    assert!(eventually(watch).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_exits_right_after_the_handshake_has_failed() {
    let (session, _server) = in_memory(Script::good().on("initialize", [Step::Normally, Step::HangUp]));
    let _ = eventually(session.connect()).await;
    settle().await;
    assert_eq!(state(&session), "failed: the server closed the connection");
}

#[tokio::test(start_paused = true)]
async fn an_old_failure_is_not_returned_to_later_callers() {
    let (session, server) = in_memory(Script::good().once("initialize", [Step::Hang]));
    assert!(tokio::time::timeout(seconds(5), session.ping()).await.is_err());
    tokio::time::sleep(seconds(3600)).await;
    eventually(session.ping()).await.unwrap();
    assert_eq!(server.connections(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_exits_after_each_call_is_restarted_without_a_cooldown() {
    let script =
        Script::good().any_tool("once").on_call("once", [Step::Text("done".into()), Step::Wait(10_000), Step::HangUp]);
    let (session, server) = in_memory(script);
    for _ in 0..12 {
        assert_eq!(result_text(eventually(session.call("once", &none())).await), "done");
        tokio::time::sleep(seconds(20)).await;
    }
    assert_eq!(server.connections(), 12);
}

#[test]
fn a_session_survives_the_runtime_it_was_first_used_on() {
    let (session, server) = in_memory(Script::good());
    for _ in 0..3 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let sum = runtime.block_on(wharf_testkit::soon(session.call("add", &json(json!({"a": 1, "b": 2})))));
        assert_eq!(result_text(sum), "3");
    }
    assert_eq!(server.connections(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_panicking_transport_is_a_failed_connection() {
    let transport = || async { panic!("no transport today") };
    let session = Session::new("clumsy".parse().unwrap(), transport, NoHost, legacy());
    assert_eq!(eventually(session.connect()).await.unwrap_err().to_string(), "clumsy: the transport panicked");
    assert_eq!(state(&session), "failed: the transport panicked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_calls_and_closes_never_deadlock() {
    let (session, server) = in_memory(Script::good());
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..8_u32 {
        let session = session.clone();
        tasks.spawn(async move {
            for n in 0..200_u32 {
                if task == 0 && n.is_multiple_of(4) {
                    session.close().await;
                }
                let answer = result_text(session.call("add", &json(json!({"a": n, "b": 1}))).await);
                let closed = answer.contains("the session was closed");
                assert!(closed || answer == (n + 1).to_string(), "{answer}");
            }
        });
    }
    wharf_testkit::soon(async {
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    })
    .await;
    assert_eq!(result_text(wharf_testkit::soon(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
    wharf_testkit::soon(session.close()).await;
    assert!(server.connections() >= 10, "{}", server.connections());
}

#[tokio::test(start_paused = true)]
async fn an_infinite_limit_works() {
    let (session, _server) = in_memory(Script::good());
    let forever = Some(std::time::Duration::MAX);
    let options = CallOptions { idle: forever, total: forever, ..CallOptions::default() };
    assert_eq!(result_text(eventually(session.call_with("add", &json(json!({"a": 1, "b": 2})), options)).await), "3");
}
