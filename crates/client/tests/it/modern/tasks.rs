//! Calls that the server makes a task of: whoever called does not notice, but for the time it takes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use wharf_client::{
    CallErrorKind, CallOptions, Deadline, Http, Outcome, ProtocolMode, RemoteOptions, Session, SessionOptions,
};
use wharf_testkit::{EvilPeer, NetworkFault, soon};

use super::{Manner, Peer, Person, closes, expected_of_every_peer, expected_over_http};
use crate::peers::call;
use crate::{json as to_json, none, told};

expected_of_every_peer! {
    a_task_is_followed_to_its_end
    a_task_that_nobody_waits_for_is_cancelled
}

expected_over_http! {
    a_task_is_cancelled_even_when_its_session_is_closed_at_once
    a_server_that_is_away_for_a_moment_does_not_end_its_tasks
}

async fn a_task_is_followed_to_its_end(peer: Peer) {
    let session = peer.session(&Person::helpful());
    assert_eq!(call(&session, "task_after", json!({"ms": 0})).await, "finished");
    assert_eq!(call(&session, "task_after", json!({"ms": 150})).await, "finished");
    assert_eq!(call(&session, "task_after", json!({"ms": 10, "is_error": true})).await, "failed: finished");
    let error = soon(session.call("task_fail", &to_json(json!({"ms": 100})))).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Some(-32603), Outcome::Answered));
    assert!(error.to_string().contains("it broke"), "{error}");
    assert_eq!(call(&session, "task_ask", json!({})).await, "Ada 36");
    closes(&peer, &session).await;

    let session = peer.session(&Arc::new(Person::able(Manner::Declining)));
    assert_eq!(call(&session, "task_ask", json!({})).await, "declined");
    closes(&peer, &session).await;
}

async fn a_task_that_nobody_waits_for_is_cancelled(peer: Peer) {
    let session = peer.session(&Person::listening());
    let (cancelled, nothing) = ("task_forever was cancelled", none());
    let (tell, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let mut listen = |_| {
        let _ = tell.send(());
    };
    let options = CallOptions { progress: Some(&mut listen), ..CallOptions::default() };
    tokio::select! {
        result = session.call_with("task_forever", &nothing, options) => panic!("{}", told(result)),
        // What the task says of itself is told as progress.
        _ = begun.recv() => {}
    }
    peer.says(&session, cancelled, 1).await;

    let options = CallOptions { total: Some(Duration::from_millis(500)), ..CallOptions::default() };
    let error = soon(session.call_with("task_forever", &none(), options)).await.unwrap_err();
    let CallErrorKind::Timeout { deadline: Deadline::Total, after } = error.kind else { panic!("{error}") };
    assert_eq!(after, Duration::from_millis(500));
    peer.says(&session, cancelled, 2).await;
    assert_eq!(call(&session, "echo", json!({"text": "on"})).await, "on");
    closes(&peer, &session).await;
}

async fn a_task_is_cancelled_even_when_its_session_is_closed_at_once(peer: Peer) {
    let session = peer.session(&Person::listening());
    let (tell, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let mut listen = |_| {
        let _ = tell.send(());
    };
    let (nothing, options) = (none(), CallOptions { progress: Some(&mut listen), ..CallOptions::default() });
    tokio::select! {
        result = session.call_with("task_forever", &nothing, options) => panic!("{}", told(result)),
        _ = begun.recv() => {}
    }
    closes(&peer, &session).await;
    peer.says(&session, "task_forever was cancelled", 1).await;
}

async fn a_server_that_is_away_for_a_moment_does_not_end_its_tasks(peer: Peer) {
    let between = EvilPeer::before(peer.address()).await;
    let url = format!("http://{}/mcp", between.address());
    let transport = Http::new(&url, RemoteOptions::default()).unwrap();
    let options = SessionOptions { protocol: ProtocolMode::Modern, ..SessionOptions::default() };
    let session = Session::with_shared("peer".parse().unwrap(), Arc::new(transport), Person::listening(), options);
    let (tell, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let mut listen = |_| {
        let _ = tell.send(());
    };
    let options = CallOptions { progress: Some(&mut listen), ..CallOptions::default() };
    let arguments = to_json(json!({"ms": 1500}));
    let calling = session.call_with("task_after", &arguments, options);
    let striking = async {
        begun.recv().await.unwrap();
        between.set_fault_for_all(NetworkFault::Refuse);
        let refused = between.connections() + 2;
        wharf_testkit::until(async || between.connections() >= refused).await;
        between.set_fault_for_all(NetworkFault::None);
    };
    let (result, ()) = soon(Box::pin(async { tokio::join!(calling, striking) })).await;
    assert_eq!(told(result), "finished");
    closes(&peer, &session).await;
}
