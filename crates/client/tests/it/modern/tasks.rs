//! Calls that the server turns into tasks, which is transparent for the caller.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use wharf_client::{
    CallErrorKind, CallOptions, Deadline, Http, Outcome, ProtocolMode, RemoteOptions, Session, SessionOptions,
};
use wharf_testkit::{EvilPeer, NetworkFault, soon};

use super::{Behavior, Peer, Person, closes, expected_of_every_peer, expected_over_http};
use crate::peers::call;
use crate::{json as to_json, none, result_text};

expected_of_every_peer! {
    a_task_is_polled_until_it_completes
    a_dropped_task_is_canceled
}

expected_over_http! {
    a_task_is_canceled_even_if_its_session_is_closed_immediately
    a_short_outage_does_not_end_a_task
}

async fn a_task_is_polled_until_it_completes(peer: Peer) {
    let session = peer.session(&Person::helpful());
    assert_eq!(call(&session, "task_after", json!({"ms": 0})).await, "finished");
    assert_eq!(call(&session, "task_after", json!({"ms": 150})).await, "finished");
    assert_eq!(call(&session, "task_after", json!({"ms": 10, "is_error": true})).await, "failed: finished");
    let error = soon(session.call("task_fail", &to_json(json!({"ms": 100})))).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Some(-32603), Outcome::Answered));
    assert!(error.to_string().contains("it broke"), "{error}");
    assert_eq!(call(&session, "task_ask", json!({})).await, "Ada 36");
    closes(&peer, &session).await;

    let session = peer.session(&Arc::new(Person::able(Behavior::Declining)));
    assert_eq!(call(&session, "task_ask", json!({})).await, "declined");
    closes(&peer, &session).await;
}

async fn a_dropped_task_is_canceled(peer: Peer) {
    let session = peer.session(&Person::listening());
    let cancelled = "task_forever was cancelled";
    let nothing = none();
    let (sender, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let mut listen = |_| {
        let _ = sender.send(());
    };
    let options = CallOptions { progress: Some(&mut listen), ..CallOptions::default() };
    tokio::select! {
        result = session.call_with("task_forever", &nothing, options) => panic!("{}", result_text(result)),
        // The status message of the task is reported as progress.
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

async fn a_task_is_canceled_even_if_its_session_is_closed_immediately(peer: Peer) {
    let session = peer.session(&Person::listening());
    let (sender, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let mut listen = |_| {
        let _ = sender.send(());
    };
    let nothing = none();
    let options = CallOptions { progress: Some(&mut listen), ..CallOptions::default() };
    tokio::select! {
        result = session.call_with("task_forever", &nothing, options) => panic!("{}", result_text(result)),
        _ = begun.recv() => {}
    }
    closes(&peer, &session).await;
    peer.says(&session, "task_forever was cancelled", 1).await;
}

async fn a_short_outage_does_not_end_a_task(peer: Peer) {
    let between = EvilPeer::before(peer.address()).await;
    let url = format!("http://{}/mcp", between.address());
    let transport = Http::new(&url, RemoteOptions::default()).unwrap();
    let options = SessionOptions { protocol: ProtocolMode::Modern, ..SessionOptions::default() };
    let session = Session::with_shared("peer".parse().unwrap(), Arc::new(transport), Person::listening(), options);
    let (sender, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let mut listen = |_| {
        let _ = sender.send(());
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
    assert_eq!(result_text(result), "finished");
    closes(&peer, &session).await;
}
