//! Sessions that one process detaches and another resumes.

use std::sync::Arc;

use serde_json::json;
use wharf_client::{NoHost, SavedSession, Session, SessionOptions};
use wharf_testkit::{GetBehavior, HttpScripted, Script, eventually};

use crate::remote::{http, http_with, in_memory, options};
use crate::{json, legacy, result_text, settle};

/// How often the server was asked to end its session.
fn end_requests(server: &HttpScripted) -> usize {
    server.requests().iter().filter(|seen| seen.method == "DELETE").count()
}

fn add() -> wharf_protocol::Json {
    json(json!({"a": 1, "b": 1}))
}

/// Uses a session and detaches it. The saved session is serialized and deserialized.
async fn left(server: &HttpScripted) -> SavedSession {
    let (session, _) = http(server);
    assert_eq!(session.detach(), None, "not connected yet");
    assert_eq!(result_text(eventually(session.call("add", &add())).await), "2");
    let saved = session.detach().unwrap();
    eventually(session.close()).await;
    settle().await;
    assert!(!format!("{saved:?}").contains("session-1"), "{saved:?}");
    serde_json::from_str(&serde_json::to_string(&saved).unwrap()).unwrap()
}

fn resuming(server: &HttpScripted, saved: SavedSession, other: SessionOptions) -> Session {
    let settings = SessionOptions { resume: Some(Arc::new(saved)), ..other };
    http_with(options(in_memory(server)), NoHost, settings).0
}

#[tokio::test(start_paused = true)]
async fn another_process_resumes_a_session_without_a_handshake() {
    let server = HttpScripted::new(Script::good()).with_get(GetBehavior::Stream);
    let saved = left(&server).await;
    assert_eq!((end_requests(&server), server.open_connections()), (0, 0));
    let before = server.requests().len();
    let session = resuming(&server, saved, SessionOptions::default());
    let info = eventually(session.connect()).await.unwrap();
    assert_eq!((info.name.as_str(), info.revision.as_str()), ("scripted", "2025-11-25"));
    assert_eq!(result_text(eventually(session.call("add", &add())).await), "2");
    assert_eq!((server.log().count("initialize"), session.session_id().as_deref()), (1, Some("session-1")));
    for seen in &server.requests()[before..] {
        let sent = ["mcp-session-id", "mcp-protocol-version"].map(|name| seen.headers[name].to_str().unwrap());
        assert_eq!(sent, ["session-1", "2025-11-25"]);
    }
    // Notifications arrive again.
    settle().await;
    assert_eq!(server.open_streams(), 1);
    eventually(session.close()).await;
    assert_eq!(end_requests(&server), 1, "it was not detached again");
}

#[tokio::test(start_paused = true)]
async fn a_resumed_session_that_the_server_lost_is_replaced_by_the_first_call() {
    let server = HttpScripted::new(Script::good());
    let saved = left(&server).await;
    server.wipe();
    let session = resuming(&server, saved, SessionOptions::default());
    assert_eq!(result_text(eventually(session.call("add", &add())).await), "2");
    assert_eq!((server.log().count("initialize"), server.log().count("tools/call")), (2, 3));
    assert_eq!(session.session_id().as_deref(), Some("session-2"));
    // It is not resumed a second time.
    server.wipe();
    assert_eq!(result_text(eventually(session.call("add", &add())).await), "2");
    assert_eq!(session.session_id().as_deref(), Some("session-3"));
}

#[tokio::test(start_paused = true)]
async fn a_saved_session_of_another_server_or_revision_is_ignored() {
    let server = HttpScripted::new(Script::good());
    let saved = serde_json::to_value(left(&server).await).unwrap();
    let mut sessions = 1;
    for (key, value) in [
        ("endpoint", "http://elsewhere.test/mcp"),
        ("protocolVersion", "2026-07-28"),
        ("protocolVersion", "nonsense"),
        ("sessionId", "two\nlines"),
    ] {
        let mut other = saved.clone();
        other[key] = json!(value);
        let session = resuming(&server, serde_json::from_value(other).unwrap(), legacy());
        assert_eq!(result_text(eventually(session.call("add", &add())).await), "2", "{key}");
        sessions += 1;
        assert_eq!(server.log().count("initialize"), sessions, "{key}: {value}");
    }
}
