//! Servers that do not answer `server/discover`: they are slow, legacy, or hang because of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;
use tokio::time::Instant;
use wharf_client::{
    CallErrorKind, ConnectErrorKind, Deadlines, InProcess, NoHost, OpenError, ProtocolMode, Session, SessionOptions,
    Transport as _,
};
use wharf_testkit::{Script, Scripted, Step, eventually};

use super::{LEGACY, MODERN, Named, auto, negotiated_revision, protocol};
use crate::{none, seconds, settle};

#[tokio::test(start_paused = true)]
async fn a_server_that_starts_slowly_connects_in_either_era() {
    let slow = [Step::Wait(11_000)];
    for (script, expected) in [(Script::modern(), MODERN), (Script::dual_era(), MODERN), (Script::good(), LEGACY)] {
        let (session, server) = auto(script.at_start(slow.clone()));
        let began = Instant::now();
        assert_eq!(negotiated_revision(&session).await, expected);
        // The first connection has a head start of two seconds: the modern answer wins, and so does the legacy error.
        assert_eq!((server.connections(), began.elapsed()), (2, seconds(11)), "{expected}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_discover_result_wins_if_it_arrives_first() {
    // The handshake on the second connection is refused, or takes longer.
    let late = || Script::modern().once("server/discover", [Step::Wait(5_000), Step::Normally]);
    let slower = Script::dual_era()
        .once("server/discover", [Step::Wait(5_000), Step::Normally])
        .once("initialize", [Step::Wait(9_000), Step::Normally]);
    for script in [late(), late().on("initialize", [Step::Error(-32601, "no method".into())]), slower] {
        let (session, server) = auto(script);
        let began = Instant::now();
        assert_eq!(negotiated_revision(&session).await, MODERN);
        assert_eq!((server.connections(), began.elapsed()), (2, seconds(5)));
        assert_eq!(session.health().connections, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_discover_error_leads_to_a_handshake_on_that_connection() {
    let script = Script::good()
        .once("server/discover", [Step::Wait(5_000), Step::Error(-32601, "no".into())])
        .once("initialize", [Step::Hang]);
    let (session, server) = auto(script);
    let began = Instant::now();
    assert_eq!(negotiated_revision(&session).await, LEGACY);
    assert_eq!((server.connections(), began.elapsed()), (2, seconds(5)));
    assert_eq!((server.log().count("server/discover"), server.log().count("initialize")), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn both_connections_share_the_connect_deadline() {
    let script = || Script::good().on("server/discover", [Step::Hang]).on("initialize", [Step::Hang]);
    let (session, server) = auto(script());
    let began = Instant::now();
    let error = eventually(session.connect()).await.unwrap_err();
    assert_eq!(error.to_string(), "scripted: the server was not ready within 30 s");
    assert_eq!((began.elapsed(), server.connections()), (seconds(30), 2));

    // A short connect deadline shortens the wait, so that time remains for the second connection.
    let server = Named::new("brief", script());
    let deadlines = Deadlines { connect: seconds(1), ..Deadlines::default() };
    let session = server.session(SessionOptions { deadlines, ..SessionOptions::default() });
    let began = Instant::now();
    let error = eventually(session.connect()).await.unwrap_err();
    assert!(matches!(error.kind, ConnectErrorKind::Timeout(_)), "{error}");
    assert_eq!((began.elapsed(), server.server.log().count("initialize")), (seconds(1), 1));
}

#[tokio::test(start_paused = true)]
async fn the_losing_connection_is_closed() {
    let scripts = [
        Script::good().on("server/discover", [Step::Hang]),
        Script::modern().once("server/discover", [Step::Wait(5_000), Step::Normally]).on("initialize", [Step::Hang]),
        Script::good().once("server/discover", [Step::Wait(3_000), Step::Normally]).once("initialize", [Step::Hang]),
    ];
    for script in scripts {
        let server = Named::new("raced", script);
        let session = server.session(protocol(ProtocolMode::Auto));
        negotiated_revision(&session).await;
        tokio::time::sleep(seconds(5)).await;
        assert_eq!((server.server.connections(), server.running.load(Ordering::Relaxed)), (2, 1));
        assert!(session.is_connected());
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_allows_one_connection_gets_the_handshake_on_the_first() {
    let slow = Script::good().at_start([Step::Wait(11_000)]);
    for script in [Script::good().on("server/discover", [Step::Hang]), slow] {
        let server = Named::exclusive(script);
        let session = server.session(protocol(ProtocolMode::Auto));
        assert_eq!(negotiated_revision(&session).await, LEGACY);
        assert_eq!((server.server.connections(), server.server.log().count("initialize")), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn an_exclusive_server_that_hangs_on_discover_is_restarted_alone() {
    let script = || Script::good().on("server/discover", [Step::Hang]);
    for put_out in [vec![Step::HangUp], vec![Step::Error(-32600, "out of order".into())]] {
        let server = Named::exclusive(script().once("initialize", put_out));
        let session = server.session(protocol(ProtocolMode::Auto));
        assert_eq!(negotiated_revision(&session).await, LEGACY);
        assert_eq!(server.server.connections(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn an_exclusive_server_that_refuses_the_handshake_is_stopped_before_the_next_starts() {
    let script = Script::good().on("server/discover", [Step::Error(-32601, "no".into())]);
    let server = Named::exclusive(script.once("initialize", [Step::Error(-32600, "not the first message".into())]));
    let session = server.session(protocol(ProtocolMode::Auto));
    assert_eq!(negotiated_revision(&session).await, LEGACY);
    assert_eq!(server.server.connections(), 2);
}

/// The first candidate got a handshake too before it answers; that must not count.
#[tokio::test(start_paused = true)]
async fn a_slow_exclusive_modern_server_connects_in_the_modern_era() {
    let ask = [Step::Ask("elicitation/create".into(), json!({"message": "who?"})), Step::EchoAnswer];
    let script = Script::modern().at_start([Step::Wait(11_000)]).any_tool("ask").on_call("ask", ask);
    let server = Named::exclusive(script);
    let session = server.session(protocol(ProtocolMode::Auto));
    assert_eq!(negotiated_revision(&session).await, MODERN);
    // Requests of a modern server must not be answered.
    let error = eventually(session.call("ask", &none())).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Timeout { .. }), "{error}");
    assert_eq!(session.health().violations, 1);
    assert!(server.server.log().messages().iter().all(|message| message.get("method").is_some()));
}

#[tokio::test(start_paused = true)]
async fn a_second_connection_that_fails_to_open_is_harmless() {
    let server = Scripted::new(Script::good().on("server/discover", [Step::Hang]));
    let copy = server.clone();
    let opened = Arc::new(AtomicU32::new(0));
    let transport = move || {
        let copy = copy.clone();
        let first = opened.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            if !first {
                return Err(OpenError::Other("there is one already".into()));
            }
            InProcess::new(move |stream| copy.clone().serve(stream)).open().await
        }
    };
    let session = Session::new("single".parse().unwrap(), transport, NoHost, protocol(ProtocolMode::Auto));
    assert_eq!(negotiated_revision(&session).await, LEGACY);
    assert_eq!(server.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn closing_and_dropping_during_the_race_leak_nothing() {
    for dropped in [false, true] {
        let script = Script::good().on("server/discover", [Step::Hang]).on("initialize", [Step::Hang]);
        let server = Named::new("raced", script);
        let session = server.session(protocol(ProtocolMode::Auto));
        assert!(tokio::time::timeout(seconds(4), session.connect()).await.is_err());
        assert_eq!(server.running.load(Ordering::Relaxed), 2);
        if dropped {
            drop(session);
        } else {
            eventually(session.close()).await;
        }
        settle().await;
        assert_eq!(server.running.load(Ordering::Relaxed), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_that_refuses_every_handshake_fails_immediately_with_the_reason() {
    let refusal = [Step::Error(-32000, "licence expired".into())];
    let (session, server) = auto(Script::good().on("server/discover", [Step::Hang]).on("initialize", refusal));
    let began = Instant::now();
    let error = eventually(session.connect()).await.unwrap_err();
    assert_eq!(error.to_string(), "scripted: the server refused the session: error -32000: licence expired");
    assert_eq!(began.elapsed().as_secs(), 2);
    // On the second connection, on the first, and exclusive.
    assert_eq!((server.connections(), server.log().count("initialize")), (3, 3));
}
