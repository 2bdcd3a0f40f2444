//! Sessions that one process leaves with a server and another goes on with.

use std::sync::Arc;

use serde_json::json;
use wharf_client::{NoHost, SavedSession, Session, SessionOptions};
use wharf_testkit::{GetBehavior, HttpScripted, Script, eventually};

use crate::remote::{http, http_with, in_memory, options};
use crate::{json, legacy, settle, told};

/// How often the server was told that its session is over.
fn goodbyes(server: &HttpScripted) -> usize {
    server.requests().iter().filter(|seen| seen.method == "DELETE").count()
}

fn add() -> wharf_protocol::Json {
    json(json!({"a": 1, "b": 1}))
}

/// Uses a session and leaves it; what is left has been written down and read again.
async fn left(server: &HttpScripted) -> SavedSession {
    let (session, _) = http(server);
    assert_eq!(session.detach(), None, "there is no connection yet");
    assert_eq!(told(eventually(session.call("add", &add())).await), "2");
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
async fn another_process_goes_on_with_a_session_without_a_handshake() {
    let server = HttpScripted::new(Script::good()).with_get(GetBehavior::Stream);
    let saved = left(&server).await;
    assert_eq!((goodbyes(&server), server.open_connections()), (0, 0));
    let before = server.requests().len();
    let session = resuming(&server, saved, SessionOptions::default());
    let info = eventually(session.connect()).await.unwrap();
    assert_eq!((info.name.as_str(), info.revision.as_str()), ("scripted", "2025-11-25"));
    assert_eq!(told(eventually(session.call("add", &add())).await), "2");
    assert_eq!((server.log().count("initialize"), session.session_id().as_deref()), (1, Some("session-1")));
    for seen in &server.requests()[before..] {
        let said = ["mcp-session-id", "mcp-protocol-version"].map(|name| seen.headers[name].to_str().unwrap());
        assert_eq!(said, ["session-1", "2025-11-25"]);
    }
    // What the server says unasked is heard again.
    settle().await;
    assert_eq!(server.open_streams(), 1);
    eventually(session.close()).await;
    assert_eq!(goodbyes(&server), 1, "nobody set it aside again");
}

#[tokio::test(start_paused = true)]
async fn one_that_the_server_has_lost_is_begun_anew_by_the_first_call() {
    let server = HttpScripted::new(Script::good());
    let saved = left(&server).await;
    server.wipe();
    let session = resuming(&server, saved, SessionOptions::default());
    assert_eq!(told(eventually(session.call("add", &add())).await), "2");
    assert_eq!((server.log().count("initialize"), server.log().count("tools/call")), (2, 3));
    assert_eq!(session.session_id().as_deref(), Some("session-2"));
    // And not taken up another time.
    server.wipe();
    assert_eq!(told(eventually(session.call("add", &add())).await), "2");
    assert_eq!(session.session_id().as_deref(), Some("session-3"));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_this_servers_or_not_in_its_tongue_is_as_good_as_none() {
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
        assert_eq!(told(eventually(session.call("add", &add())).await), "2", "{key}");
        sessions += 1;
        assert_eq!(server.log().count("initialize"), sessions, "{key}: {value}");
    }
}
