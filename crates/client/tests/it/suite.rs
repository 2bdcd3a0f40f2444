//! The same behavior over every transport.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use wharf_client::{
    BoxFuture, CallErrorKind, CallOptions, ClientCapabilities, Deadline, Host, Http, HttpSse, InProcess, Link,
    Notification, Outcome, Progress, RemoteOptions, Root, Session, SessionOptions, Stdio, Transport, WebSocket,
    WireContent, WireEvent, WireObserver,
};
use wharf_io::Environment;
use wharf_testkit::{
    GetBehavior, HttpScripted, Listening, ResponseFormat, Script, Scripted, Step, WireLog, scripted_server, soon, until,
};

use crate::{json, legacy, none, result_text, seconds};

/// The transports. Streamable HTTP counts twice: with answers as JSON and as event streams.
const WAYS: [&str; 7] = ["stdio", "in-process", "custom", "http json", "http sse", "legacy sse", "websocket"];

/// A session over one transport, and what keeps its far end alive.
struct Way {
    name: &'static str,
    session: Session,
    received: Arc<Mutex<Vec<String>>>,
    log: Box<dyn Fn() -> WireLog>,
    _listening: Option<Listening>,
    _folder: Option<tempfile::TempDir>,
}

/// A host with one root that records notifications.
struct Person(Arc<Mutex<Vec<String>>>);

impl Host for Person {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities { roots: true, ..ClientCapabilities::default() }
    }

    fn roots(&self) -> BoxFuture<'_, Vec<Root>> {
        Box::pin(std::future::ready(vec![Root { uri: "file:///here".into(), name: None }]))
    }

    fn notify(&self, notice: Notification) {
        self.0.lock().unwrap().push(match notice {
            Notification::Log { data, .. } => data.to_string(),
            other => format!("{other:?}"),
        });
    }
}

async fn way(name: &'static str, script: Script) -> Way {
    way_with(name, script, legacy()).await
}

async fn way_with(name: &'static str, script: Script, options: SessionOptions) -> Way {
    let mut listening = None;
    let mut folder = None;
    let (transport, log): (Arc<dyn Transport>, Box<dyn Fn() -> WireLog>) = match name {
        "stdio" => {
            let place = tempfile::tempdir().unwrap();
            std::fs::write(place.path().join("script"), serde_json::to_string(&script).unwrap()).unwrap();
            let file = place.path().join("script");
            let log = place.path().join("log");
            let args = [file, log.clone()];
            let transport = Stdio::new(scripted_server(), args, Environment::default().with("PATH", "/usr/bin:/bin"));
            folder = Some(place);
            (Arc::new(transport), Box::new(move || WireLog::from_file(&log)))
        }
        "in-process" => {
            let server = Scripted::new(script);
            let copy = server.clone();
            let transport = InProcess::new(move |stream| copy.clone().serve(stream));
            (Arc::new(transport), Box::new(move || server.log().clone()))
        }
        "custom" => {
            let server = Scripted::new(script);
            let copy = server.clone();
            let tasks = Arc::new(Mutex::new(tokio::task::JoinSet::new()));
            let transport = move || {
                let (ours, theirs) = tokio::io::duplex(64 * 1024);
                tasks.lock().unwrap().spawn(copy.clone().serve(theirs));
                let (reader, writer) = tokio::io::split(ours);
                async { Ok(Link::from_bytes(reader, writer)) }
            };
            (Arc::new(transport), Box::new(move || server.log().clone()))
        }
        remote => {
            let answers = if remote == "http json" { ResponseFormat::Json } else { ResponseFormat::Sse };
            let server = HttpScripted::new(script).with_response_format(answers).with_get(GetBehavior::Stream);
            let on = server.listen().await;
            let remotely = RemoteOptions::default();
            let transport: Arc<dyn Transport> = match remote {
                "legacy sse" => Arc::new(HttpSse::new(&on.sse_url(), remotely).unwrap()),
                "websocket" => Arc::new(WebSocket::new(&on.ws_url(), remotely).unwrap()),
                _ => Arc::new(Http::new(&on.url(), remotely).unwrap()),
            };
            listening = Some(on);
            (transport, Box::new(move || server.log().clone()))
        }
    };
    let received = Arc::<Mutex<Vec<String>>>::default();
    let host = Arc::new(Person(Arc::clone(&received)));
    let session = Session::with_shared("suite".parse().unwrap(), transport, host, options);
    Way { name, session, received, log, _listening: listening, _folder: folder }
}

/// Every transport of the same server.
async fn ways(script: Script) -> Vec<Way> {
    join_all(WAYS.map(|name| way(name, script.clone()))).await
}

fn add(a: i64, b: i64) -> wharf_protocol::Json {
    json(json!({"a": a, "b": b}))
}

#[tokio::test]
async fn tools_are_listed_page_by_page_and_called() {
    for way in ways(Script { page_size: Some(1), ..Script::good() }).await {
        let listed = soon(way.session.list_tools()).await.unwrap();
        assert_eq!(listed.items.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["echo", "add"], "{}", way.name);
        assert_eq!(result_text(soon(way.session.call("add", &add(2, 3))).await), "5", "{}", way.name);
        assert_eq!(
            (way.log)().methods(),
            ["initialize", "notifications/initialized", "tools/list", "tools/list", "tools/call"],
            "{}",
            way.name
        );
    }
}

/// Records the direction and the kind of every message.
#[derive(Debug, Default)]
struct Recorder(Mutex<Vec<String>>);

impl WireObserver for Recorder {
    fn observe(&self, event: &WireEvent<'_>) {
        let kind = |text: &[u8]| {
            let message: serde_json::Value = serde_json::from_slice(text).unwrap();
            message["method"].as_str().unwrap_or("answer").to_owned()
        };
        let line = match event.content {
            WireContent::Sent(text) => format!("> {}", kind(text)),
            WireContent::Received(text) => format!("< {}", kind(text.as_bytes())),
            WireContent::Unreadable { reason, .. } => format!("< unreadable: {reason}"),
            WireContent::Failed(reason) => format!("< failed: {reason}"),
        };
        assert_eq!((event.server.as_str(), event.connection), ("suite", 1));
        self.0.lock().unwrap().push(line);
    }
}

#[tokio::test]
async fn an_observer_sees_every_message_in_both_directions() {
    let script = Script::good().any_tool("ask").on_call(
        "ask",
        [Step::Ask("roots/list".into(), json!({})), Step::Progress(1.0, 2.0, String::new()), Step::EchoAnswer],
    );
    for name in WAYS {
        let recorder = Arc::new(Recorder::default());
        let observer: Arc<dyn WireObserver> = recorder.clone();
        let way = way_with(name, script.clone(), SessionOptions { observer: Some(observer), ..legacy() }).await;
        let answer = result_text(soon(way.session.call("ask", &none())).await);
        assert!(answer.contains("file:///here"), "{name}: {answer}");
        let seen = recorder.0.lock().unwrap().clone();
        let expected = [
            "> initialize",
            "< answer",
            "> notifications/initialized",
            "> tools/call",
            "< roots/list",
            "> answer",
            "< notifications/progress",
            "< answer",
        ];
        assert_eq!(seen, expected, "{name}");
    }
}

#[tokio::test]
async fn an_observer_sees_answers_as_sent_and_why_others_are_missing() {
    #[derive(Debug, Default)]
    struct Texts(Mutex<Vec<String>>);
    impl WireObserver for Texts {
        fn observe(&self, event: &WireEvent<'_>) {
            match event.content {
                WireContent::Received(text) => self.0.lock().unwrap().push(text.to_owned()),
                WireContent::Failed(reason) => self.0.lock().unwrap().push(format!("failed: {reason}")),
                WireContent::Sent(_) | WireContent::Unreadable { .. } => {}
            }
        }
    }
    let odd = r#"{"jsonrpc":"2.0",  "id":{id}, "x-extra":1, "result":{"content":[]}}"#;
    let refused = |status, body: &str| Step::Http { status, headers: vec![], body: body.to_owned() };
    let script = Script::good()
        .any_tool("odd")
        .any_tool("down")
        .any_tool("error")
        .on_call("odd", [Step::Line(odd.into())])
        .on_call("down", [refused(500, "out of order")])
        .on_call("error", [refused(400, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no"}}"#)]);
    for name in ["http json", "http sse"] {
        let texts = Arc::new(Texts::default());
        let observer: Arc<dyn WireObserver> = texts.clone();
        let way = way_with(name, script.clone(), SessionOptions { observer: Some(observer), ..legacy() }).await;
        for tool in ["odd", "down", "error"] {
            let _ = soon(way.session.call(tool, &none())).await;
        }
        let seen = texts.0.lock().unwrap().split_off(1);
        assert_eq!(seen[0], odd.replace("{id}", "2"), "{name}");
        assert_eq!(seen[1], "failed: the server answered with HTTP 500: out of order", "{name}");
        assert!(seen[2].contains("-32602"), "{name}: {seen:?}");
    }
}

#[tokio::test]
async fn small_and_large_texts_arrive_unchanged() {
    for way in ways(Script::good()).await {
        for text in ["", "zwölf Boxkämpfer 🥊 \u{2028}\r\n\t\"\\\u{0}", &"lang ".repeat(600_000)] {
            let echoed = result_text(soon(way.session.call("echo", &json(json!({"text": text})))).await);
            assert!(echoed == text, "{}: {} bytes became {}", way.name, text.len(), echoed.len());
        }
    }
}

#[tokio::test]
async fn tool_failures_are_outputs_and_protocol_errors_are_typed() {
    let script = Script::good()
        .any_tool("fails")
        .any_tool("odd")
        .on_call("fails", [Step::Result(json!({"content": [{"type": "text", "text": "no"}], "isError": true}))])
        .on_call("odd", [Step::Error(-32050, "odd".into())]);
    for way in ways(script).await {
        assert_eq!(result_text(soon(way.session.call("fails", &none())).await), "failed: no", "{}", way.name);
        let error = soon(way.session.call("odd", &none())).await.unwrap_err();
        assert_eq!((error.code(), error.outcome()), (Some(-32050), Outcome::Answered), "{}", way.name);
    }
}

#[tokio::test]
async fn fifty_concurrent_calls_get_their_own_answers() {
    for way in ways(Script::good()).await {
        let calls = (0..50).map(|n| {
            let session = way.session.clone();
            async move { result_text(session.call("add", &add(n, 1000)).await) }
        });
        let sums = soon(join_all(calls)).await;
        assert_eq!(sums, (1000..1050).map(|sum| sum.to_string()).collect::<Vec<_>>(), "{}", way.name);
        assert_eq!((way.log)().count("initialize"), 1, "{}", way.name);
    }
}

#[tokio::test]
async fn progress_and_notifications_arrive_in_order_before_the_answer() {
    let mut steps: Vec<Step> = Vec::new();
    for n in 1..=20 {
        steps.push(Step::Progress(f64::from(n), 20.0, format!("step {n}")));
        steps.push(Step::Notify("notifications/message".into(), json!({"level": "info", "data": n})));
    }
    steps.push(Step::Text("done".into()));
    for way in ways(Script::good().any_tool("slow").on_call("slow", steps)).await {
        let mut received = Vec::new();
        let mut listen = |step: Progress| received.push(step.message.unwrap());
        let options = CallOptions { progress: Some(&mut listen), ..CallOptions::default() };
        assert_eq!(result_text(soon(way.session.call_with("slow", &none(), options)).await), "done", "{}", way.name);
        assert_eq!(received, (1..=20).map(|n| format!("step {n}")).collect::<Vec<_>>(), "{}", way.name);
        until(async || way.received.lock().unwrap().len() == 20).await;
        assert_eq!(*way.received.lock().unwrap(), (1..=20).map(|n| n.to_string()).collect::<Vec<_>>(), "{}", way.name);
    }
}

#[tokio::test]
async fn the_host_answers_requests_of_the_server() {
    let script =
        Script::good().any_tool("ask").on_call("ask", [Step::Ask("roots/list".into(), json!({})), Step::EchoAnswer]);
    for way in ways(script).await {
        let answer = result_text(soon(way.session.call("ask", &none())).await);
        assert_eq!(answer, r#"{"roots":[{"uri":"file:///here"}]}"#, "{}", way.name);
    }
}

#[tokio::test]
async fn dropped_and_late_calls_are_canceled_and_the_session_continues() {
    let script = Script::good().any_tool("hang").on_call("hang", [Step::Hang]);
    for way in ways(script).await {
        soon(way.session.connect()).await.unwrap();
        let dropped = tokio::time::timeout(Duration::from_millis(50), way.session.call("hang", &none())).await;
        assert!(dropped.is_err(), "{}", way.name);
        until(async || (way.log)().count("notifications/cancelled") == 1).await;
        let options = CallOptions { total: Some(Duration::from_millis(50)), ..CallOptions::default() };
        let error = soon(way.session.call_with("hang", &none(), options)).await.unwrap_err();
        let total = matches!(error.kind, CallErrorKind::Timeout { deadline: Deadline::Total, .. });
        assert!(total && error.outcome() == Outcome::Unknown, "{}: {error}", way.name);
        until(async || (way.log)().count("notifications/cancelled") == 2).await;
        assert_eq!(result_text(soon(way.session.call("add", &add(1, 1))).await), "2", "{}", way.name);
        assert_eq!((way.log)().count("initialize"), 1, "{}", way.name);
    }
}

#[tokio::test]
async fn a_disconnect_during_a_call_leaves_its_outcome_unknown_and_reconnects() {
    let script = Script::good().any_tool("die").on_call("die", [Step::HangUp]);
    for way in ways(script).await {
        soon(way.session.connect()).await.unwrap();
        let error = soon(way.session.call("die", &none())).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Lost(_)), "{}: {error}", way.name);
        assert_eq!(error.outcome(), Outcome::Unknown, "{}", way.name);
        assert_eq!((way.log)().count("tools/call"), 1, "{}", way.name);
        assert_eq!(result_text(soon(way.session.call("add", &add(1, 1))).await), "2", "{}", way.name);
    }
}

#[tokio::test]
async fn an_unreadable_answer_fails_only_its_own_call_immediately() {
    let broken = Step::Line(r#"{"jsonrpc":"2.0","id":{id},"result":{},"error":{}}"#.into());
    let script = Script::good().any_tool("broken").on_call("broken", [broken]);
    for way in ways(script).await {
        let error = soon(way.session.call("broken", &none())).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Malformed(_)), "{}: {error}", way.name);
        assert_eq!(result_text(soon(way.session.call("add", &add(1, 1))).await), "2", "{}", way.name);
    }
}

#[tokio::test]
async fn closing_fails_calls_in_flight_and_the_next_use_reconnects() {
    let script = Script::good().any_tool("hang").on_call("hang", [Step::Hang]);
    for way in ways(script).await {
        soon(way.session.connect()).await.unwrap();
        let call = async { way.session.call("hang", &none()).await.unwrap_err() };
        let close = async {
            until(async || (way.log)().count("tools/call") == 1).await;
            way.session.close().await;
        };
        let (error, ()) = soon(async { tokio::join!(call, close) }).await;
        assert!(matches!(error.kind, CallErrorKind::Closed), "{}: {error}", way.name);
        assert!(!way.session.is_connected(), "{}", way.name);
        assert_eq!(result_text(soon(way.session.call("add", &add(1, 1))).await), "2", "{}", way.name);
    }
}

#[tokio::test]
async fn a_refused_handshake_is_reported_with_the_servers_message() {
    let script = Script::good().on("initialize", [Step::Error(-32099, "not today".into())]);
    for way in ways(script).await {
        let error = soon(way.session.connect()).await.unwrap_err();
        assert_eq!(error.to_string(), "suite: the server refused the session: error -32099: not today", "{}", way.name);
    }
}

#[tokio::test]
async fn a_server_that_never_answers_the_handshake_times_out() {
    for name in WAYS {
        let mut options = legacy();
        options.deadlines.connect = Duration::from_millis(300);
        let way = way_with(name, Script::good().on("initialize", [Step::Hang]), options).await;
        let began = tokio::time::Instant::now();
        let error = soon(way.session.connect()).await.unwrap_err();
        assert!(matches!(error.kind, wharf_client::ConnectErrorKind::Timeout(_)), "{name}: {error}");
        assert!(began.elapsed() < seconds(5), "{name}");
    }
}
