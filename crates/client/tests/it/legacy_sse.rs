//! The older HTTP transport: one long GET, and a POST per message.

use serde_json::json;
use tokio::time::Instant;
use wharf_client::{CallErrorKind, ConnectErrorKind, Deadline, Outcome};
use wharf_testkit::{HttpScripted, NetworkFault, Script, Step, eventually};

use crate::remote::{Way, some_harmed_in_memory, sse};
use crate::{json, legacy, none, result_text, seconds, settle};

fn status(status: u16, body: &str) -> Step {
    Step::Http { status, headers: Vec::new(), body: body.to_owned() }
}

fn stream(text: &str) -> Script {
    let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
    Script::good().on("GET", [Step::Http { status: 200, headers, body: text.to_owned() }])
}

#[tokio::test(start_paused = true)]
async fn the_event_stream_has_no_deadline_but_the_posts_have() {
    let server = HttpScripted::new(Script::good().any_tool("hang").on_call("hang", [Step::Hang]));
    let session = sse(&server);
    eventually(session.connect()).await.unwrap();
    tokio::time::sleep(seconds(6 * 60 * 60)).await;
    assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
    assert_eq!((server.open_streams(), server.log().count("initialize")), (1, 1));

    // The POST was accepted; its answer on the GET does not arrive.
    let began = Instant::now();
    let error = eventually(session.call("hang", &none())).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Timeout { deadline: Deadline::Idle, .. }), "{error}");
    assert_eq!(began.elapsed(), seconds(300));
}

/// A buffering proxy, or a server that lost the stream, accepts POSTs and sends nothing any more.
#[tokio::test(start_paused = true)]
async fn a_silent_event_stream_is_replaced() {
    let server = HttpScripted::new(Script::good());
    // The first connection carries the stream; it dies after the handshake without a trace.
    let http = some_harmed_in_memory(&server, |connection| {
        if connection == 1 { NetworkFault::StallAfter(800) } else { NetworkFault::None }
    });
    let session = Way::HttpSse.over(http, legacy());
    eventually(session.connect()).await.unwrap();
    let sum = async || result_text(session.call("echo", &json(json!({"text": "x".repeat(300)}))).await);
    let mut answers = Vec::new();
    for _ in 0..4 {
        answers.push(eventually(sum()).await.len());
    }
    // After a missing answer, the next call checks the stream before it is sent.
    assert!(answers.contains(&300) && answers.iter().filter(|length| **length != 300).count() == 1, "{answers:?}");
    assert_eq!(server.log().count("initialize"), 2);
}

#[tokio::test(start_paused = true)]
async fn concurrent_callers_share_one_probe_of_a_dead_stream() {
    let server = HttpScripted::new(Script::good());
    let http = some_harmed_in_memory(&server, |connection| {
        if connection == 1 { NetworkFault::StallAfter(500) } else { NetworkFault::None }
    });
    let session = Way::HttpSse.over(http, legacy());
    let text = json(json!({"text": "x".repeat(300)}));
    while eventually(session.call("echo", &text)).await.is_ok() {}
    let began = Instant::now();
    let answers = eventually(futures_util::future::join_all((0..20).map(|_| session.call("echo", &text)))).await;
    assert!(answers.iter().all(Result::is_ok));
    assert!(began.elapsed() < seconds(12), "{:?}", began.elapsed());
    assert_eq!(server.log().count("initialize"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_slow_tool_does_not_replace_the_stream() {
    let server = HttpScripted::new(Script::good().any_tool("hang").on_call("hang", [Step::Hang]));
    let session = sse(&server);
    eventually(session.call("hang", &none())).await.unwrap_err();
    assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
    assert_eq!((server.log().count("initialize"), server.log().count("ping")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_on_another_origin_is_refused() {
    for endpoint in ["http://evil.test/messages", "https://server.test/messages", "//evil.test/m", "javascript:x"] {
        let session = sse(&HttpScripted::new(stream(&format!("event: endpoint\ndata: {endpoint}\n\n"))));
        let error = eventually(session.connect()).await.unwrap_err();
        assert!(error.to_string().contains("another origin"), "{endpoint}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_without_events_is_reported_with_its_start() {
    let session = sse(&HttpScripted::new(Script::good().on("GET", [status(200, "<html>hello</html>")])));
    let error = eventually(session.connect()).await.unwrap_err();
    assert!(error.to_string().ends_with("no event stream at /sse: <html>hello</html>"), "{error}");

    let session = sse(&HttpScripted::new(stream(": nothing\n\n")));
    let error = eventually(session.connect()).await.unwrap_err();
    assert!(error.to_string().contains("before its `endpoint` event"), "{error}");

    let session = sse(&HttpScripted::new(Script::good().on("GET", [status(401, "")])));
    let error = eventually(session.connect()).await.unwrap_err();
    assert!(matches!(error.kind, ConnectErrorKind::Auth(_)), "{error}");

    let session = sse(&HttpScripted::new(Script::good().on("GET", [status(405, "no")])));
    let error = eventually(session.connect()).await.unwrap_err();
    assert_eq!(error.to_string(), "remote: the server answered with HTTP 405: no");
}

#[tokio::test(start_paused = true)]
async fn a_refused_post_fails_its_call_immediately() {
    let script = Script::good().any_tool("tool").on_call("tool", [status(500, "boom")]);
    let session = sse(&HttpScripted::new(script));
    eventually(session.connect()).await.unwrap();
    let began = Instant::now();
    let error = eventually(session.call("tool", &none())).await.unwrap_err();
    assert_eq!(error.to_string(), "remote: the server answered with HTTP 500: boom");
    assert_eq!((error.outcome(), began.elapsed()), (Outcome::Unknown, seconds(0)));
    assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_stream_fails_its_calls_and_the_next_use_reconnects() {
    let server = HttpScripted::new(Script::good().any_tool("hang").on_call("hang", [Step::Hang]));
    let session = sse(&server);
    eventually(session.connect()).await.unwrap();
    let call = async { session.call("hang", &none()).await.unwrap_err() };
    let wipe = async {
        settle().await;
        server.wipe();
    };
    let (error, ()) = eventually(async { tokio::join!(call, wipe) }).await;
    assert!(matches!(error.kind, CallErrorKind::Lost(_)), "{error}");
    assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
    assert_eq!(server.log().count("initialize"), 2);
}

#[tokio::test(start_paused = true)]
async fn closing_disconnects_immediately() {
    let server = HttpScripted::new(Script::good());
    let session = sse(&server);
    eventually(session.connect()).await.unwrap();
    assert_eq!(server.open_streams(), 1);
    let began = Instant::now();
    eventually(session.close()).await;
    settle().await;
    assert_eq!((began.elapsed(), server.open_streams()), (seconds(0), 0));
}
