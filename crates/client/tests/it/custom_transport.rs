//! Custom transports: pairs of byte streams or message streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use wharf_client::{Link, NoHost, PeerHandle, Session};
use wharf_testkit::{Script, Scripted, eventually};

use crate::{json, legacy, result_text};

#[tokio::test(start_paused = true)]
async fn a_pair_of_byte_streams_is_a_transport_and_is_reopened_at_each_restart() {
    let opened = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&opened);
    let server = Scripted::new(Script::good());
    let tasks = Arc::new(std::sync::Mutex::new(tokio::task::JoinSet::new()));
    let parent = Arc::clone(&tasks);
    let transport = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        let (ours, theirs) = tokio::io::duplex(1024);
        parent.lock().unwrap().spawn(server.clone().serve(theirs));
        async {
            let (reader, writer) = tokio::io::split(ours);
            Ok(Link::from_bytes(reader, writer))
        }
    };
    let session = Session::new("bytes".parse().unwrap(), transport, NoHost, legacy());
    for _ in 0..3 {
        assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 20, "b": 22})))).await), "42");
        eventually(session.close()).await;
    }
    assert_eq!(opened.load(Ordering::Relaxed), 3);
}

/// Answers every request with its own method.
fn answer(request: &Bytes) -> Option<String> {
    let request: Value = serde_json::from_slice(request).unwrap();
    let id = request.get("id")?;
    let result = match request["method"].as_str().unwrap() {
        "initialize" => {
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "messages"}})
        }
        method => json!({"content": [{"type": "text", "text": method}]}),
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
}

#[tokio::test(start_paused = true)]
async fn a_pair_of_message_streams_is_a_transport_too() {
    let transport = || async {
        let (sender, receiver) = mpsc::channel::<String>(8);
        let incoming = stream::unfold(receiver, async |mut receiver| Some((Ok(receiver.recv().await?), receiver)));
        let outgoing = futures_util::sink::unfold(sender, async |sender, message: Bytes| {
            if let Some(answer) = answer(&message) {
                sender.send(answer).await.map_err(std::io::Error::other)?;
            }
            Ok(sender)
        });
        Ok(Link::from_messages(incoming.boxed(), outgoing.sink_map_err(|error: std::io::Error| error)))
    };
    let session = Session::new("messages".parse().unwrap(), transport, NoHost, legacy());
    assert_eq!(result_text(eventually(session.call("any", &json(json!({})))).await), "tools/call");
    assert_eq!(session.connect().await.unwrap().revision, "2025-06-18");
    assert_eq!(session.session_id(), None);
}

#[tokio::test(start_paused = true)]
async fn a_custom_transport_can_report_a_session_id_while_connected() {
    struct Remote;
    impl PeerHandle for Remote {
        fn session_id(&self) -> Option<String> {
            Some("abc".to_owned())
        }
    }
    let server = Scripted::new(Script::good());
    let tasks = std::sync::Mutex::new(tokio::task::JoinSet::new());
    let transport = move || {
        let (ours, theirs) = tokio::io::duplex(1024);
        tasks.lock().unwrap().spawn(server.clone().serve(theirs));
        async {
            let (reader, writer) = tokio::io::split(ours);
            Ok(Link::from_bytes(reader, writer).with_peer(Remote))
        }
    };
    let session = Session::new("remote".parse().unwrap(), transport, NoHost, legacy());
    assert_eq!(session.session_id(), None);
    eventually(session.ping()).await.unwrap();
    assert_eq!(session.session_id().as_deref(), Some("abc"));
    eventually(session.close()).await;
    assert_eq!(session.session_id(), None);
}
