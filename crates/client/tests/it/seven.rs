//! The seven requirements of a session, each under its known name.

use serde_json::json;
use wharf_client::{NoHost, Outcome, SessionOptions};
use wharf_testkit::{HttpScripted, Script, eventually};

use crate::remote::{http, http_with, in_memory, options};
use crate::{json, legacy, none, result_text};

#[tokio::test(start_paused = true)]
async fn the_first_call_initializes_client_and_session() {
    let server = HttpScripted::new(Script::good());
    let (session, transport) = http(&server);
    assert_eq!((transport.clients_made(), server.connections()), (0, 0));
    assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 2})))).await), "3");
    assert_eq!(server.log().methods(), ["initialize", "notifications/initialized", "tools/call"]);
    assert_eq!(transport.clients_made(), 1);
    assert_eq!(session.session_id().as_deref(), Some("session-1"));
}

#[tokio::test(start_paused = true)]
async fn the_session_is_reused_by_later_calls() {
    let server = HttpScripted::new(Script::good());
    let (session, transport) = http(&server);
    for n in 0..10 {
        let sum = eventually(session.call("add", &json(json!({"a": n, "b": 1})))).await;
        assert_eq!(result_text(sum), (n + 1).to_string());
    }
    assert_eq!((server.log().count("initialize"), server.log().count("tools/call")), (1, 10));
    assert_eq!(transport.clients_made(), 1);
    let named: Vec<_> = server.requests().iter().map(|seen| seen.headers.get("mcp-session-id").cloned()).collect();
    assert!(named[0].is_none() && named[1..].iter().all(|id| id.as_ref().is_some_and(|id| id == "session-1")));
}

#[tokio::test(start_paused = true)]
async fn on_404_only_the_session_is_initialized_again_and_the_http_client_is_reused() {
    let server = HttpScripted::new(Script::good());
    let (session, transport) = http(&server);
    assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
    let connections = server.connections();
    let requests = server.requests().len();
    server.wipe();
    assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 2, "b": 2})))).await), "4");

    // The HTTP client was created once, and `initialize` was sent twice.
    assert_eq!(transport.clients_made(), 1);
    assert_eq!(server.log().count("initialize"), 2);
    assert_eq!(server.connections(), connections, "no new connection");
    let posts: Vec<_> =
        server.requests().split_off(requests).into_iter().filter(|seen| seen.method == "POST").collect();
    let methods: Vec<_> = posts.iter().map(|post| method_of(&post.body)).collect();
    assert_eq!(methods, ["tools/call", "initialize", "notifications/initialized", "tools/call"]);
    assert_eq!(posts[3].headers["mcp-session-id"], "session-2");
    assert_eq!(session.session_id().as_deref(), Some("session-2"));
}

fn method_of(body: &str) -> String {
    serde_json::from_str::<serde_json::Value>(body).unwrap()["method"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn retries_end_at_max_retries() {
    let gone = wharf_testkit::Step::Http { status: 404, headers: Vec::new(), body: String::new() };
    for (retries, calls) in [(0, 1), (1, 2), (3, 4)] {
        let server = HttpScripted::new(Script::good().on("tools/call", [gone.clone()]));
        let settings = SessionOptions { session_retries: retries, ..legacy() };
        let (session, _) = http_with(options(in_memory(&server)), NoHost, settings);
        let error = eventually(session.call("add", &none())).await.unwrap_err();
        assert_eq!((error.code(), error.outcome()), (Some(32600), Outcome::NotRun));
        assert_eq!((server.log().count("tools/call"), server.log().count("initialize")), (calls, calls));
    }
}

#[tokio::test(start_paused = true)]
async fn close_releases_the_session_and_its_connections() {
    let server = HttpScripted::new(Script::good()).with_get(wharf_testkit::GetBehavior::Stream);
    let (session, _) = http(&server);
    eventually(session.connect()).await.unwrap();
    crate::settle().await;
    assert_eq!(server.open_streams(), 1);
    eventually(session.close()).await;
    crate::settle().await;
    assert_eq!(server.open_streams(), 0);
    let last = server.requests().pop().unwrap();
    assert_eq!((last.method.as_str(), &last.headers["mcp-session-id"]), ("DELETE", &"session-1".parse().unwrap()));
    assert_eq!((session.session_id(), session.is_connected()), (None, false));
    assert_eq!(server.open_connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_initialized_property_is_whether_a_session_exists() {
    let server = HttpScripted::new(Script::good());
    let (session, _) = http(&server);
    assert!(!session.is_connected());
    eventually(session.connect()).await.unwrap();
    assert!(session.is_connected());
    eventually(session.close()).await;
    assert!(!session.is_connected());
}

#[tokio::test(start_paused = true)]
async fn a_closed_session_can_be_used_again() {
    let server = HttpScripted::new(Script::good());
    let (session, transport) = http(&server);
    assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
    eventually(session.close()).await;
    assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 2, "b": 1})))).await), "3");
    assert_eq!((server.log().count("initialize"), transport.clients_made()), (2, 2));
    assert_eq!(session.session_id().as_deref(), Some("session-2"));
    assert_eq!(transport.connections_opened(), server.connections(), "those of both clients");
    eventually(session.close()).await;
    assert_eq!(transport.clients_made(), 2, "closing alone needs no client");
}
