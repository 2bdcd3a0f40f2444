//! Behavior that good servers do not show on demand: scripted servers under a paused clock.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use wharf_client::{
    CallErrorKind, CallOptions, Deadline, Http, InProcess, ProtocolMode, Session, SessionOptions, Transport,
};
use wharf_testkit::{HttpScripted, ResponseFormat, Script, Scripted, Step, eventually};

use super::Person;
use crate::none;
use crate::remote::{in_memory, options};

fn script() -> Script {
    let capabilities = json!({"tools": {"listChanged": true}});
    let found = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities});
    Script::good().on("server/discover", [Step::Result(found)])
}

fn session(transport: impl Transport, person: &Arc<Person>) -> Session {
    let options = SessionOptions { protocol: ProtocolMode::Modern, ..SessionOptions::default() };
    Session::with_shared("scripted".parse().unwrap(), Arc::new(transport), Arc::<Person>::clone(person), options)
}

/// A session with a scripted server in memory.
fn over_a_pipe(script: Script, person: &Arc<Person>) -> (Session, Scripted) {
    let server = Scripted::new(script);
    let copy = server.clone();
    (session(InProcess::new(move |stream| copy.clone().serve(stream)), person), server)
}

/// The server acknowledges notifications about its tools.
fn agrees() -> Step {
    let agreed: Value = json!({"notifications": {"toolsListChanged": true}});
    Step::Notify("notifications/subscriptions/acknowledged".to_owned(), agreed)
}

const LISTEN: &str = "subscriptions/listen";

#[tokio::test(start_paused = true)]
async fn the_total_limit_covers_all_rounds() {
    let again = json!({"resultType": "input_required", "requestState": "again"});
    let script = script().any_tool("again").on_call("again", [Step::Wait(400), Step::Result(again)]);
    let (session, server) = over_a_pipe(script, &Person::helpful());
    eventually(session.connect()).await.unwrap();
    let began = tokio::time::Instant::now();
    let options = CallOptions { total: Some(Duration::from_secs(1)), ..CallOptions::default() };
    let error = eventually(session.call_with("again", &none(), options)).await.unwrap_err();
    let CallErrorKind::Timeout { deadline: Deadline::Total, after } = error.kind else { panic!("{error}") };
    assert_eq!(after, Duration::from_secs(1));
    assert!((1000..1010).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    assert_eq!(server.log().count("tools/call"), 3);
}

#[tokio::test(start_paused = true)]
async fn listen_requests_back_off_while_the_server_keeps_ending_them() {
    let ends = [agrees(), Step::Result(json!({"resultType": "complete"}))];
    let (session, server) = over_a_pipe(script().on(LISTEN, ends), &Person::listening());
    eventually(session.connect()).await.unwrap();
    let mut before = 0;
    for most in [11, 5, 5, 5] {
        tokio::time::sleep(Duration::from_secs(300)).await;
        let now = server.log().count(LISTEN);
        // About once a minute in the end, and forever: cached results depend on it.
        assert!((4..=most).contains(&(now - before)), "{before} {now}");
        before = now;
    }
}

#[tokio::test(start_paused = true)]
async fn a_canceled_listen_request_is_sent_again() {
    let taken_back = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{id}}}"#;
    let script = script()
        .once(LISTEN, [agrees(), Step::Line(taken_back.to_owned()), Step::Hang])
        .on(LISTEN, [agrees(), Step::Hang]);
    let person = Person::listening();
    let (session, server) = over_a_pipe(script, &person);
    eventually(session.connect()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((server.log().count(LISTEN), person.tools_changed()), (2, 1));
    assert_eq!(session.health().violations, 0);
}

#[tokio::test(start_paused = true)]
async fn listening_resumes_after_a_long_outage() {
    let away = || [Step::Http { status: 502, headers: Vec::new(), body: String::new() }];
    let script = (0..20).fold(script(), |script, _| script.once(LISTEN, away())).on(LISTEN, [agrees(), Step::Hang]);
    let server = HttpScripted::new(script).with_response_format(ResponseFormat::Sse).without_sessions();
    let transport = Http::new("http://server.test/mcp", options(in_memory(&server))).unwrap();
    let person = Person::listening();
    let session = session(transport, &person);
    eventually(session.connect()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60 * 60)).await;
    assert_eq!((server.log().count(LISTEN), person.tools_changed()), (21, 1));
}
