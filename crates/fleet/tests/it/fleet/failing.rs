//! Servers that fail: retries, their delays, and the status until then.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::time::Instant;
use wharf_client::{BoxFuture, InProcess, Link, OpenError, Transport};
use wharf_fleet::{Fleet, FleetOptions, Reconnection, ServerSpec, ServerState};
use wharf_testkit::{HttpScripted, Script, Scripted, Step, eventually, soon, until};

use super::{LONG, call, custom, entry, in_memory, name, offered, open, over_http, reaches, summary};

/// A transport that fails to open a number of times.
struct Shaky {
    failures: AtomicUsize,
    opened: Arc<AtomicUsize>,
    inner: Box<dyn Transport>,
}

impl Transport for Shaky {
    fn open(&self) -> BoxFuture<'_, Result<Link, OpenError>> {
        Box::pin(async {
            self.opened.fetch_add(1, Ordering::SeqCst);
            let left = self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            match left {
                Ok(_) => Err(OpenError::Other("connection refused".into())),
                Err(_) => self.inner.open().await,
            }
        })
    }
}

fn shaky(failures: usize, script: Script) -> (wharf_fleet::Server, Arc<AtomicUsize>) {
    let server = Scripted::new(script);
    let opened = Arc::<AtomicUsize>::default();
    let inner = Box::new(InProcess::new(move |stream| server.clone().serve(stream)));
    let transport = Shaky { failures: failures.into(), opened: Arc::clone(&opened), inner };
    (custom("shaky", transport), opened)
}

/// The history of a server: seconds since the start, state and reason.
async fn history(fleet: &Fleet, text: &str, until: ServerState) -> String {
    let began = Instant::now();
    let mut changes = fleet.changes();
    let mut seen = Vec::<String>::new();
    loop {
        let status = fleet.status(&name(text)).unwrap();
        let waits = if status.next_try.is_some() { ", retry scheduled" } else { "" };
        let reason = status.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        let line = format!("{}{reason}{waits}", status.state);
        if seen.last().is_none_or(|last| last.split_once(' ').unwrap().1 != line) {
            seen.push(format!("{:.0} {line}", began.elapsed().as_secs_f64().floor()));
        }
        if status.state == until {
            return seen.join("\n");
        }
        eventually(changes.changed()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_transient_failure_is_retried_and_pending_without_tools_until_then() {
    let (server, opened) = shaky(2, Script::good());
    let fleet = open([server]);
    assert!(fleet.settled(LONG).await, "one attempt is an answer");
    assert_eq!(summary(&fleet), "shaky pending 0: connection refused");
    assert!(offered(&fleet).is_empty());
    let status = fleet.status(&name("shaky")).unwrap();
    assert!(status.next_try.unwrap() > Instant::now() && status.failures == 1);
    eventually(reaches(&fleet, "shaky", ServerState::Connected)).await;
    assert_eq!((summary(&fleet).as_str(), opened.load(Ordering::SeqCst)), ("shaky connected 2", 3));
    let since = fleet.status(&name("shaky")).unwrap().since;
    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    assert_eq!(fleet.status(&name("shaky")).unwrap().since, since);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_keeps_failing_is_retried_less_and_less_often() {
    let (server, opened) = shaky(8, Script::good());
    let fleet = open([server]);
    let mut pauses = Vec::new();
    let mut began = Instant::now();
    for attempts in 1..=6 {
        let attempt = async {
            while opened.load(Ordering::SeqCst) < attempts {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        eventually(attempt).await;
        pauses.push(began.elapsed().as_secs_f64());
        began = Instant::now();
    }
    // Each pause is twice the one before, and up to a quarter longer.
    for (pause, least) in pauses[1..].iter().zip([1.0, 2.0, 4.0, 8.0, 16.0]) {
        assert!((least..=least * 1.25 + 0.1).contains(pause), "{pauses:?}");
    }
    eventually(reaches(&fleet, "shaky", ServerState::Failed)).await;
    let status = fleet.status(&name("shaky")).unwrap();
    assert!(status.next_try.unwrap() - Instant::now() >= std::time::Duration::from_secs(299));
    eventually(reaches(&fleet, "shaky", ServerState::Connected)).await;
}

#[tokio::test(start_paused = true)]
async fn retry_connects_at_once() {
    let (server, opened) = shaky(1, Script::good());
    let fleet = open([server]);
    fleet.settled(LONG).await;
    let began = Instant::now();
    fleet.retry(&name("shaky")).await.unwrap();
    eventually(reaches(&fleet, "shaky", ServerState::Connected)).await;
    assert!(began.elapsed().as_millis() < 900, "{:?}", began.elapsed());
    assert_eq!(opened.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn without_reconnection_a_failure_is_final() {
    let (server, opened) = shaky(1, Script::good());
    let options = FleetOptions { reconnection: Reconnection::NONE, ..FleetOptions::default() };
    let fleet = Fleet::open([ServerSpec::from(server)], options);
    fleet.settled(LONG).await;
    assert_eq!(summary(&fleet), "shaky failed 0: connection refused");
    tokio::time::advance(LONG).await;
    assert_eq!(opened.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_is_final_and_affects_no_other_server() {
    let refusing = Scripted::new(
        Script::good()
            .on("initialize", [Step::Error(-32000, "not you".into())])
            .on("server/discover", [Step::Error(-32000, "not you".into())]),
    );
    let fleet = open([in_memory("good", &Scripted::new(Script::good())), in_memory("refusing", &refusing)]);
    assert!(fleet.settled(LONG).await);
    let status = fleet.status(&name("refusing")).unwrap();
    assert_eq!((status.state, status.next_try), (ServerState::Failed, None));
    assert_eq!(offered(&fleet), ["mcp__good__echo", "mcp__good__add"]);
    assert_eq!(call(&entry(&fleet, "mcp__good__add"), json!({"a": 1, "b": 1})).await.unwrap().text(), "2");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_keeps_disconnecting_recovers() {
    let script = Script::good().times(3, "tools/list", [Step::Normally, Step::HangUp]);
    let fleet = open([in_memory("shy", &Scripted::new(script))]);
    let seen = history(&fleet, "shy", ServerState::Failed);
    // It works after three failures, so it never counts as failed.
    let ended = tokio::time::timeout(std::time::Duration::from_secs(60), seen).await;
    assert!(ended.is_err());
    assert_eq!(summary(&fleet), "shy connected 2");
}

#[tokio::test]
async fn a_server_that_requires_authorization_needs_auth_and_is_not_retried() {
    let refuse = Step::Http { status: 401, headers: Vec::new(), body: String::new() };
    let server = HttpScripted::new(Script::good().on("initialize", [refuse.clone()]).on("server/discover", [refuse]));
    let (secured, _listening) = over_http("secured", &server).await;
    let fleet = open([secured]);
    assert!(soon(fleet.settled(LONG)).await);
    assert_eq!(summary(&fleet), "secured needs-auth 0: authorization required (HTTP 401)");
    assert_eq!(fleet.status(&name("secured")).unwrap().next_try, None);
    assert!(offered(&fleet).is_empty());
    let asked = server.requests().len();
    // After a sign-in, the user requests an attempt.
    fleet.retry(&name("secured")).await.unwrap();
    until(async || server.requests().len() > asked).await;
    soon(fleet.close()).await;
}

#[tokio::test]
async fn a_call_notices_a_lost_remote_server_and_the_fleet_reconnects() {
    let server = HttpScripted::new(Script::good());
    let (remote, listening) = over_http("remote", &server).await;
    let address = listening.address();
    let fleet = open([remote]);
    soon(fleet.settled(LONG)).await;
    let add = entry(&fleet, "mcp__remote__add");
    assert_eq!(soon(call(&add, json!({"a": 1, "b": 1}))).await.unwrap().text(), "2");
    drop(listening);
    let error = soon(call(&add, json!({"a": 1, "b": 1}))).await.unwrap_err();
    soon(reaches(&fleet, "remote", ServerState::Pending)).await;
    assert!(offered(&fleet).is_empty(), "{error}");
    let listening = server.listen_on(address).await.unwrap();
    soon(reaches(&fleet, "remote", ServerState::Connected)).await;
    let add = entry(&fleet, "mcp__remote__add");
    assert_eq!(soon(call(&add, json!({"a": 2, "b": 1}))).await.unwrap().text(), "3");
    drop(listening);
    soon(fleet.close()).await;
}

#[tokio::test(start_paused = true)]
async fn an_attempt_to_reconnect_does_not_hide_why_the_server_is_down() {
    let script = Script::good()
        .any_tool("die")
        .on_call("die", [Step::HangUp])
        .once("initialize", [Step::Normally])
        .on("initialize", [Step::Wait(20_000), Step::Normally]);
    let fleet = open([in_memory("s", &Scripted::new(script))]);
    fleet.settled(LONG).await;
    let _ = call(&entry(&fleet, "mcp__s__die"), json!({})).await;
    let mut changes = fleet.changes();
    let is_connecting =
        || fleet.status(&name("s")).unwrap().reason.is_some_and(|reason| reason.to_string() == "connecting");
    while !is_connecting() {
        eventually(changes.changed()).await.unwrap();
    }
    let absent = fleet.catalog().absent()[0].to_string();
    assert!(absent.contains("reconnecting") && !absent.contains("down: connecting"), "{absent}");
    eventually(reaches(&fleet, "s", ServerState::Connected)).await;
    assert!(fleet.catalog().absent().is_empty());
}
