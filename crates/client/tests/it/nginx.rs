//! A real nginx in front of the server, with its default buffering.
//!
//! It buffers responses without a length and without chunks, which it gets as long as it uses its default HTTP/1.0.
//! Chunks are passed on as they arrive.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;
use wharf_client::{
    CallErrorKind, CallOptions, ConnectErrorKind, Deadline, Deadlines, Http, HttpSse, NoHost, Outcome, Progress,
    RemoteOptions, Session, SessionOptions, Transport,
};
use wharf_io::{ChildSpec, Environment, Managed, ManagedSpec};
use wharf_server::{RemoteServer, Reply, Router, Toolbox};
use wharf_testkit::{HttpScripted, Listening, ResponseFormat, Script, Step, free_port, peers, soon, until};

use crate::peers::with_progress;
use crate::{json, legacy, none, result_text};

/// A proxy in front of one server. Dropping it stops it.
struct Nginx {
    running: Managed,
    _folder: tempfile::TempDir,
}

/// How nginx connects to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    /// One connection per request, in HTTP/1.0, which is the default.
    Usually,
    /// In HTTP/1.1, over pooled connections.
    Pooled,
}

impl Nginx {
    async fn before(upstream: SocketAddr, asks: Asks) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let place = folder.path().to_str().unwrap();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {place}/{kind};\n"))
            .concat();
        let connection = match asks {
            Asks::Usually => "",
            Asks::Pooled => "proxy_http_version 1.1; proxy_set_header Connection '';",
        };
        // One process needs no user. All other settings are the defaults, including buffering.
        let settings = format!(
            "daemon off; master_process off; pid {place}/pid; error_log stderr;
            events {{ worker_connections 128; }}
            http {{
                access_log off;
                {temporary}
                upstream server {{ server {upstream}; keepalive 4; }}
                server {{
                    listen 127.0.0.1:{port};
                    {connection}
                    proxy_set_header Host $http_host;
                    location / {{ proxy_pass http://server; }}
                    location /hasty {{ proxy_pass http://server; proxy_read_timeout 300ms; }}
                }}
            }}"
        );
        let file = folder.path().join("nginx.conf");
        std::fs::write(&file, settings).unwrap();
        let child = ChildSpec {
            command: peers().join(".peers/nginx").into(),
            args: vec!["-p".into(), place.into(), "-e".into(), "stderr".into(), "-c".into(), file.into()],
            environment: Environment::default(),
            cwd: None,
            watcher: None,
        };
        let spec = ManagedSpec {
            port,
            startup_timeout: Duration::from_secs(20),
            poll: Duration::from_millis(10),
            ..ManagedSpec::new("nginx", child, folder.path().join("log"))
        };
        Self { running: soon(Managed::start(spec)).await.unwrap(), _folder: folder }
    }

    fn url(&self, path: &str) -> String {
        self.running.url().replace("/mcp", path)
    }

    fn http(&self) -> (Session, Http) {
        let transport = Http::new(&self.url("/mcp"), RemoteOptions::default()).unwrap();
        (session(transport.clone(), Deadlines::default()), transport)
    }

    fn sse(&self, deadlines: Deadlines) -> Session {
        session(HttpSse::new(&self.url("/sse"), RemoteOptions::default()).unwrap(), deadlines)
    }
}

fn session(transport: impl Transport, deadlines: Deadlines) -> Session {
    let options = SessionOptions { deadlines, ..legacy() };
    Session::new("proxied".parse().unwrap(), transport, NoHost, options)
}

async fn scripted(server: &HttpScripted, asks: Asks) -> (Listening, Nginx) {
    let listening = server.listen().await;
    let nginx = Nginx::before(listening.address(), asks).await;
    (listening, nginx)
}

fn sum() -> wharf_protocol::Json {
    json(json!({"a": 1, "b": 1}))
}

/// A tool that continues only after its progress arrived: if that is buffered, it never ends.
fn confident(received: &Arc<Notify>) -> Toolbox {
    let received = Arc::clone(received);
    Toolbox::new("confident", "1").tool(json!({"name": "report", "inputSchema": {"type": "object"}}), move |call| {
        let received = Arc::clone(&received);
        async move {
            for step in [1.0, 2.0] {
                call.progress(step, 2.0, "").await;
                received.notified().await;
            }
            Ok(Reply::Text("received twice".to_owned()))
        }
    })
}

#[tokio::test]
async fn events_of_wharfs_server_are_not_buffered() {
    let received = Arc::new(Notify::new());
    let shared = Arc::clone(&received);
    let router = Router::new(move || confident(&shared), wharf_server::ListenOptions::default());
    let remote = RemoteServer::bind(([127, 0, 0, 1], 0).into(), router).await.unwrap();
    let nginx = Nginx::before(remote.address(), Asks::Usually).await;
    for session in [nginx.http().0, nginx.sse(Deadlines::default())] {
        let mut answer = |_: Progress| received.notify_one();
        let options = CallOptions { progress: Some(&mut answer), ..CallOptions::default() };
        assert_eq!(result_text(soon(session.call_with("report", &none(), options)).await), "received twice");
        soon(session.close()).await;
    }
    soon(remote.close()).await;
}

#[tokio::test]
async fn buffered_progress_arrives_with_the_answer_and_before_it() {
    let slow = [
        Step::Progress(1.0, 2.0, "half".into()),
        Step::Wait(100),
        Step::Progress(2.0, 2.0, "all".into()),
        Step::Text("done".into()),
    ];
    let script = Script::good().any_tool("slow").on_call("slow", slow);
    let server = HttpScripted::new(script).with_response_format(ResponseFormat::Sse);
    let (_listening, nginx) = scripted(&server, Asks::Usually).await;
    let (session, _) = nginx.http();
    let (steps, answer) = with_progress(&session, "slow", json!({})).await;
    assert_eq!((steps, answer.as_str()), (vec!["1 of 2 half".to_owned(), "2 of 2 all".to_owned()], "done"));
}

#[tokio::test]
async fn a_call_whose_progress_is_buffered_forever_times_out() {
    let endless = [Step::Progress(1.0, 2.0, "half".into()), Step::Hang];
    let script = Script::good().any_tool("endless").on_call("endless", endless);
    let server = HttpScripted::new(script).with_response_format(ResponseFormat::Sse);
    let (_listening, nginx) = scripted(&server, Asks::Usually).await;
    let (session, _) = nginx.http();
    for (idle, total, expected) in [(200, None, Deadline::Idle), (10_000, Some(200), Deadline::Total)] {
        let mut received = 0;
        let mut listen = |_: Progress| received += 1;
        let options = CallOptions {
            idle: Some(Duration::from_millis(idle)),
            total: total.map(Duration::from_millis),
            progress: Some(&mut listen),
            ..CallOptions::default()
        };
        let error = soon(session.call_with("endless", &none(), options)).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Timeout { deadline, .. } if deadline == expected), "{error}");
        assert_eq!((received, error.outcome()), (0, Outcome::Unknown));
    }
    assert_eq!(result_text(soon(session.call("add", &sum())).await), "2");
}

#[tokio::test]
async fn an_older_stream_that_is_buffered_from_its_first_event_times_out() {
    let server = HttpScripted::new(Script::good());
    let (_listening, nginx) = scripted(&server, Asks::Usually).await;
    let session = nginx.sse(Deadlines { connect: Duration::from_millis(400), ..Deadlines::default() });
    let error = soon(session.call("add", &sum())).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Connect(ConnectErrorKind::Timeout(_))), "{error}");
    assert_eq!(error.outcome(), Outcome::NotRun);
}

#[tokio::test]
async fn calls_share_one_connection_and_a_dead_upstream_is_reported_with_the_start_of_the_page() {
    let server = HttpScripted::new(Script::good());
    let (listening, nginx) = scripted(&server, Asks::Pooled).await;
    let (session, transport) = nginx.http();
    assert_eq!(result_text(soon(session.call("add", &sum())).await), "2");
    // The notification stream is requested beside the first call, and needs its own connection.
    until(async || server.requests().iter().any(|request| request.method == "GET")).await;
    let opened = transport.connections_opened();
    for _ in 0..20 {
        assert_eq!(result_text(soon(session.call("add", &sum())).await), "2");
    }
    assert_eq!(transport.connections_opened(), opened);
    assert!(opened <= 2 && server.connections() <= 2);

    let address = listening.address();
    listening.close().await;
    let error = soon(session.call("add", &sum())).await.unwrap_err();
    let CallErrorKind::Http(status) = &error.kind else { panic!("{error}") };
    assert_eq!((status.status, error.outcome()), (502, Outcome::Unknown));
    assert!(error.to_string().starts_with("proxied: the server answered with HTTP 502: <html>"), "{error}");

    let _listening = server.listen_on(address).await.unwrap();
    assert_eq!(result_text(soon(session.call("add", &sum())).await), "2");
    assert_eq!((server.log().count("initialize"), transport.connections_opened()), (1, opened));
}

#[tokio::test]
async fn refusals_of_nginx_are_reported_with_their_status() {
    let server = HttpScripted::new(Script::good().any_tool("hang").on_call("hang", [Step::Hang]));
    let (_listening, nginx) = scripted(&server, Asks::Pooled).await;
    let transport = Http::new(&nginx.url("/hasty"), RemoteOptions::default()).unwrap();
    let session = session(transport, Deadlines::default());
    let error = soon(session.call("hang", &none())).await.unwrap_err();
    assert!(matches!(&error.kind, CallErrorKind::Http(status) if status.status == 504), "{error}");

    // More than a mebibyte, which is the limit of nginx.
    let large = json(json!({"text": "x".repeat(3 << 20)}));
    let error = soon(session.call("echo", &large)).await.unwrap_err();
    assert!(matches!(&error.kind, CallErrorKind::Http(status) if status.status == 413), "{error}");
    assert_eq!(result_text(soon(session.call("add", &sum())).await), "2");
}
