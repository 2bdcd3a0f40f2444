//! The era cache, and how it recovers when it is out of date.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tokio::time::Instant;
use wharf_client::{
    CallErrorKind, ConnectErrorKind, EraCache, Http, InProcess, NoHost, Outcome, ProtocolMode, RemoteOptions, Session,
    SessionOptions, Stdio, Transport as _,
};
use wharf_io::Environment;
use wharf_testkit::{HttpScripted, ResponseFormat, Script, Scripted, Step, eventually};

use super::{LEGACY, MODERN, Named, error_with, negotiated_revision, protocol};
use crate::remote::{http_with, in_memory, options};
use crate::{json, none, result_text, seconds};

fn with_cache(cache: &Arc<EraCache>) -> SessionOptions {
    SessionOptions { era_cache: Arc::clone(cache), ..SessionOptions::default() }
}

/// A cache of a server called `here` whose era is that of this script.
async fn cache_of(script: Script) -> Arc<EraCache> {
    let cache = Arc::new(EraCache::default());
    negotiated_revision(&Named::new("here", script).session(with_cache(&cache))).await;
    cache
}

#[tokio::test(start_paused = true)]
async fn sessions_share_detected_eras() {
    for (script, expected, discovers, handshakes) in
        [(Script::good(), LEGACY, 0, 1), (Script::modern(), MODERN, 1, 0), (Script::dual_era(), MODERN, 1, 0)]
    {
        let cache = cache_of(script.clone()).await;
        let again = Named::new("here", script.clone());
        assert_eq!(negotiated_revision(&again.session(with_cache(&cache))).await, expected);
        let log = again.server.log();
        assert_eq!((log.count("server/discover"), log.count("initialize")), (discovers, handshakes));

        let other = Named::new("there", script);
        assert_eq!(negotiated_revision(&other.session(with_cache(&cache))).await, expected);
        assert_eq!(other.server.log().count("server/discover"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_cached_server_is_started_once() {
    let slow = [Step::Wait(11_000)];
    for (script, expected) in [(Script::good(), LEGACY), (Script::modern(), MODERN)] {
        let cache = cache_of(script.clone()).await;
        let again = Named::new("here", script.at_start(slow.clone()));
        assert_eq!(negotiated_revision(&again.session(with_cache(&cache))).await, expected);
        assert_eq!(again.server.connections(), 1);
    }
}

#[test]
fn a_server_with_another_configuration_has_another_identity() {
    let environment = || Environment::default().with("KEY", "1");
    let identities = [
        Stdio::new("server", ["a"], environment()).identity(),
        Stdio::new("server", ["b"], environment()).identity(),
        Stdio::new("other", ["a"], environment()).identity(),
        Stdio::new("server", ["a"], environment().with("KEY", "2")).identity(),
        Stdio::new("server", ["a"], environment()).in_directory("/").identity(),
        Http::new("http://server.test/mcp", RemoteOptions::default()).unwrap().identity(),
        Http::new("http://server.test/other", RemoteOptions::default()).unwrap().identity(),
        Http::new("https://server.test/mcp", RemoteOptions::default()).unwrap().identity(),
    ];
    let different: std::collections::HashSet<_> = identities.iter().flatten().collect();
    assert_eq!(different.len(), identities.len());
    assert_eq!(Stdio::new("server", ["a"], environment()).identity(), identities[0]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_changed_its_era_is_detected_again() {
    let exits = |script: Script, method: &str| script.on(method, [Step::HangUp]);
    let changes = [
        (Script::good(), Script::modern(), MODERN),
        (Script::good(), exits(Script::modern(), "initialize"), MODERN),
        (Script::good(), Script::modern().on("initialize", [Step::Error(-32601, "no".into())]), MODERN),
        (Script::modern(), Script::good(), LEGACY),
        (Script::modern(), exits(Script::good(), "server/discover"), LEGACY),
        (Script::modern(), Script::good().on("server/discover", [Step::Error(-32602, "no".into())]), LEGACY),
    ];
    for (number, (before, now, expected)) in changes.into_iter().enumerate() {
        let cache = cache_of(before).await;
        let server = Named::new("here", now);
        assert_eq!(negotiated_revision(&server.session(with_cache(&cache))).await, expected, "{number}");
        // The new era is cached instead.
        let other = Named::new("here", if expected == MODERN { Script::modern() } else { Script::good() });
        assert_eq!(negotiated_revision(&other.session(with_cache(&cache))).await, expected, "{number}");
        let discovers = other.server.log().count("server/discover");
        let handshakes = other.server.log().count("initialize");
        assert_eq!((discovers, handshakes), if expected == MODERN { (1, 0) } else { (0, 1) }, "{number}");
    }
}

#[tokio::test(start_paused = true)]
async fn silence_drops_the_cached_era() {
    let cache = cache_of(Script::good()).await;
    let now = Script::modern().on("initialize", [Step::Hang]);
    let session = Named::new("here", now).session(with_cache(&cache));
    let began = Instant::now();
    let error = eventually(session.connect()).await.unwrap_err();
    assert!(matches!(error.kind, ConnectErrorKind::Timeout(_)), "{error}");
    assert_eq!(began.elapsed(), seconds(30));
    assert_eq!(negotiated_revision(&session).await, MODERN);

    // A cached modern server that is silent gets a handshake after half of the connect deadline.
    let cache = cache_of(Script::modern()).await;
    let now = Script::good().on("server/discover", [Step::Hang]);
    let session = Named::new("here", now).session(with_cache(&cache));
    let began = Instant::now();
    assert_eq!(negotiated_revision(&session).await, LEGACY);
    assert_eq!(began.elapsed(), seconds(15));
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_second_process_waits_for_the_first_gets_the_handshake_there() {
    // Only the first connection is ever answered, and `server/discover` is not.
    let script = Script::good().on("server/discover", [Step::Hang]);
    let server = Scripted::new(script);
    let copy = server.clone();
    let taken = Arc::new(AtomicBool::new(false));
    let transport = InProcess::new(move |stream| {
        let server = copy.clone();
        let first = !taken.swap(true, Ordering::Relaxed);
        async move {
            if first {
                server.serve(stream).await;
            } else {
                std::future::pending::<()>().await;
            }
        }
    });
    let session = Session::new("crowded".parse().unwrap(), transport, NoHost, SessionOptions::default());
    let began = Instant::now();
    assert_eq!(negotiated_revision(&session).await, LEGACY);
    assert_eq!(began.elapsed(), seconds(5));
}

#[tokio::test(start_paused = true)]
async fn the_older_transport_is_cached() {
    let cache = Arc::new(EraCache::default());
    let at = |server: &HttpScripted| {
        let transport = Http::new("http://server.test/sse", options(in_memory(server))).unwrap();
        Session::new("remote".parse().unwrap(), transport, NoHost, with_cache(&cache))
    };
    let server = HttpScripted::new(Script::good());
    assert_eq!(negotiated_revision(&at(&server)).await, LEGACY);
    let before = server.requests().iter().filter(|seen| seen.path == "/sse" && seen.method == "POST").count();
    assert_eq!(negotiated_revision(&at(&server)).await, LEGACY);
    let after = server.requests().iter().filter(|seen| seen.path == "/sse" && seen.method == "POST").count();
    assert_eq!((before, after), (2, 2));
}

/// A server that claims to be modern once, and then supports only the legacy era.
fn becomes_legacy(refusal: impl Into<Vec<Step>>) -> HttpScripted {
    let modern = json!({"supportedVersions": [MODERN], "capabilities": {}, "resultType": "complete"});
    let script = Script::good().once("server/discover", [Step::Result(modern)]).once("tools/call", refusal);
    HttpScripted::new(script).without_sessions()
}

fn over_http(server: &HttpScripted) -> Session {
    http_with(options(in_memory(server)), NoHost, protocol(ProtocolMode::Auto)).0
}

#[tokio::test(start_paused = true)]
async fn a_server_that_becomes_legacy_is_detected_again_and_the_call_succeeds() {
    let refusals = [
        Step::Error(-32000, "Bad Request: Server not initialized".into()),
        Step::Error(-32600, "Bad Request: Missing session ID".into()),
        Step::Error(-32001, "Session not found".into()),
        error_with(-32022, &json!({"supported": ["2025-11-25"]})),
        Step::Http {
            status: 400,
            headers: Vec::new(),
            body: r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Server not initialized"}}"#.into(),
        },
    ];
    for refusal in refusals {
        for answers in [ResponseFormat::Json, ResponseFormat::Sse] {
            let server = becomes_legacy([refusal.clone()]).with_response_format(answers);
            let session = over_http(&server);
            assert_eq!(eventually(session.connect()).await.unwrap().revision, MODERN);
            assert_eq!(negotiated_revision(&session).await, LEGACY, "{refusal:?}");
            assert_eq!((server.log().count("tools/call"), server.log().count("initialize")), (2, 1), "{refusal:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn any_request_detects_the_changed_era() {
    let lost = || vec![Step::Error(-32000, "Bad Request: Server not initialized".into())];
    let modern = json!({"supportedVersions": [MODERN], "capabilities": {}});
    for method in ["tools/list", "own/method", "server/discover"] {
        let mut script = Script::good().once("server/discover", [Step::Result(modern.clone())]);
        script = script.once(method, lost()).on("own/method", [Step::Result(json!({}))]);
        let server = HttpScripted::new(script).without_sessions();
        let session = over_http(&server);
        assert_eq!(eventually(session.connect()).await.unwrap().revision, MODERN);
        match method {
            "tools/list" => drop(eventually(session.list_tools()).await.unwrap()),
            "own/method" => drop(eventually(session.request("own/method", &none())).await.unwrap()),
            _ => eventually(session.ping()).await.unwrap(),
        }
        assert_eq!(negotiated_revision(&session).await, LEGACY, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_becomes_modern_is_detected_again() {
    let server = Named::new("here", {
        // It accepts one handshake, and no other.
        let initialize_result = json!({"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {"name": "s"}});
        let refused = [Step::Error(-32601, "no".into())];
        Script::modern().once("server/discover", refused).once("initialize", [Step::Result(initialize_result)])
    });
    let session = server.session(SessionOptions::default());
    assert_eq!(eventually(session.connect()).await.unwrap().revision, LEGACY);
    // The call is refused because it lacks the client info, which is not a session loss.
    let error = eventually(session.call("add", &none())).await.unwrap_err();
    assert_eq!(error.code(), Some(-32602));

    let server = Named::new("here", {
        let initialize_result = json!({"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {"name": "s"}});
        let refused = [Step::Error(-32601, "no".into())];
        let outgrown = [error_with(-32022, &json!({"supported": [MODERN]}))];
        let script = Script::modern().once("server/discover", refused).once("tools/call", outgrown);
        script.once("initialize", [Step::Result(initialize_result)])
    });
    let session = server.session(SessionOptions::default());
    assert_eq!(eventually(session.connect()).await.unwrap().revision, LEGACY);
    assert_eq!(negotiated_revision(&session).await, MODERN);
    assert_eq!(server.server.log().count("tools/call"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_keeps_losing_its_session_is_tried_twice() {
    let lost = [Step::Error(-32000, "Server not initialized".into())];
    let server = HttpScripted::new(Script::modern().on("tools/call", lost));
    let error = eventually(over_http(&server).call("add", &none())).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::SessionLost { .. }), "{error}");
    assert_eq!((error.outcome(), server.log().count("tools/call")), (Outcome::NotRun, 2));
}

/// Tools have their own sessions, with browsers and databases, and may report their loss with the same message.
#[tokio::test(start_paused = true)]
async fn a_started_call_is_not_retried_after_a_session_error() {
    let steps = [Step::Progress(1.0, 2.0, "half".into()), Step::Error(-32000, "Session expired".into())];
    let server = HttpScripted::new(Script::modern().any_tool("browse").on_call("browse", steps));
    let error = eventually(over_http(&server).call("browse", &none())).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Some(-32000), Outcome::Answered));
    assert_eq!((server.log().count("tools/call"), server.log().count("server/discover")), (1, 1));

    // A process has no session to lose.
    let steps = [Step::Error(-32000, "Session not found".into())];
    let server = Named::new("here", Script::modern().any_tool("browse").on_call("browse", steps));
    let session = server.session(SessionOptions::default());
    let error = eventually(session.call("browse", &none())).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Some(-32000), Outcome::Answered));
    assert_eq!((server.server.connections(), server.server.log().count("tools/call")), (1, 1));
    assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
}
