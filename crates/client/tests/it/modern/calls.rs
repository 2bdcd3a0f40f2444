//! Who the server is, what it is told with every request, and calls that report, are given up and end with the session.

use std::time::Duration;

use serde_json::{Value, json};
use wharf_client::{CallOptions, LogLevel, Notification, SessionOptions, TraceContext};
use wharf_testkit::{children_of, soon, until};

use super::{Peer, Person, Sdk, closes, expected_of_every_peer};
use crate::peers::{call, with_progress};
use crate::{json as to_json, none, told};

expected_of_every_peer! {
    the_server_says_who_it_is_and_is_told_who_we_are
    progress_is_heard_and_a_call_that_is_dropped_is_cancelled
    a_session_that_listens_closes_at_once_and_opens_again
}

async fn the_server_says_who_it_is_and_is_told_who_we_are(peer: Peer) {
    let person = Person::helpful();
    let options = SessionOptions {
        client_name: "tester".to_owned(),
        client_version: "7.8.9".to_owned(),
        extensions: [("com.example/x".to_owned(), json!({"y": 1}))].into_iter().collect(),
        ..SessionOptions::default()
    };
    let session = peer.session_with(&person, &[], options);
    let info = soon(session.connect()).await.unwrap();
    let name = if peer.sdk == Sdk::Python { "wharf-peer-mcp2-modern" } else { "wharf-peer-rmcp" };
    assert_eq!((info.name.as_str(), info.version.as_str(), info.revision.as_str()), (name, "1.2.3", "2026-07-28"));
    assert_eq!(info.protocol(), "2026-07-28 (modern)");
    assert_eq!(info.instructions.as_deref(), Some("Be kind."));
    assert_eq!(info.extension("io.modelcontextprotocol/tasks").unwrap().as_str(), "{}");
    assert!(info.extension("com.example/x").is_none());
    assert!(session.session_id().is_none());
    soon(session.ping()).await.unwrap();

    let meta = async |options| {
        let text = told(soon(session.call_with("meta", &none(), options)).await);
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let trace = TraceContext::new(parent).unwrap().with_state("a=1").with_baggage("b=2");
    let said = meta(CallOptions { trace: Some(trace), ..CallOptions::default() }).await;
    let key = |key: &str| &said[format!("io.modelcontextprotocol/{key}")];
    assert_eq!(key("protocolVersion"), "2026-07-28");
    assert_eq!(*key("clientInfo"), json!({"name": "tester", "version": "7.8.9"}));
    let extensions = json!({"com.example/x": {"y": 1}, "io.modelcontextprotocol/tasks": {}});
    let capabilities =
        json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}, "extensions": extensions});
    assert_eq!(*key("clientCapabilities"), capabilities);
    assert_eq!(*key("logLevel"), Value::Null);
    assert_eq!(
        (&said["traceparent"], &said["tracestate"], &said["baggage"]),
        (&json!(parent), &json!("a=1"), &json!("b=2"))
    );
    assert_eq!(person.times(|notice| matches!(notice, Notification::Log { .. })), 0);

    soon(session.set_log_level(LogLevel::Info)).await.unwrap();
    let said = meta(CallOptions::default()).await;
    assert_eq!(said["io.modelcontextprotocol/logLevel"], "info");
    assert!(said.get("traceparent").is_none());
    let logged = |wanted: LogLevel, words: &str| {
        let data = json!(words).to_string();
        person.times(|notice| {
            matches!(notice, Notification::Log { level: Some(level), logger: Some(logger), data: said }
                if *level == wanted && logger == "peer" && said.as_str() == data)
        })
    };
    until(async || logged(LogLevel::Info, "a line of info") == 1 && logged(LogLevel::Error, "a line of error") == 1)
        .await;
    assert_eq!(person.times(|notice| matches!(notice, Notification::Log { .. })), 2);
    closes(&peer, &session).await;
}

async fn progress_is_heard_and_a_call_that_is_dropped_is_cancelled(peer: Peer) {
    let session = peer.session(&Person::listening());
    let (steps, answer) = with_progress(&session, "slow", json!({"steps": 3, "delay_ms": 20})).await;
    assert_eq!(steps, ["1 of 3 step 1 of 3", "2 of 3 step 2 of 3", "3 of 3 step 3 of 3"]);
    assert_eq!(answer, "finished 3 steps");

    let (tell, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let mut listen = |_| {
        let _ = tell.send(());
    };
    let options = CallOptions { progress: Some(&mut listen), ..CallOptions::default() };
    let endless = to_json(json!({"steps": 1000, "delay_ms": 50}));
    tokio::select! {
        result = session.call_with("slow", &endless, options) => panic!("{}", told(result)),
        _ = begun.recv() => {}
    }
    peer.says(&session, "slow was cancelled", 1).await;
    assert_eq!(call(&session, "echo", json!({"text": "still"})).await, "still");
    assert_eq!(session.health().connections, 1);
    closes(&peer, &session).await;
}

async fn a_session_that_listens_closes_at_once_and_opens_again(peer: Peer) {
    let person = Person::listening();
    let session = peer.session(&person);
    soon(session.subscribe("note://hello")).await.unwrap();
    // A call that nobody waits for may be under way too.
    let endless = to_json(json!({"steps": 1000, "delay_ms": 50}));
    assert!(tokio::time::timeout(Duration::from_millis(50), session.call("slow", &endless)).await.is_err());
    closes(&peer, &session).await;

    assert_eq!(call(&session, "touch", json!({"uri": "note://hello"})).await, "touched note://hello");
    // What was wanted before is wanted still.
    until(async || person.updates("note://hello") >= 1).await;
    assert_eq!(session.health().connections, 2);
    // One that is merely dropped leaves nothing behind either.
    drop(session);
    let own = usize::from(peer.is_http());
    until(async || children_of(std::process::id()).len() == own).await;
}
