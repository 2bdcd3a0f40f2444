//! Server and client info, progress, cancellation, and closing.

use std::time::Duration;

use serde_json::{Value, json};
use wharf_client::{CallOptions, LogLevel, Notification, SessionOptions, TraceContext};
use wharf_testkit::{children_of, soon, until};

use super::{Peer, Person, Sdk, closes, expected_of_every_peer};
use crate::peers::{call, with_progress};
use crate::{json as to_json, none, result_text};

expected_of_every_peer! {
    server_and_client_info_are_exchanged
    progress_is_reported_and_a_dropped_call_is_canceled
    a_listening_session_closes_immediately_and_reopens
}

async fn server_and_client_info_are_exchanged(peer: Peer) {
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
        let text = result_text(soon(session.call_with("meta", &none(), options)).await);
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let trace = TraceContext::new(parent).unwrap().with_state("a=1").with_baggage("b=2");
    let meta_fields = meta(CallOptions { trace: Some(trace), ..CallOptions::default() }).await;
    let key = |key: &str| &meta_fields[format!("io.modelcontextprotocol/{key}")];
    assert_eq!(key("protocolVersion"), "2026-07-28");
    assert_eq!(*key("clientInfo"), json!({"name": "tester", "version": "7.8.9"}));
    let extensions = json!({"com.example/x": {"y": 1}, "io.modelcontextprotocol/tasks": {}});
    let capabilities =
        json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}, "extensions": extensions});
    assert_eq!(*key("clientCapabilities"), capabilities);
    assert_eq!(*key("logLevel"), Value::Null);
    assert_eq!(
        (&meta_fields["traceparent"], &meta_fields["tracestate"], &meta_fields["baggage"]),
        (&json!(parent), &json!("a=1"), &json!("b=2"))
    );
    assert_eq!(person.times(|notice| matches!(notice, Notification::Log { .. })), 0);

    soon(session.set_log_level(LogLevel::Info)).await.unwrap();
    let meta_fields = meta(CallOptions::default()).await;
    assert_eq!(meta_fields["io.modelcontextprotocol/logLevel"], "info");
    assert!(meta_fields.get("traceparent").is_none());
    let logged = |wanted: LogLevel, text: &str| {
        let data = json!(text).to_string();
        person.times(|notice| {
            matches!(notice, Notification::Log { level: Some(level), logger: Some(source), data: text }
                if *level == wanted && source == "peer" && text.as_str() == data)
        })
    };
    until(async || logged(LogLevel::Info, "a line of info") == 1 && logged(LogLevel::Error, "a line of error") == 1)
        .await;
    assert_eq!(person.times(|notice| matches!(notice, Notification::Log { .. })), 2);
    closes(&peer, &session).await;
}

async fn progress_is_reported_and_a_dropped_call_is_canceled(peer: Peer) {
    let session = peer.session(&Person::listening());
    let (steps, answer) = with_progress(&session, "slow", json!({"steps": 3, "delay_ms": 20})).await;
    assert_eq!(steps, ["1 of 3 step 1 of 3", "2 of 3 step 2 of 3", "3 of 3 step 3 of 3"]);
    assert_eq!(answer, "finished 3 steps");

    let (sender, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let mut listen = |_| {
        let _ = sender.send(());
    };
    let options = CallOptions { progress: Some(&mut listen), ..CallOptions::default() };
    let endless = to_json(json!({"steps": 1000, "delay_ms": 50}));
    tokio::select! {
        result = session.call_with("slow", &endless, options) => panic!("{}", result_text(result)),
        _ = begun.recv() => {}
    }
    peer.says(&session, "slow was cancelled", 1).await;
    assert_eq!(call(&session, "echo", json!({"text": "still"})).await, "still");
    assert_eq!(session.health().connections, 1);
    closes(&peer, &session).await;
}

async fn a_listening_session_closes_immediately_and_reopens(peer: Peer) {
    let person = Person::listening();
    let session = peer.session(&person);
    soon(session.subscribe("note://hello")).await.unwrap();
    // A dropped call may be in flight too.
    let endless = to_json(json!({"steps": 1000, "delay_ms": 50}));
    assert!(tokio::time::timeout(Duration::from_millis(50), session.call("slow", &endless)).await.is_err());
    closes(&peer, &session).await;

    assert_eq!(call(&session, "touch", json!({"uri": "note://hello"})).await, "touched note://hello");
    // The subscription is still wanted.
    until(async || person.updates("note://hello") >= 1).await;
    assert_eq!(session.health().connections, 2);
    // A dropped session leaks nothing either.
    drop(session);
    let own = usize::from(peer.is_http());
    until(async || children_of(std::process::id()).len() == own).await;
}
