//! Subscriptions and the log level, which are restored on every new connection.

use std::sync::{Arc, Mutex};

use serde_json::json;
use wharf_client::{Host, LogLevel, Notification, Session, SessionOptions};
use wharf_testkit::{Script, Step, eventually, soon, until};

use crate::peers::{EVERYTHING, NODE, stdio};
use crate::{in_memory, json, none, settle};

/// A legacy server that accepts all subscriptions.
fn subscribable() -> Script {
    Script::good()
        .on("resources/subscribe", [Step::Result(json!({}))])
        .on("resources/unsubscribe", [Step::Result(json!({}))])
        .any_tool("die")
        .on_call("die", [Step::HangUp])
}

#[tokio::test(start_paused = true)]
async fn subscriptions_and_the_log_level_are_restored_on_a_new_connection() {
    let (session, server) = in_memory(subscribable());
    eventually(session.set_log_level(LogLevel::Warning)).await.unwrap();
    eventually(session.subscribe("note://one")).await.unwrap();
    eventually(session.subscribe("note://two")).await.unwrap();
    eventually(session.unsubscribe("note://one")).await.unwrap();
    assert!(eventually(session.call("die", &none())).await.is_err());
    eventually(session.ping()).await.unwrap();
    settle().await;
    let methods = server.log().methods().join(" ");
    assert!(methods.starts_with(
        "initialize notifications/initialized logging/setLevel resources/subscribe resources/subscribe \
        resources/unsubscribe tools/call initialize notifications/initialized"
    ));
    // Both are restored, and the canceled one is not.
    assert_eq!(server.log().count("logging/setLevel"), 2, "{methods}");
    assert_eq!(server.log().count("resources/subscribe"), 3, "{methods}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_subscription_is_not_restored() {
    let refusing = Script::good().any_tool("die").on_call("die", [Step::HangUp]);
    let (session, server) = in_memory(refusing);
    let error = eventually(session.subscribe("note://one")).await.unwrap_err();
    assert_eq!(error.code(), Some(-32601));
    assert!(eventually(session.call("die", &none())).await.is_err());
    eventually(session.ping()).await.unwrap();
    settle().await;
    assert_eq!(server.log().count("resources/subscribe"), 1);
}

/// Records notifications.
#[derive(Default)]
struct Listener(Mutex<Vec<String>>);

impl Host for Listener {
    fn notify(&self, notice: Notification) {
        if let Notification::ResourceUpdated { uri } = notice {
            self.0.lock().unwrap().push(uri);
        }
    }
}

#[tokio::test]
async fn the_official_everything_server_sends_updates_until_unsubscribed() {
    let host = Arc::new(Listener::default());
    let uri = "demo://resource/dynamic/text/1";
    let transport = Arc::new(stdio(&[NODE, EVERYTHING, "stdio"]));
    let shared: Arc<dyn Host> = Arc::<Listener>::clone(&host);
    let session = Session::with_shared("everything".parse().unwrap(), transport, shared, SessionOptions::default());
    soon(session.subscribe(uri)).await.unwrap();
    soon(session.call("toggle-subscriber-updates", &json(json!({})))).await.unwrap();
    until(async || host.0.lock().unwrap().contains(&uri.to_owned())).await;
    soon(session.unsubscribe(uri)).await.unwrap();
    soon(session.close()).await;
}
