//! Negotiation over HTTP, where every request is independent, and where an older transport exists.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;
use tokio::time::Instant;
use wharf_client::{ConnectErrorKind, Http, NoHost, ProtocolMode, Session};
use wharf_io::{DialTo, Dialed, HttpSettings};
use wharf_testkit::{HttpScripted, ResponseFormat, Script, Step, UnknownSession, eventually};

use super::{LEGACY, MODERN, negotiated_revision, protocol, unsupported};
use crate::remote::{http_with, in_memory, options};
use crate::{seconds, settle};

fn auto(server: &HttpScripted) -> Session {
    http_with(options(in_memory(server)), NoHost, protocol(ProtocolMode::Auto)).0
}

/// A session with the server's older transport, at a URL of the newer one.
fn at_sse(server: &HttpScripted) -> Session {
    let transport = Http::new("http://server.test/sse", options(in_memory(server))).unwrap();
    Session::new("remote".parse().unwrap(), transport, NoHost, protocol(ProtocolMode::Auto))
}

fn status(status: u16, body: &str) -> Step {
    Step::Http { status, headers: Vec::new(), body: body.to_owned() }
}

fn status_with(status: u16, kind: &str, body: &str) -> Step {
    Step::Http { status, headers: vec![("content-type".into(), kind.into())], body: body.into() }
}

fn http_methods(server: &HttpScripted) -> Vec<String> {
    server.requests().into_iter().map(|seen| seen.method).collect()
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_needs_no_handshake() {
    for answers in [ResponseFormat::Json, ResponseFormat::Sse] {
        for script in [Script::modern(), Script::dual_era()] {
            let server = HttpScripted::new(script).with_response_format(answers);
            let session = auto(&server);
            assert_eq!(negotiated_revision(&session).await, MODERN);
            eventually(session.close()).await;
            assert_eq!(server.log().count("initialize"), 0);
            assert!(http_methods(&server).iter().all(|method| method == "POST"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn any_legacy_answer_to_discover_over_http_leads_to_a_handshake() {
    let rpc = r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}"#;
    let nameless = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Missing session ID"}}"#;
    let html = "<!doctype html><title>Welcome</title>";
    let answers = [
        (vec![Step::Error(-32601, "Method not found".into())], 0),
        (vec![Step::Result(json!({}))], 0),
        (vec![Step::Result(json!(null))], 0),
        (vec![unsupported(&["2025-11-25"])], 0),
        (vec![status_with(200, "text/html", html)], 0),
        (vec![status_with(200, "application/json", "{")], 0),
        (vec![status(400, "")], 0),
        (vec![status(400, rpc)], 0),
        (vec![status(400, nameless)], 0),
        (vec![status(403, "no")], 0),
        (vec![status(404, "")], 0),
        (vec![status(404, rpc)], 0),
        (vec![status(404, html)], 0),
        (vec![status(405, "")], 0),
        (vec![status(405, rpc)], 0),
        (vec![status(406, "")], 0),
        (vec![status(415, "")], 0),
        (vec![status(500, "")], 0),
        (vec![status(500, rpc)], 0),
        (vec![status(501, html)], 0),
        (vec![status(502, html)], 0),
        (vec![Step::HangUp], 0),
        (vec![Step::RawEvent(": nothing\n\n".into()), Step::EndStream], 0),
        (vec![status(202, "")], 2),
        (vec![status(204, "")], 2),
        (vec![status(200, "")], 2),
        (vec![Step::Hang], 2),
        (vec![Step::Stall], 2),
        (vec![Step::RawEvent(": nothing\n\n".into()), Step::Hang], 2),
    ];
    for (steps, waited) in answers {
        let what = format!("{steps:?}");
        let server = HttpScripted::new(Script::good().on("server/discover", steps)).without_sessions();
        let session = auto(&server);
        let began = Instant::now();
        assert_eq!(negotiated_revision(&session).await, LEGACY, "{what}");
        assert_eq!(began.elapsed().as_secs(), waited, "{what}");
        assert_eq!((server.log().count("server/discover"), server.log().count("initialize")), (1, 1), "{what}");
        // No header of `server/discover` remains on the later requests.
        let posts = server.requests().into_iter().filter(|seen| seen.method == "POST");
        let after: Vec<_> = posts.filter(|seen| !seen.body.contains("server/discover")).collect();
        assert!(after.iter().all(|seen| seen.headers.get("mcp-method").is_none()), "{what}");
        assert!(after.iter().all(|seen| !seen.body.contains("io.modelcontextprotocol/")), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn servers_that_require_a_session_get_a_handshake() {
    let ways = [
        UnknownSession::NotFound,
        UnknownSession::NotFoundRpc,
        UnknownSession::NotFound,
        UnknownSession::OkRpc(-32600, "Session not found".into()),
        UnknownSession::Custom(400, "No session".into()),
    ];
    for way in ways {
        let server = HttpScripted::new(Script::good()).on_unknown_session(way.clone());
        let session = auto(&server);
        assert_eq!(negotiated_revision(&session).await, LEGACY, "{way:?}");
        assert_eq!((server.log().count("server/discover"), server.log().count("initialize")), (1, 1), "{way:?}");
        assert!(session.session_id().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn required_authorization_ends_the_negotiation() {
    let challenge = vec![("www-authenticate".to_owned(), "Bearer scope=\"tools\"".to_owned())];
    let refusals = [
        status(401, ""),
        Step::Http { status: 401, headers: challenge.clone(), body: String::new() },
        Step::Http { status: 403, headers: challenge, body: r#"{"error":"insufficient_scope"}"#.into() },
    ];
    for refusal in refusals {
        let server = HttpScripted::new(Script::good().on("server/discover", [refusal])).without_sessions();
        let error = eventually(auto(&server).connect()).await.unwrap_err();
        assert!(matches!(error.kind, ConnectErrorKind::Auth(_)), "{error}");
        assert_eq!((server.log().methods(), server.requests().len()), (vec!["server/discover".to_owned()], 1));
    }
}

#[tokio::test(start_paused = true)]
async fn modern_errors_do_not_cause_a_fallback() {
    for code in [-32020, -32021] {
        for http in [200, 400] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{{id}},"error":{{"code":{code},"message":"no"}}}}"#);
            let server = HttpScripted::new(Script::modern().on("server/discover", [status(http, &body)]));
            let error = eventually(auto(&server).connect()).await.unwrap_err();
            assert_eq!(error.to_string(), format!("remote: the server refused the session: error {code}: no"));
            assert_eq!(server.requests().len(), 1);
        }
    }
    let server = HttpScripted::new(Script::modern().on("server/discover", [unsupported(&["2031-01-01"])]));
    let error = eventually(auto(&server).connect()).await.unwrap_err();
    assert!(error.to_string().contains("2031-01-01") && error.to_string().contains(MODERN), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_gets_no_handshake() {
    let tries = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&tries);
    let http = HttpSettings::default().dialing(move |_: DialTo| {
        counted.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Err::<Dialed, _>(io::Error::from(io::ErrorKind::ConnectionRefused)))
    });
    let (session, _) = http_with(options(http), NoHost, protocol(ProtocolMode::Auto));
    let error = eventually(session.connect()).await.unwrap_err();
    assert!(matches!(error.kind, ConnectErrorKind::Transport(_)), "{error}");
    // The server may still be starting, and `server/discover` must not be blamed for its error.
    assert_eq!(tries.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn a_failing_server_is_retried_and_its_error_reported() {
    let trouble = [status(503, "down")];
    let server = HttpScripted::new(Script::good().on("server/discover", trouble.clone()).on("initialize", trouble));
    let error = eventually(auto(&server.without_sessions()).connect()).await.unwrap_err();
    assert_eq!(error.to_string(), "remote: the server answered with HTTP 503: down");
}

#[tokio::test(start_paused = true)]
async fn a_late_discover_result_wins_over_an_earlier_refused_handshake() {
    let late = || Script::modern().once("server/discover", [Step::Wait(5_000), Step::Normally]);
    let refusals = [
        vec![Step::Normally],
        vec![Step::Error(-32601, "Method not found".into())],
        vec![Step::Error(-32020, "no header".into())],
    ];
    for refusal in refusals {
        let server = HttpScripted::new(late().on("initialize", refusal));
        let session = auto(&server);
        let began = Instant::now();
        assert_eq!(negotiated_revision(&session).await, MODERN);
        assert_eq!((began.elapsed(), server.log().count("initialize")), (seconds(5), 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_server_gets_one_handshake() {
    // `server/discover` is answered while the handshake is in flight.
    let script = Script::good()
        .once("server/discover", [Step::Wait(2_500), Step::Error(-32601, "no".into())])
        .once("initialize", [Step::Wait(1_000), Step::Normally]);
    let server = HttpScripted::new(script).without_sessions();
    assert_eq!(negotiated_revision(&auto(&server)).await, LEGACY);
    assert_eq!(server.log().count("initialize"), 1);

    // The handshake is not answered.
    let script = Script::good().on("server/discover", [status(404, "")]).on("initialize", [Step::Hang]);
    let server = HttpScripted::new(script).without_sessions();
    let began = Instant::now();
    let error = eventually(auto(&server).connect()).await.unwrap_err();
    settle().await;
    assert!(matches!(error.kind, ConnectErrorKind::Timeout(_)), "{error}");
    assert_eq!((began.elapsed(), server.log().count("initialize")), (seconds(30), 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_of_the_older_transport_is_found_at_the_same_url() {
    for refusal in [400, 404, 405] {
        let server = HttpScripted::new(Script::good().on("POST", [status(refusal, "not here")]));
        let session = at_sse(&server);
        assert_eq!(negotiated_revision(&session).await, LEGACY, "{refusal}");
        let requests = server.requests();
        let posted = requests.iter().filter(|seen| seen.method == "POST" && seen.path == "/sse").count();
        assert_eq!((posted, server.log().count("initialize")), (2, 1), "{refusal}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_older_transport_the_first_refusal_is_reported() {
    let scripts = [
        Script::good().on("GET", [status(405, "no stream")]),
        Script::good().on("GET", [status_with(200, "text/html", "<html>")]),
        Script::good().on("GET", [status_with(200, "text/event-stream", ": nothing\n\n")]),
        Script::good().on("GET", [Step::HangUp]),
    ];
    for script in scripts {
        let refused = [status(404, "no such page")];
        let script = script.on("server/discover", refused.clone()).on("initialize", refused);
        let server = HttpScripted::new(script).without_sessions();
        let error = eventually(auto(&server).connect()).await.unwrap_err();
        assert_eq!(error.to_string(), "remote: the server answered with HTTP 404: no such page");
        assert_eq!(http_methods(&server), ["POST", "POST", "GET"]);
    }
    // But required authorization of the older transport is reported.
    let script = Script::good().on("POST", [status(405, "")]).on("GET", [status(401, "")]);
    let error = eventually(at_sse(&HttpScripted::new(script)).connect()).await.unwrap_err();
    assert!(matches!(error.kind, ConnectErrorKind::Auth(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn errors_and_required_authorization_do_not_lead_to_the_older_transport() {
    for refusal in [401, 403, 500, 502, 503] {
        let script = Script::good().on("server/discover", [status(404, "")]).on("initialize", [status(refusal, "")]);
        let server = HttpScripted::new(script).without_sessions();
        eventually(auto(&server).connect()).await.unwrap_err();
        assert!(http_methods(&server).iter().all(|method| method == "POST"), "{refusal}");
    }
}

/// Checks that a session used no feature of the other era.
#[tokio::test(start_paused = true)]
async fn closing_during_the_race_leaks_nothing() {
    let script = Script::good().on("server/discover", [Step::Hang]).on("initialize", [Step::Hang]);
    let server = HttpScripted::new(script).without_sessions();
    let session = auto(&server);
    assert!(tokio::time::timeout(seconds(4), session.connect()).await.is_err());
    assert_eq!(server.open_connections(), 2);
    eventually(session.close()).await;
    settle().await;
    assert_eq!(server.open_connections(), 0);
    assert_eq!(server.log().methods(), ["server/discover", "initialize"]);
}
