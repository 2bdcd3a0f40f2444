//! Streamable HTTP: requests, responses and their errors.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use wharf_client::{
    CallErrorKind, CallOptions, ConnectErrorKind, Deadline, Host, NoHost, Notification, Outcome, Progress,
    RemoteOptions,
};
use wharf_io::{DialTo, Dialed, HttpSettings};
use wharf_testkit::{GetBehavior, HttpScripted, NetworkFault, ResponseFormat, Script, Step, eventually};

use crate::remote::{harmed_in_memory, http, http_with, in_memory, options};
use crate::{json, legacy, none, result_text, seconds, settle};

fn status(status: u16, body: &str) -> Step {
    Step::Http { status, headers: Vec::new(), body: body.to_owned() }
}

fn status_with(status: u16, name: &str, value: &str) -> Step {
    Step::Http { status, headers: vec![(name.to_owned(), value.to_owned())], body: String::new() }
}

/// A server whose tool `tool` performs these steps.
fn server_with_steps(steps: impl Into<Vec<Step>>) -> HttpScripted {
    HttpScripted::new(Script::good().any_tool("tool").on_call("tool", steps))
}

#[tokio::test(start_paused = true)]
async fn requests_have_accept_and_revision_headers() {
    let server = HttpScripted::new(Script::good());
    let (session, _) = http(&server);
    assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
    let requests = server.requests();
    let posts: Vec<_> = requests.iter().filter(|seen| seen.method == "POST").collect();
    assert!(posts.iter().all(|seen| seen.headers["accept"] == "application/json, text/event-stream"));
    assert!(posts.iter().all(|seen| seen.headers["content-type"] == "application/json"));
    assert!(posts[0].headers.get("mcp-protocol-version").is_none());
    assert!(posts[1..].iter().all(|seen| seen.headers["mcp-protocol-version"] == "2025-11-25"));
}

#[tokio::test(start_paused = true)]
async fn a_notification_accepts_any_success_status() {
    for answer in [status(200, ""), status(202, ""), status(204, ""), status(201, "odd"), status(200, "{}")] {
        let server = HttpScripted::new(Script::good().on("notifications/initialized", [answer]));
        let (session, _) = http(&server);
        assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_with_a_wrong_or_missing_id_is_accepted() {
    let result = r#"{"content":[{"type":"text","text":"mine"}]}"#;
    for id in [r#""id":99,"#, r#""id":null,"#, "", r#""id":"{id}","#] {
        let body = format!(r#"{{"jsonrpc":"2.0",{id}"result":{result}}}"#);
        let answer = Step::Http {
            status: 200,
            headers: vec![("content-type".into(), "application/json".into())],
            body: body.clone(),
        };
        let (session, _) = http(&server_with_steps([answer]));
        assert_eq!(result_text(eventually(session.call("tool", &none())).await), "mine");
        let event = Step::RawEvent(format!("data: {body}\n\n"));
        let (session, _) = http(&server_with_steps([event]).with_response_format(ResponseFormat::Sse));
        assert_eq!(result_text(eventually(session.call("tool", &none())).await), "mine");
        assert_eq!(session.health().violations, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn every_error_status_fails_its_call_immediately_and_is_reported() {
    let html = "<html><body>Bad   gateway</body></html>";
    for (step, expected, outcome) in [
        (status(500, "boom"), "the server answered with HTTP 500: boom", Outcome::Unknown),
        (
            status(502, html),
            "the server answered with HTTP 502: <html><body>Bad gateway</body></html>",
            Outcome::Unknown,
        ),
        (status(405, ""), "the server answered with HTTP 405", Outcome::NotRun),
        (status(403, "blocked"), "the server answered with HTTP 403: blocked", Outcome::NotRun),
        (
            status_with(302, "location", "http://elsewhere.test/"),
            "the server answered with HTTP 302: redirects to `http://elsewhere.test/`",
            Outcome::NotRun,
        ),
        (
            status_with(307, "location", "http://elsewhere.test/"),
            "it redirects to `http://elsewhere.test/`, which is another origin or an invalid URL",
            Outcome::NotRun,
        ),
        (status(401, ""), "authorization required (HTTP 401)", Outcome::NotRun),
        (
            status_with(401, "www-authenticate", "Bearer realm=x"),
            "authorization required (HTTP 401): challenge `Bearer realm=x`",
            Outcome::NotRun,
        ),
        (
            status_with(403, "www-authenticate", "Bearer error=insufficient_scope"),
            "authorization required (HTTP 403): challenge `Bearer error=insufficient_scope`",
            Outcome::NotRun,
        ),
        (
            status(200, html),
            "the server's response is malformed: HTTP 200 with no content type is not an answer: \
            <html><body>Bad gateway</body></html>",
            Outcome::Answered,
        ),
        (
            Step::Http { status: 200, headers: Vec::new(), body: "{\"jsonrpc\":\"2.0\",\"id\":1,".into() },
            "the server's response is malformed: EOF while parsing a value at line 1 column 24",
            Outcome::Answered,
        ),
    ] {
        let server = server_with_steps([step]);
        let (session, _) = http(&server);
        eventually(session.connect()).await.unwrap();
        let began = Instant::now();
        let error = eventually(session.call("tool", &none())).await.unwrap_err();
        assert_eq!((error.kind.to_string().as_str(), error.outcome()), (expected, outcome));
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
        assert_eq!(server.log().count("initialize"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn required_authorization_is_detected_with_and_without_a_challenge() {
    for step in [status(401, ""), status_with(401, "www-authenticate", "Bearer")] {
        let (session, _) = http(&HttpScripted::new(Script::good().on("initialize", [step])));
        let error = eventually(session.connect()).await.unwrap_err();
        assert!(matches!(error.kind, ConnectErrorKind::Auth(_)), "{error}");
    }
    // A 403 without a challenge does not ask for authorization.
    let (session, _) = http(&HttpScripted::new(Script::good().on("initialize", [status(403, "WAF")])));
    let error = eventually(session.connect()).await.unwrap_err();
    assert!(matches!(error.kind, ConnectErrorKind::Http(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_answer_is_found_in_a_batch_and_a_batch_without_one_is_an_error() {
    let json_body = |body: &str| Step::Http {
        status: 200,
        headers: vec![("content-type".into(), "application/json".into())],
        body: body.into(),
    };
    let note = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
    let answer = |id: &str, text: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#)
    };
    let (session, _) = http(&server_with_steps([json_body(&format!(
        "[{note},{},{}]",
        answer("77", "not mine"),
        answer("{id}", "mine")
    ))]));
    assert_eq!(result_text(eventually(session.call("tool", &none())).await), "mine");
    for nothing in ["[]", r#"["x"]"#, &format!("[{note}]")] {
        let (session, _) = http(&server_with_steps([json_body(nothing)]));
        eventually(session.connect()).await.unwrap();
        let began = Instant::now();
        let error = eventually(session.call("tool", &none())).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Malformed(_)), "{nothing}: {error}");
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn an_accepted_request_without_an_answer_is_an_error() {
    for step in [status(202, ""), status(204, ""), status(200, "")] {
        let (session, _) = http(&server_with_steps([step]));
        eventually(session.connect()).await.unwrap();
        let began = Instant::now();
        let error = eventually(session.call("tool", &none())).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Unanswered(_)), "{error}");
        assert_eq!(began.elapsed(), seconds(5));
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_respected_within_limits() {
    let later = |seconds: &str| status_with(429, "retry-after", seconds);
    let good = Script::good().any_tool("tool");
    let server = HttpScripted::new(
        good.clone()
            .once("tools/call", [later("3")])
            .once("tools/call", [status_with(503, "retry-after", "2")])
            .on_call("tool", [Step::Text("now".into())]),
    );
    let (session, _) = http(&server);
    eventually(session.connect()).await.unwrap();
    let began = Instant::now();
    assert_eq!(result_text(eventually(session.call("tool", &none())).await), "now");
    assert!((seconds(5)..=Duration::from_millis(6250)).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert_eq!(server.log().count("tools/call"), 3);

    for (absurd, calls) in
        [("86400", 1), ("99999999999999999999", 1), ("0", 4), ("Fri, 01 Jan 2100 00:00:00 GMT", 1), ("soon", 1)]
    {
        let server = HttpScripted::new(good.clone().on("tools/call", [later(absurd)]));
        let (session, _) = http(&server);
        eventually(session.connect()).await.unwrap();
        let began = Instant::now();
        let error = eventually(session.call("tool", &none())).await.unwrap_err();
        let CallErrorKind::Http(status) = &error.kind else { panic!("{error}") };
        assert_eq!(
            (status.status, error.outcome(), status.retry_after.is_some()),
            (429, Outcome::NotRun, absurd != "soon")
        );
        assert_eq!(server.log().count("tools/call"), calls, "{absurd}");
        assert!(began.elapsed() < seconds(2), "{absurd}");
    }
}

#[tokio::test(start_paused = true)]
async fn silence_after_headers_hits_the_idle_deadline_and_before_them_the_first_byte_deadline() {
    for (step, deadline, after) in [(Step::Stall, Deadline::Idle, 300), (Step::Hang, Deadline::FirstByte, 60)] {
        let server = server_with_steps([step]);
        let (session, _) = http(&server);
        eventually(session.connect()).await.unwrap();
        let began = Instant::now();
        let error = eventually(session.call("tool", &none())).await.unwrap_err();
        let CallErrorKind::Timeout { deadline: missed, .. } = error.kind else { panic!("{error}") };
        assert_eq!((missed, began.elapsed()), (deadline, seconds(after)));
        settle().await;
        assert_eq!(server.log().count("notifications/cancelled"), 1);
        assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
    }
}

#[tokio::test(start_paused = true)]
async fn a_total_limit_raises_the_first_byte_limit_but_never_lowers_it() {
    let (session, _) = http(&server_with_steps([Step::Wait(90_000), Step::Text("late".into())]));
    let patient = CallOptions { total: Some(seconds(120)), ..CallOptions::default() };
    assert_eq!(result_text(eventually(session.call_with("tool", &none(), patient)).await), "late");
    let (session, _) = http(&server_with_steps([Step::Hang]));
    eventually(session.connect()).await.unwrap();
    let began = Instant::now();
    let hasty = CallOptions { total: Some(seconds(5)), ..CallOptions::default() };
    let error = eventually(session.call_with("tool", &none(), hasty)).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Timeout { deadline: Deadline::Total, .. }), "{error}");
    assert_eq!(began.elapsed(), seconds(5));
}

#[tokio::test(start_paused = true)]
async fn a_slow_body_hits_the_idle_deadline() {
    let server = HttpScripted::new(Script::good().on_call("echo", [Step::Text("x".repeat(100_000))]));
    let remote = options(harmed_in_memory(&server, NetworkFault::Drip(Duration::from_millis(20))));
    let (session, _) = http_with(remote, NoHost, legacy());
    eventually(session.connect()).await.unwrap();
    let began = Instant::now();
    let error = eventually(session.call("echo", &json(json!({"text": ""})))).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Timeout { deadline: Deadline::Idle, .. }), "{error}");
    assert_eq!(began.elapsed(), seconds(300));
}

#[derive(Default)]
struct Listener(Mutex<Vec<String>>);

impl Host for Listener {
    fn notify(&self, notice: Notification) {
        self.0.lock().unwrap().push(format!("{notice:?}"));
    }
}

struct Shared(Arc<Listener>);

impl Host for Shared {
    fn notify(&self, notice: Notification) {
        self.0.notify(notice);
    }
}

#[tokio::test(start_paused = true)]
async fn messages_before_an_answer_are_delivered_before_it() {
    let steps = [
        Step::Progress(1.0, 3.0, "one".into()),
        Step::Notify("notifications/message".into(), json!({"level": "info", "data": "hello"})),
        Step::Progress(2.0, 3.0, "two".into()),
        Step::Text("three".into()),
    ];
    let received = Arc::new(Listener::default());
    let server = server_with_steps(steps);
    let (session, _) = http_with(options(in_memory(&server)), Shared(Arc::clone(&received)), legacy());
    let mut steps = Vec::new();
    let mut on_progress = |step: Progress| steps.push(step.message.unwrap());
    let call = CallOptions { progress: Some(&mut on_progress), ..CallOptions::default() };
    assert_eq!(result_text(eventually(session.call_with("tool", &none(), call)).await), "three");
    assert_eq!(steps, ["one", "two"]);
    settle().await;
    let received = received.0.lock().unwrap();
    assert!(received.len() == 1 && received[0].contains("hello"), "{received:?}");
}

#[tokio::test(start_paused = true)]
async fn messages_right_after_an_answer_are_delivered() {
    let answer = r#"data: {"jsonrpc":"2.0","id":{id},"result":{"content":[]}}"#;
    let changed = r#"data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let received = Arc::new(Listener::default());
    let server = server_with_steps([Step::RawEvent(format!("{answer}\n\n{changed}\n\n"))])
        .with_response_format(ResponseFormat::Sse);
    let (session, _) = http_with(options(in_memory(&server)), Shared(Arc::clone(&received)), legacy());
    eventually(session.call("tool", &none())).await.unwrap();
    settle().await;
    assert_eq!(*received.0.lock().unwrap(), ["ToolsChanged"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_on_the_stream_of_another_call_reaches_its_caller() {
    // The second call's stream contains the first call's answer, then its own.
    let other = r#"data: {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"first"}]}}"#;
    let own = r#"data: {"jsonrpc":"2.0","id":{id},"result":{"content":[{"type":"text","text":"second"}]}}"#;
    let script = Script::good()
        .any_tool("one")
        .any_tool("two")
        .on_call("one", [Step::RawEvent(": wait\n\n".into()), Step::Hang]);
    let server = HttpScripted::new(script.on_call("two", [Step::RawEvent(format!("{other}\n\n{own}\n\n"))]))
        .with_response_format(ResponseFormat::Sse);
    let (session, _) = http(&server);
    eventually(session.connect()).await.unwrap();
    let second = async {
        settle().await;
        result_text(session.call("two", &none()).await)
    };
    let both =
        eventually(Box::pin(async { tokio::join!(async { result_text(session.call("one", &none()).await) }, second) }))
            .await;
    assert_eq!(both, ("first".to_owned(), "second".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_broken_notification_does_not_fail_the_call() {
    let broken = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\",\"params\":{\n\n";
    let (session, _) = http(
        &server_with_steps([Step::RawEvent(broken.into()), Step::Text("good".into())])
            .with_response_format(ResponseFormat::Sse),
    );
    assert_eq!(result_text(eventually(session.call("tool", &none())).await), "good");
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_respected_whatever_the_body() {
    let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Too many requests"}}"#;
    let later = Step::Http { status: 429, headers: vec![("retry-after".into(), "2".into())], body: body.into() };
    let server = HttpScripted::new(Script::good().once("tools/call", [later]));
    let (session, _) = http(&server);
    assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
    assert_eq!(server.log().count("tools/call"), 2);
}

#[test]
fn invalid_urls_are_refused() {
    let error = |url: &str| wharf_client::Http::new(url, RemoteOptions::default()).map(drop).unwrap_err().to_string();
    let urls = ["ftp://h/", "http://h:99999/", "http://h:8o/", "http:///x", "http://u:s3cret@h/", "http://h /", "/mcp"];
    insta::assert_snapshot!(urls.map(error).join("\n"), @r"
    invalid server URL `ftp://h/`: expected http:// or https://
    invalid server URL `http://h:99999/`: the port is invalid
    invalid server URL `http://h:8o/`: the port is invalid
    invalid server URL `http:///x`: the host is missing
    invalid server URL `http://…@h/`: it contains a user name; send an Authorization header instead
    invalid server URL `http://h /`: it is malformed
    invalid server URL `/mcp`: expected http:// or https://
    ");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_cannot_be_resumed_fails_quickly() {
    let script = Script::good()
        .any_tool("tool")
        .on_call("tool", [Step::RawEvent("id: 1\ndata:\n\n".into()), Step::EndStream])
        .once("GET", [Step::Hang])
        .on("GET", [Step::Reset]);
    let (session, _) = http(&HttpScripted::new(script).with_response_format(ResponseFormat::Sse));
    eventually(session.connect()).await.unwrap();
    settle().await;
    let began = Instant::now();
    let error = eventually(session.call("tool", &none())).await.unwrap_err();
    assert_eq!(
        error.kind.to_string(),
        "the server ended the stream before it answered; whether the call ran is unknown"
    );
    assert!(began.elapsed() < seconds(10), "{:?}", began.elapsed());
}

#[test]
fn secrets_are_not_displayed() {
    let proxies =
        wharf_io::Proxies { https: Some("http://user:s3cr3t@proxy.test".into()), ..wharf_io::Proxies::default() };
    let http = HttpSettings { proxies, ..HttpSettings::default() };
    let headers = vec![("Authorization".to_owned(), "Bearer s3cr3t".to_owned())];
    let shown = format!("{:?}", RemoteOptions { http, headers, ..RemoteOptions::default() });
    assert!(shown.contains("Authorization") && !shown.contains("s3cr3t"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn notifications_of_the_server_are_delivered() {
    let received = Arc::new(Listener::default());
    let server = HttpScripted::new(Script::good()).with_get(GetBehavior::Stream);
    let (session, _) = http_with(options(in_memory(&server)), Shared(Arc::clone(&received)), legacy());
    eventually(session.connect()).await.unwrap();
    settle().await;
    for method in ["notifications/prompts/list_changed", "notifications/own"] {
        server.push(json!({"jsonrpc": "2.0", "method": method})).await;
    }
    settle().await;
    let received = received.0.lock().unwrap();
    assert_eq!(received[0], "PromptsChanged");
    assert!(received[1].contains("notifications/own"), "{received:?}");
}

#[tokio::test(start_paused = true)]
async fn repeated_changes_are_throttled_and_the_last_one_is_delivered() {
    let received = Arc::new(Listener::default());
    let server = HttpScripted::new(Script::good()).with_get(GetBehavior::Stream);
    let (session, _) = http_with(options(in_memory(&server)), Shared(Arc::clone(&received)), legacy());
    eventually(session.connect()).await.unwrap();
    settle().await;
    for _ in 0..1000 {
        server.push(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let during = received.0.lock().unwrap().len();
    assert!((4..=6).contains(&during), "{during}");
    tokio::time::sleep(seconds(1)).await;
    assert_eq!(received.0.lock().unwrap().len(), during + 1);
    assert!(received.0.lock().unwrap().iter().all(|notice| notice == "ToolsChanged"));
}

#[tokio::test(start_paused = true)]
async fn a_silent_notification_stream_stays_open() {
    let server = HttpScripted::new(Script::good()).with_get(GetBehavior::Stream);
    let (session, _) = http(&server);
    eventually(session.connect()).await.unwrap();
    tokio::time::sleep(seconds(6 * 60 * 60)).await;
    assert_eq!((server.open_streams(), gets(&server)), (1, 1));
    assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
}

fn gets(server: &HttpScripted) -> usize {
    server.requests().iter().filter(|seen| seen.method == "GET").count()
}

#[tokio::test(start_paused = true)]
async fn a_notification_stream_that_keeps_ending_is_reopened_slowly_and_then_given_up() {
    let ends: [Vec<Step>; 5] = [
        vec![Step::RawEvent("id: prime\ndata:\n\n".into()), Step::HangUp],
        vec![Step::HangUp],
        vec![Step::RawEvent("retry: 0\n\n".into()), Step::HangUp],
        vec![Step::RawEvent(": hello\n\n".into()), Step::Reset],
        vec![status(503, "")],
    ];
    for steps in ends {
        let server = HttpScripted::new(Script::good().on("GET", steps));
        let (session, _) = http(&server);
        eventually(session.connect()).await.unwrap();
        tokio::time::sleep(seconds(10)).await;
        assert!((2..=6).contains(&gets(&server)), "{}", gets(&server));
        tokio::time::sleep(seconds(24 * 60 * 60)).await;
        assert_eq!(gets(&server), 9);
        assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
    }
    for refusal in [status(405, ""), status(404, ""), status(400, "no"), status(200, "hello")] {
        let server = HttpScripted::new(Script::good().on("GET", [refusal]));
        let (session, _) = http(&server);
        eventually(session.connect()).await.unwrap();
        tokio::time::sleep(seconds(24 * 60 * 60)).await;
        assert_eq!(gets(&server), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_notification_stream_is_resumed_after_the_last_event() {
    let note = |n| format!("id: n-{n}\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{n}\"}}\n\n");
    let script = Script::good()
        .once("GET", [Step::RawEvent(note(1)), Step::HangUp])
        .on("GET", [Step::RawEvent(note(2)), Step::Hang]);
    let received = Arc::new(Listener::default());
    let server = HttpScripted::new(script);
    let (session, _) = http_with(options(in_memory(&server)), Shared(Arc::clone(&received)), legacy());
    eventually(session.connect()).await.unwrap();
    tokio::time::sleep(seconds(10)).await;
    let resumed: Vec<_> =
        server.requests().iter().filter_map(|seen| seen.headers.get("last-event-id").cloned()).collect();
    assert_eq!((resumed, received.0.lock().unwrap().len()), (vec!["n-1".parse().unwrap()], 2));
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_while_queued_leaks_nothing() {
    // Dropped while the server asks to retry later, and while a new session is being established.
    let slow = [Step::Wait(5000), Step::Normally];
    let script = Script::good().once("tools/call", [status_with(429, "retry-after", "20")]);
    let script = script.once("initialize", [Step::Normally]).once("initialize", slow);
    let server = HttpScripted::new(script);
    let (session, _) = http(&server);
    let add = json(json!({"a": 1, "b": 1}));
    eventually(session.connect()).await.unwrap();
    assert!(tokio::time::timeout(seconds(2), session.call("add", &add)).await.is_err());
    tokio::time::sleep(seconds(60)).await;
    assert_eq!(server.log().count("tools/call"), 1);
    server.wipe();
    let (dropped, other) = eventually(async {
        tokio::join!(tokio::time::timeout(seconds(2), session.call("add", &add)), session.call("add", &add))
    })
    .await;
    assert!(dropped.is_err());
    assert_eq!((result_text(other), server.log().count("initialize")), ("2".to_owned(), 2));
    // The two that were refused, the one that was dropped before its retry, and the one that ran.
    assert_eq!(server.handled().count("tools/call"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_while_connecting_leaks_nothing() {
    let server = HttpScripted::new(Script::good());
    let inner = server.clone();
    let dials = AtomicU32::new(0);
    let tasks = Mutex::new(tokio::task::JoinSet::new());
    let settings = HttpSettings::default().dialing(move |_: DialTo| {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        tasks.lock().unwrap().spawn(inner.clone().serve_connection(theirs));
        let slow = dials.fetch_add(1, Ordering::Relaxed) == 1;
        async move {
            if slow {
                std::future::pending::<()>().await;
            }
            Ok(Dialed::new(ours))
        }
    });
    let (session, _) = http_with(options(settings), NoHost, legacy());
    eventually(session.connect()).await.unwrap();
    tokio::time::sleep(seconds(120)).await;
    let add = json(json!({"a": 1, "b": 1}));
    assert!(tokio::time::timeout(seconds(2), session.call("add", &add)).await.is_err());
    assert_eq!(result_text(eventually(session.call("add", &add)).await), "2");
    assert_eq!((server.log().count("tools/call"), server.log().count("initialize")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_broken_stream_is_resumed() {
    let answer = r#"data: {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"resumed"}]}}"#;
    let script = Script::good()
        .any_tool("tool")
        .on_call("tool", [Step::RawEvent("id: e-7\nretry: 700\ndata:\n\n".into()), Step::EndStream])
        .once("GET", [Step::RawEvent(": the listener\n\n".into()), Step::Hang])
        .once("GET", [status(502, "not yet")])
        .on("GET", [Step::RawEvent(format!("id: e-8\n{answer}\n\n")), Step::Hang]);
    let server = HttpScripted::new(script).with_response_format(ResponseFormat::Sse);
    let (session, _) = http(&server);
    eventually(session.connect()).await.unwrap();
    settle().await;
    let began = Instant::now();
    assert_eq!(result_text(eventually(session.call("tool", &none())).await), "resumed");
    assert!(
        began.elapsed() >= Duration::from_millis(700 + 1400) && began.elapsed() < seconds(4),
        "{:?}",
        began.elapsed()
    );
    let resumed: Vec<_> =
        server.requests().iter().filter_map(|seen| seen.headers.get("last-event-id").cloned()).collect();
    assert_eq!(resumed, ["e-7", "e-7"]);
    assert_eq!(server.log().count("tools/call"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_without_an_answer_leaves_the_outcome_unknown_and_only_idempotent_calls_are_retried() {
    for (hint, calls) in [("readOnlyHint", 2), ("openWorldHint", 1)] {
        for end in [Step::EndStream, Step::Reset, Step::HangUp] {
            let tool = json!({"name": "tool", "inputSchema": {"type": "object"}, "annotations": {hint: true}});
            let half = Step::RawEvent("data: {\"jsonrpc\":\"2.0\",\"id".into());
            let server = HttpScripted::new(Script::default().tool(tool).on_call("tool", [half, end]))
                .with_response_format(ResponseFormat::Sse);
            let (session, _) = http(&server);
            eventually(session.list_tools()).await.unwrap();
            let error = eventually(session.call("tool", &none())).await.unwrap_err();
            assert_eq!((error.outcome(), server.log().count("tools/call")), (Outcome::Unknown, calls), "{error}");
            assert_eq!(server.log().count("initialize"), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_only_comments_hits_the_idle_deadline() {
    let comments: Vec<Step> =
        (0..100).flat_map(|_| [Step::RawEvent(": alive\n\n".into()), Step::Wait(10_000)]).collect();
    let (session, _) = http(&server_with_steps(comments).with_response_format(ResponseFormat::Sse));
    eventually(session.connect()).await.unwrap();
    let began = Instant::now();
    let error = eventually(session.call("tool", &none())).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Timeout { deadline: Deadline::Idle, .. }), "{error}");
    assert_eq!(began.elapsed(), seconds(300));
}

#[tokio::test(start_paused = true)]
async fn an_oversized_body_is_refused_with_and_without_content_length() {
    let huge = Step::Flood(r#"{"jsonrpc":"2.0","id":{id},"result":{"x":""#.into(), 33 * 1024 * 1024, "\"}}\n".into());
    for answers in [ResponseFormat::Json, ResponseFormat::Sse] {
        let server = server_with_steps([huge.clone()]).with_response_format(answers);
        let (session, _) = http(&server);
        let error = eventually(session.call("tool", &none())).await.unwrap_err();
        assert!(error.to_string().contains("longer than 32 MiB"), "{error}");
        assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_of_the_server_is_answered_by_a_separate_post_and_pauses_the_deadlines() {
    struct Slow;
    impl Host for Slow {
        fn capabilities(&self) -> wharf_client::ClientCapabilities {
            wharf_client::ClientCapabilities { roots: true, ..wharf_client::ClientCapabilities::default() }
        }
        fn roots(&self) -> wharf_client::BoxFuture<'_, Vec<wharf_client::Root>> {
            Box::pin(async {
                tokio::time::sleep(seconds(20 * 60)).await;
                vec![wharf_client::Root { uri: "file:///here".into(), name: None }]
            })
        }
    }
    let server = server_with_steps([Step::Ask("roots/list".into(), json!({})), Step::EchoAnswer]);
    let (session, _) = http_with(options(in_memory(&server)), Slow, legacy());
    assert_eq!(result_text(eventually(session.call("tool", &none())).await), r#"{"roots":[{"uri":"file:///here"}]}"#);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_is_canceled_on_the_server() {
    let server = server_with_steps([Step::Hang]);
    let (session, _) = http(&server);
    eventually(session.connect()).await.unwrap();
    let dropped = tokio::time::timeout(seconds(1), session.call("tool", &none())).await;
    assert!(dropped.is_err());
    settle().await;
    let id =
        server.log().messages().into_iter().find(|message| message["method"] == "tools/call").unwrap()["id"].clone();
    assert_eq!(server.log().last_params("notifications/cancelled").unwrap()["requestId"], id);
    assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
}

#[tokio::test(start_paused = true)]
async fn closing_fails_calls_in_flight_immediately() {
    let server = server_with_steps([Step::Hang]);
    let (session, _) = http(&server);
    eventually(session.connect()).await.unwrap();
    let closing = session.clone();
    let (error, ()) = eventually(async {
        tokio::join!(async { session.call("tool", &none()).await.unwrap_err() }, async {
            settle().await;
            closing.close().await;
        })
    })
    .await;
    assert!(matches!(error.kind, CallErrorKind::Closed), "{error}");
}

#[tokio::test(start_paused = true)]
async fn headers_are_sent_with_every_request_and_a_calls_own_only_with_that_call() {
    let server = HttpScripted::new(Script::good());
    let headers = vec![("Authorization".to_owned(), "Bearer one".to_owned())];
    let remote = RemoteOptions { headers, ..options(in_memory(&server)) };
    let (session, _) = http_with(remote, NoHost, legacy());
    let own = vec![("x-user".to_owned(), "ann".to_owned()), ("authorization".to_owned(), "Bearer two".to_owned())];
    let add = json(json!({"a": 1, "b": 1}));
    eventually(session.call_with("add", &add, CallOptions { headers: own, ..CallOptions::default() })).await.unwrap();
    eventually(session.call("add", &add)).await.unwrap();
    let sent: Vec<_> = server
        .requests()
        .iter()
        .filter(|seen| seen.body.contains("tools/call"))
        .map(|seen| (seen.headers["authorization"].to_str().unwrap().to_owned(), seen.headers.contains_key("x-user")))
        .collect();
    assert_eq!(sent, [("Bearer two".to_owned(), true), ("Bearer one".to_owned(), false)]);

    for (name, value) in [("mcp-session-id", "x"), ("Host", "x"), ("bad name", "x"), ("x-good", "a\nb")] {
        let headers = vec![(name.to_owned(), value.to_owned())];
        let call = CallOptions { headers, ..CallOptions::default() };
        let error = eventually(session.call_with("add", &add, call)).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Headers(_)) && error.outcome() == Outcome::NotRun, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_is_tried_once_per_call_and_keeps_its_session() {
    let server = HttpScripted::new(Script::good());
    let up = Arc::new(AtomicBool::new(true));
    let dials = Arc::new(AtomicU32::new(0));
    let is_up = Arc::clone(&up);
    let dialed = Arc::clone(&dials);
    let inner = server.clone();
    let tasks = Mutex::new(tokio::task::JoinSet::new());
    let settings = HttpSettings::default().dialing(move |_: DialTo| {
        dialed.fetch_add(1, Ordering::Relaxed);
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        if !is_up.load(Ordering::Relaxed) {
            return std::future::ready(Err(std::io::Error::other("no route")));
        }
        tasks.lock().unwrap().spawn(inner.clone().serve_connection(theirs));
        std::future::ready(Ok(Dialed::new(ours)))
    });
    let (session, _) = http_with(options(settings), NoHost, legacy());
    eventually(session.connect()).await.unwrap();
    up.store(false, Ordering::Relaxed);
    // Longer than an idle connection stays in the pool, so that the next call must dial.
    tokio::time::sleep(seconds(120)).await;
    let before = dials.load(Ordering::Relaxed);
    let error = eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await.unwrap_err();
    assert_eq!((error.outcome(), dials.load(Ordering::Relaxed) - before), (Outcome::NotRun, 1), "{error}");
    up.store(true, Ordering::Relaxed);
    assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
    assert_eq!(server.log().count("initialize"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_redirect_is_followed_within_its_origin() {
    let there = Step::Http { status: 308, headers: vec![("location".into(), "/moved".into())], body: String::new() };
    let server = HttpScripted::new(Script::good().any_tool("tool").once("tools/call", [there]));
    let (session, _) = http(&server);
    assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
    assert_eq!(server.requests().last().unwrap().path, "/moved");
}
