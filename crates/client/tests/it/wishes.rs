//! What a host wants for as long as it uses a server: word of resources that change, and how much is logged.

use std::sync::{Arc, Mutex};

use serde_json::json;
use wharf_client::{Host, LogLevel, Notification, Session, SessionOptions};
use wharf_testkit::{Script, Step, eventually, soon, until};

use crate::peers::{EVERYTHING, NODE, stdio};
use crate::{in_memory, json, none, settle};

/// A server of the old era that agrees to everything it is asked to tell.
fn telling() -> Script {
    Script::good()
        .on("resources/subscribe", [Step::Result(json!({}))])
        .on("resources/unsubscribe", [Step::Result(json!({}))])
        .any_tool("die")
        .on_call("die", [Step::HangUp])
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_connected_anew_is_told_again_what_it_was_told() {
    let (session, server) = in_memory(telling());
    eventually(session.set_log_level(LogLevel::Warning)).await.unwrap();
    eventually(session.subscribe("note://one")).await.unwrap();
    eventually(session.subscribe("note://two")).await.unwrap();
    eventually(session.unsubscribe("note://one")).await.unwrap();
    assert!(eventually(session.call("die", &none())).await.is_err());
    eventually(session.ping()).await.unwrap();
    settle().await;
    let said = server.log().methods().join(" ");
    assert!(said.starts_with(
        "initialize notifications/initialized logging/setLevel resources/subscribe resources/subscribe \
        resources/unsubscribe tools/call initialize notifications/initialized"
    ));
    // Both again, and nothing that was taken back.
    assert_eq!(server.log().count("logging/setLevel"), 2, "{said}");
    assert_eq!(server.log().count("resources/subscribe"), 3, "{said}");
}

#[tokio::test(start_paused = true)]
async fn what_a_server_refuses_is_not_asked_of_the_next_one() {
    let refusing = Script::good().any_tool("die").on_call("die", [Step::HangUp]);
    let (session, server) = in_memory(refusing);
    let error = eventually(session.subscribe("note://one")).await.unwrap_err();
    assert_eq!(error.code(), Some(-32601));
    assert!(eventually(session.call("die", &none())).await.is_err());
    eventually(session.ping()).await.unwrap();
    settle().await;
    assert_eq!(server.log().count("resources/subscribe"), 1);
}

/// Keeps what it is told.
#[derive(Default)]
struct Listener(Mutex<Vec<String>>);

impl Host for Listener {
    fn notice(&self, notice: Notification) {
        if let Notification::ResourceUpdated { uri } = notice {
            self.0.lock().unwrap().push(uri);
        }
    }
}

#[tokio::test]
async fn the_official_everything_server_tells_of_a_resource_until_it_need_not() {
    let (host, uri) = (Arc::new(Listener::default()), "demo://resource/dynamic/text/1");
    let transport = Arc::new(stdio(&[NODE, EVERYTHING, "stdio"]));
    let told: Arc<dyn Host> = Arc::<Listener>::clone(&host);
    let session = Session::with_shared("everything".parse().unwrap(), transport, told, SessionOptions::default());
    soon(session.subscribe(uri)).await.unwrap();
    soon(session.call("toggle-subscriber-updates", &json(json!({})))).await.unwrap();
    until(async || host.0.lock().unwrap().contains(&uri.to_owned())).await;
    soon(session.unsubscribe(uri)).await.unwrap();
    soon(session.close()).await;
}
