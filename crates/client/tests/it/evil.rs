//! Damages an honest server's output at every byte: no hang, no wrong answer, no call that runs twice.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use serde_json::json;
use tokio::time::Instant;
use wharf_client::{
    CallError, CallErrorKind, CallOptions, ConnectErrorKind, Deadlines, Outcome, Session, SessionOptions,
};
use wharf_protocol::{Json, ToolOutput};
use wharf_testkit::{EvilPeer, HttpScripted, NetworkFault, Script, Step, eventually, soon, until};

use crate::remote::{Way, harmed_in_memory, in_memory, some_harmed_in_memory};
use crate::{json, legacy, none, result_text, seconds, settle};

/// For connecting, and for a whole call.
const LIMIT: Duration = seconds(5);
/// The extra time after which a test counts as late.
const SLACK: Duration = seconds(2);
/// One in this many failed connections is tried again.
const RETRIED: usize = 5;
/// The number of exchanges damaged concurrently.
const AT_ONCE: usize = 96;

fn hasty() -> SessionOptions {
    let deadlines = Deadlines { connect: LIMIT, total: Some(LIMIT), ..Deadlines::default() };
    SessionOptions { deadlines, ..legacy() }
}

/// Arguments that no other call has.
fn add(number: usize) -> Json {
    json(json!({"a": number, "b": 1}))
}

/// The number of the call that follows the failed call with this number.
const fn after(number: usize) -> usize {
    1_000_000 + number
}

/// One way to damage an exchange.
#[derive(Clone, Debug)]
struct Damage {
    connection: u64,
    harm: NetworkFault,
}

/// How the calls of one damaged exchange ended.
struct Ended {
    number: usize,
    damage: Damage,
    result: Result<ToolOutput, CallError>,
    next: Option<Result<ToolOutput, CallError>>,
    took: Duration,
}

/// Counts the bytes that the server sends and receives while a client connects and calls once.
async fn measure(way: Way, connection: u64) -> (usize, usize) {
    let server = way.server(Script::good());
    let listening = server.listen().await;
    let evil = EvilPeer::before(listening.address()).await;
    evil.set_fault(connection, NetworkFault::None);
    let session = way.over_tcp(evil.address(), hasty());
    assert_eq!(result_text(soon(session.call("add", &add(1))).await), "2");
    (evil.bytes_to_client(), evil.bytes_to_server())
}

/// Connects and calls once for each kind of damage, and checks the results.
async fn run_damaged(way: Way, damages: Vec<Damage>) {
    let server = way.server(Script::good());
    let listening = server.listen().await;
    let address = listening.address();
    let ended: Vec<Ended> = stream::iter(damages.into_iter().enumerate())
        .map(async |(number, damage)| {
            let evil = EvilPeer::before(address).await;
            evil.set_fault(damage.connection, damage.harm.clone());
            let session = way.over_tcp(evil.address(), hasty());
            let began = Instant::now();
            let connected = soon(session.connect()).await;
            // If it does not connect, the call tries again; this is checked for some of them.
            let result = match connected {
                Err(error) if !number.is_multiple_of(RETRIED) => Err(error.into()),
                _ => soon(session.call("add", &add(number))).await,
            };
            let took = began.elapsed();
            let next = match &result {
                Err(error) if error.outcome() != Outcome::NotRun || number.is_multiple_of(RETRIED) => {
                    Some(soon(session.call("add", &add(after(number)))).await)
                }
                _ => None,
            };
            Ended { number, damage, result, next, took }
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    // Only now is it certain that no message is still in transit.
    drop(listening);
    let ran = ran(&server);
    for ended in ended {
        check(way, &ended, &ran);
    }
}

/// Counts how often the server ran the call with each number.
fn ran(server: &HttpScripted) -> HashMap<usize, usize> {
    let mut ran = HashMap::new();
    for message in server.handled().messages().iter().filter(|message| message["method"] == "tools/call") {
        let number = message["params"]["arguments"]["a"].as_u64().unwrap();
        *ran.entry(usize::try_from(number).unwrap()).or_default() += 1;
    }
    ran
}

fn check(way: Way, ended: &Ended, ran: &HashMap<usize, usize>) {
    let Ended { number, damage, result, next, took } = ended;
    let runs = ran.get(number).copied().unwrap_or(0);
    let case = format!("{way:?}, {damage:?}: {result:?} after {took:?}, ran {runs} times");
    assert!(*took < LIMIT + LIMIT + SLACK, "late: {case}");
    match result {
        Ok(output) => {
            assert_eq!(output.text(), (number + 1).to_string(), "wrong: {case}");
            assert_eq!(runs, 1, "{case}");
        }
        Err(error) if error.outcome() == Outcome::NotRun => assert_eq!(runs, 0, "{case}"),
        Err(_) => assert!(runs <= 1, "repeated: {case}"),
    }
    // Only one connection is damaged, and that has happened: the session continues.
    if let Some(next) = next {
        assert_eq!(next.as_ref().map(ToolOutput::text).ok(), Some((after(*number) + 1).to_string()), "{next:?} {case}");
        assert_eq!(ran.get(&after(*number)), Some(&1), "{case}");
    }
}

async fn damage_every_byte(way: Way) {
    // Over HTTP the call has its own connection; another one is used by the notification stream.
    let connections = if way == Way::WebSocket { 1..=1 } else { 1..=2 };
    for connection in connections {
        let (sent, received) = measure(way, connection).await;
        assert!(sent > 0 && received > 0, "{way:?} has no connection {connection}");
        let damage_with = |harm| Damage { connection, harm };
        let mut damages: Vec<Damage> = (0..=sent).map(NetworkFault::ResetAfter).map(damage_with).collect();
        // The client's output is almost the same over all HTTP transports; one of them is tested closely.
        let stride = if matches!(way, Way::Json | Way::WebSocket) { 1 } else { 5 };
        damages.extend((0..=received).step_by(stride).map(NetworkFault::ResetAfterReceiving).map(damage_with));
        damages.extend((0..=sent).step_by(13).map(NetworkFault::HalfCloseAfter).map(damage_with));
        damages.extend((0..=sent).step_by(17).map(NetworkFault::GarbageAfter).map(damage_with));
        run_damaged(way, damages).await;
    }
}

#[tokio::test]
async fn json_answers_survive_damage_at_every_byte() {
    damage_every_byte(Way::Json).await;
}

#[tokio::test]
async fn event_answers_survive_damage_at_every_byte() {
    damage_every_byte(Way::Events).await;
}

#[tokio::test]
async fn the_older_sse_transport_survives_damage_at_every_byte() {
    damage_every_byte(Way::HttpSse).await;
}

#[tokio::test]
async fn a_websocket_survives_damage_at_every_byte() {
    damage_every_byte(Way::WebSocket).await;
}

#[tokio::test]
async fn answers_in_single_bytes_are_read() {
    for way in Way::ALL {
        for pieces in [1, 7] {
            let server = way.server(Script::good());
            let listening = server.listen().await;
            let evil = EvilPeer::before(listening.address()).await;
            let session = way.over_tcp(evil.address(), hasty());
            if way == Way::WebSocket {
                // The WebSocket library rejects an upgrade in more than 64 tiny pieces as an attack.
                soon(session.connect()).await.unwrap();
            }
            evil.set_fault_for_all(NetworkFault::Slice(pieces));
            for number in 0..3 {
                assert_eq!(
                    result_text(soon(session.call("add", &add(number))).await),
                    (number + 1).to_string(),
                    "{way:?}"
                );
            }
            assert_eq!((server.log().count("initialize"), server.log().count("tools/call")), (1, 3), "{way:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn slow_answers_are_read_if_they_complete_in_time() {
    for way in [Way::Json, Way::Events, Way::HttpSse] {
        let server = way.server(Script::good());
        let drip = NetworkFault::Drip(Duration::from_millis(1));
        let session = way.over(harmed_in_memory(&server, drip), hasty());
        assert_eq!(result_text(eventually(session.call("add", &add(1))).await), "2", "{way:?}");

        let drip = NetworkFault::Drip(Duration::from_millis(100));
        let session = way.over(harmed_in_memory(&server, drip), hasty());
        let began = Instant::now();
        let error = eventually(session.call("add", &add(1))).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Connect(ConnectErrorKind::Timeout(_))), "{way:?}: {error}");
        assert_eq!(began.elapsed(), LIMIT, "{way:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_endless_websocket_upgrade_times_out() {
    let server = Way::WebSocket.server(Script::good());
    let drip = NetworkFault::Drip(Duration::from_millis(1));
    let session = Way::WebSocket.over(harmed_in_memory(&server, drip), hasty());
    let error = eventually(session.connect()).await.unwrap_err();
    assert!(matches!(error.kind, ConnectErrorKind::Transport(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn silence_after_any_byte_times_out() {
    for way in Way::ALL {
        // Until everything was sent before the silence.
        for bytes in 0.. {
            let server = way.server(Script::good());
            let session = way.over(harmed_in_memory(&server, NetworkFault::StallAfter(bytes)), hasty());
            let began = Instant::now();
            let result = eventually(session.call("add", &add(1))).await;
            let case = format!("{way:?}, silent after {bytes}: {result:?} after {:?}", began.elapsed());
            assert!(began.elapsed() <= LIMIT + LIMIT, "late: {case}");
            let runs = server.handled().count("tools/call");
            match &result {
                Ok(output) => {
                    assert_eq!((output.text().as_str(), runs), ("2", 1), "{case}");
                    break;
                }
                Err(error) => {
                    let deadline = match &error.kind {
                        CallErrorKind::Connect(ConnectErrorKind::Timeout(after))
                        | CallErrorKind::Timeout { after, .. } => *after,
                        _ => panic!("{case}"),
                    };
                    assert_eq!((deadline, runs <= 1), (LIMIT, true), "{case}");
                }
            }
            let began = Instant::now();
            eventually(session.close()).await;
            assert!(began.elapsed() <= LIMIT, "{way:?}, silent after {bytes}: closing took {:?}", began.elapsed());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_replaced() {
    for way in [Way::Json, Way::Events, Way::WebSocket] {
        for bytes in (0..).step_by(3) {
            let server = way.server(Script::good());
            let stall = move |number| if number == 1 { NetworkFault::StallAfter(bytes) } else { NetworkFault::None };
            let session = way.over(some_harmed_in_memory(&server, stall), hasty());
            let Err(error) = eventually(session.call("add", &add(1))).await else { break };
            if way == Way::WebSocket {
                // A WebSocket has only this connection, until its pings are not answered.
                tokio::time::sleep(seconds(110)).await;
            }
            let next = result_text(eventually(session.call("add", &add(2))).await);
            assert_eq!(next, "3", "{way:?}, silent after {bytes}: {error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_connection_is_detected_immediately() {
    for way in Way::ALL {
        for end in [Step::HangUp, Step::Reset] {
            let server = way.server(Script::good().any_tool("tool").on_call("tool", [end]));
            let session = way.over(in_memory(&server), hasty());
            eventually(session.connect()).await.unwrap();
            let began = Instant::now();
            let error = eventually(session.call("tool", &none())).await.unwrap_err();
            assert!(matches!(error.kind, CallErrorKind::Lost(_)), "{way:?}: {error}");
            assert_eq!(began.elapsed(), Duration::ZERO, "{way:?}: {error}");
            assert_eq!(result_text(eventually(session.call("add", &add(1))).await), "2", "{way:?}");
        }
    }
}

#[tokio::test]
async fn a_pooled_connection_that_was_closed_is_replaced_and_the_call_runs_once() {
    for way in [Way::Json, Way::Events] {
        for end in [
            NetworkFault::HalfCloseAfter(0),
            NetworkFault::ResetAfter(0),
            NetworkFault::ResetAfterReceiving(0),
            NetworkFault::GarbageAfter(0),
        ] {
            let server = way.server(Script::good());
            let listening = server.listen().await;
            let evil = EvilPeer::before(listening.address()).await;
            let session = way.over_tcp(evil.address(), hasty());
            assert_eq!(result_text(soon(session.call("add", &add(1))).await), "2");
            // By now the client has sent everything that it sends after connecting.
            until(async || server.requests().iter().any(|seen| seen.method == "GET")).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            let pooled = evil.connections();
            for connection in 1..=pooled {
                evil.set_fault(connection, end.clone());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_eq!(result_text(soon(session.call("add", &add(2))).await), "3", "{way:?}, {end:?}");
            assert_eq!((evil.connections(), ran(&server)[&2]), (pooled + 1, 1), "{way:?}, {end:?}");
            assert_eq!(server.log().count("initialize"), 1);
        }
    }
}

#[tokio::test]
async fn an_unanswered_call_is_retried_only_if_it_is_idempotent() {
    for way in Way::ALL {
        for (hint, runs) in [("readOnlyHint", 2), ("idempotentHint", 2), ("openWorldHint", 1)] {
            let tool = json!({"name": "tool", "inputSchema": {"type": "object"}, "annotations": {hint: true}});
            let script = Script::default().tool(tool).once("tools/call", [Step::Hang]);
            let script = script.on_call("tool", [Step::Text("done".into())]);
            let server = way.server(script);
            let listening = server.listen().await;
            let evil = EvilPeer::before(listening.address()).await;
            let session = way.over_tcp(evil.address(), hasty());
            soon(session.list_tools()).await.unwrap();
            let received = async {
                until(async || server.log().count("tools/call") == 1).await;
                for connection in 1..=evil.connections() {
                    evil.set_fault(connection, NetworkFault::ResetAfterReceiving(0));
                }
            };
            let arguments = none();
            let (result, ()) = soon(async { tokio::join!(session.call("tool", &arguments), received) }).await;
            match &result {
                Ok(output) => assert_eq!((output.text().as_str(), runs), ("done", 2), "{way:?}, {hint}"),
                Err(error) => assert_eq!((error.outcome(), runs), (Outcome::Unknown, 1), "{way:?}, {hint}: {error}"),
            }
            assert_eq!(server.log().count("tools/call"), runs, "{way:?}, {hint}");
            assert_eq!(result_text(soon(session.call("tool", &none())).await), "done", "{way:?}, {hint}");
        }
    }
}

/// How far the server has processed a call when its caller is dropped.
fn stages(way: Way) -> Vec<(&'static str, Vec<Step>)> {
    let progress = |number| Step::Progress(number, 3.0, "on it".into());
    let mut stages = vec![
        ("received it", vec![Step::Hang]),
        ("reported progress", vec![progress(1.0), progress(2.0), Step::Hang]),
        ("sent a notification", vec![Step::Notify("notifications/message".into(), json!({})), Step::Hang]),
    ];
    match way {
        Way::Json => stages.push(("sent its content length", vec![Step::Stall])),
        Way::Events => stages.push(("sent half of an event", vec![Step::RawEvent("data: {\"id\"".into()), Step::Hang])),
        Way::HttpSse | Way::WebSocket => {}
    }
    stages
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_is_canceled_once_at_every_stage() {
    for way in Way::ALL {
        for (stage, steps) in stages(way) {
            for by_deadline in [false, true] {
                let server = way.server(Script::good().any_tool("tool").on_call("tool", steps.clone()));
                let session = way.over(in_memory(&server), legacy());
                eventually(session.connect()).await.unwrap();
                give_up(&session, by_deadline).await;
                settle().await;
                let case = format!("{way:?}, the server has {stage}, by its deadline: {by_deadline}");
                let call = server.log().messages().into_iter().find(|message| message["method"] == "tools/call");
                let cancelled = server.log().last_params("notifications/cancelled").unwrap_or_default();
                assert_eq!(cancelled["requestId"], call.unwrap()["id"], "{case}");
                for number in 0..3 {
                    assert_eq!(
                        result_text(eventually(session.call("add", &add(number))).await),
                        (number + 1).to_string()
                    );
                }
                tokio::time::sleep(seconds(600)).await;
                assert_eq!(server.log().count("notifications/cancelled"), 1, "{case}");
                assert_eq!(server.log().count("initialize"), 1, "{case}");
            }
        }
    }
}

/// Calls the tool and stops waiting after a second.
async fn give_up(session: &Session, by_deadline: bool) {
    if by_deadline {
        let options = CallOptions { total: Some(seconds(1)), ..CallOptions::default() };
        let error = eventually(session.call_with("tool", &none(), options)).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Timeout { .. }), "{error}");
    } else {
        assert!(tokio::time::timeout(seconds(1), session.call("tool", &none())).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_calls_free_their_slots() {
    for way in [Way::Json, Way::WebSocket] {
        let server = way.server(Script::good().any_tool("tool").on_call("tool", [Step::Hang]));
        let session = way.over(in_memory(&server), legacy());
        eventually(session.connect()).await.unwrap();
        // More than may be in flight.
        for _ in 0..11 {
            let calls = (0..100).map(|_| async { give_up(&session, false).await });
            eventually(futures_util::future::join_all(calls)).await;
        }
        settle().await;
        assert_eq!(result_text(eventually(session.call("add", &add(1))).await), "2", "{way:?}");
        tokio::time::sleep(seconds(10)).await;
        assert_eq!(server.log().count("notifications/cancelled"), 1100, "{way:?}");
    }
}
