//! Servers that say nothing when they are asked what they speak: they are slow, or old, or put out by the question.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;
use tokio::time::Instant;
use wharf_client::{
    CallErrorKind, ConnectErrorKind, Deadlines, InProcess, NoHost, OpenError, ProtocolMode, Session, SessionOptions,
    Transport as _,
};
use wharf_testkit::{Script, Scripted, Step, eventually};

use super::{LEGACY, MODERN, Named, auto, protocol, spoken};
use crate::{none, seconds, settle};

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_long_to_start_is_connected_in_either_era() {
    let slow = [Step::Wait(11_000)];
    for (script, expected) in [(Script::modern(), MODERN), (Script::dual_era(), MODERN), (Script::good(), LEGACY)] {
        let (session, server) = auto(script.at_start(slow.clone()));
        let began = Instant::now();
        assert_eq!(spoken(&session).await, expected);
        // The first one has a start of two seconds: the modern one's answer wins, and so does the old one that says no.
        assert_eq!((server.connections(), began.elapsed()), (2, seconds(11)), "{expected}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_good_answer_wins_if_it_comes_first() {
    // The greeting beside it is refused, or takes longer.
    let late = || Script::modern().once("server/discover", [Step::Wait(5_000), Step::Normally]);
    let slower = Script::dual_era()
        .once("server/discover", [Step::Wait(5_000), Step::Normally])
        .once("initialize", [Step::Wait(9_000), Step::Normally]);
    for script in [late(), late().on("initialize", [Step::Error(-32601, "no method".into())]), slower] {
        let (session, server) = auto(script);
        let began = Instant::now();
        assert_eq!(spoken(&session).await, MODERN);
        assert_eq!((server.connections(), began.elapsed()), (2, seconds(5)));
        assert_eq!(session.health().connections, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_refusal_leads_to_a_greeting_on_the_connection_that_refused() {
    let script = Script::good()
        .once("server/discover", [Step::Wait(5_000), Step::Error(-32601, "no".into())])
        .once("initialize", [Step::Hang]);
    let (session, server) = auto(script);
    let began = Instant::now();
    assert_eq!(spoken(&session).await, LEGACY);
    assert_eq!((server.connections(), began.elapsed()), (2, seconds(5)));
    assert_eq!((server.log().count("server/discover"), server.log().count("initialize")), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn both_share_the_connect_deadline() {
    let script = || Script::good().on("server/discover", [Step::Hang]).on("initialize", [Step::Hang]);
    let (session, server) = auto(script());
    let began = Instant::now();
    let error = eventually(session.connect()).await.unwrap_err();
    assert_eq!(error.to_string(), "scripted: the server was not ready within 30 s");
    assert_eq!((began.elapsed(), server.connections()), (seconds(30), 2));

    // A short deadline makes for a short silence, so that there is time for the second.
    let server = Named::new("brief", script());
    let deadlines = Deadlines { connect: seconds(1), ..Deadlines::default() };
    let session = server.session(SessionOptions { deadlines, ..SessionOptions::default() });
    let began = Instant::now();
    let error = eventually(session.connect()).await.unwrap_err();
    assert!(matches!(error.kind, ConnectErrorKind::Timeout(_)), "{error}");
    assert_eq!((began.elapsed(), server.server.log().count("initialize")), (seconds(1), 1));
}

#[tokio::test(start_paused = true)]
async fn who_has_not_won_is_closed() {
    let scripts = [
        Script::good().on("server/discover", [Step::Hang]),
        Script::modern().once("server/discover", [Step::Wait(5_000), Step::Normally]).on("initialize", [Step::Hang]),
        Script::good().once("server/discover", [Step::Wait(3_000), Step::Normally]).once("initialize", [Step::Hang]),
    ];
    for script in scripts {
        let server = Named::new("raced", script);
        let session = server.session(protocol(ProtocolMode::Auto));
        spoken(&session).await;
        tokio::time::sleep(seconds(5)).await;
        assert_eq!((server.server.connections(), server.there.load(Ordering::Relaxed)), (2, 1));
        assert!(session.is_connected());
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_of_which_there_can_be_only_one_is_greeted_where_it_is() {
    let slow = Script::good().at_start([Step::Wait(11_000)]);
    for script in [Script::good().on("server/discover", [Step::Hang]), slow] {
        let server = Named::alone(script);
        let session = server.session(protocol(ProtocolMode::Auto));
        assert_eq!(spoken(&session).await, LEGACY);
        assert_eq!((server.server.connections(), server.server.log().count("initialize")), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn one_of_its_kind_that_the_question_has_put_out_is_started_again_alone() {
    let script = || Script::good().on("server/discover", [Step::Hang]);
    for put_out in [vec![Step::HangUp], vec![Step::Error(-32600, "out of order".into())]] {
        let server = Named::alone(script().once("initialize", put_out));
        let session = server.session(protocol(ProtocolMode::Auto));
        assert_eq!(spoken(&session).await, LEGACY);
        assert_eq!(server.server.connections(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn one_of_its_kind_that_refuses_a_greeting_after_the_question_is_ended_before_the_next_is_started() {
    let script = Script::good().on("server/discover", [Step::Error(-32601, "no".into())]);
    let server = Named::alone(script.once("initialize", [Step::Error(-32600, "not the first message".into())]));
    let session = server.session(protocol(ProtocolMode::Auto));
    assert_eq!(spoken(&session).await, LEGACY);
    assert_eq!(server.server.connections(), 2);
}

/// The first has been greeted too by the time it answers; that is not to count.
#[tokio::test(start_paused = true)]
async fn a_modern_one_of_its_kind_that_is_slow_is_spoken_with_in_its_own_way() {
    let ask = [Step::Ask("elicitation/create".into(), json!({"message": "who?"})), Step::EchoAnswer];
    let script = Script::modern().at_start([Step::Wait(11_000)]).any_tool("ask").on_call("ask", ask);
    let server = Named::alone(script);
    let session = server.session(protocol(ProtocolMode::Auto));
    assert_eq!(spoken(&session).await, MODERN);
    // Nobody may answer what such a server asks.
    let error = eventually(session.call("ask", &none())).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Timeout { .. }), "{error}");
    assert_eq!(session.health().violations, 1);
    assert!(server.server.log().messages().iter().all(|message| message.get("method").is_some()));
}

#[tokio::test(start_paused = true)]
async fn a_second_one_that_cannot_even_be_started_is_no_loss() {
    let server = Scripted::new(Script::good().on("server/discover", [Step::Hang]));
    let (copy, opened) = (server.clone(), Arc::new(AtomicU32::new(0)));
    let transport = move || {
        let (copy, first) = (copy.clone(), opened.fetch_add(1, Ordering::Relaxed) == 0);
        async move {
            if !first {
                return Err(OpenError::Other("there is one already".into()));
            }
            InProcess::new(move |stream| copy.clone().serve(stream)).open().await
        }
    };
    let session = Session::new("single".parse().unwrap(), transport, NoHost, protocol(ProtocolMode::Auto));
    assert_eq!(spoken(&session).await, LEGACY);
    assert_eq!(server.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn closing_and_dropping_while_two_are_asked_leave_nothing_behind() {
    for dropped in [false, true] {
        let script = Script::good().on("server/discover", [Step::Hang]).on("initialize", [Step::Hang]);
        let server = Named::new("raced", script);
        let session = server.session(protocol(ProtocolMode::Auto));
        assert!(tokio::time::timeout(seconds(4), session.connect()).await.is_err());
        assert_eq!(server.there.load(Ordering::Relaxed), 2);
        if dropped {
            drop(session);
        } else {
            eventually(session.close()).await;
        }
        settle().await;
        assert_eq!(server.there.load(Ordering::Relaxed), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_that_refuses_every_greeting_says_why_and_at_once() {
    let refusal = [Step::Error(-32000, "licence expired".into())];
    let (session, server) = auto(Script::good().on("server/discover", [Step::Hang]).on("initialize", refusal));
    let began = Instant::now();
    let error = eventually(session.connect()).await.unwrap_err();
    assert_eq!(error.to_string(), "scripted: the server refused the session: error -32000: licence expired");
    assert_eq!(began.elapsed().as_secs(), 2);
    // Beside the first, on the first, and alone.
    assert_eq!((server.connections(), server.log().count("initialize")), (3, 3));
}
