//! Third-party servers over HTTP: real processes that are killed and restarted during a session.
//!
//! How a restarted server answers a request of a session that it does not know:
//!
//! | server | Streamable HTTP | HTTP with SSE |
//! |---|---|---|
//! | everything (TypeScript SDK 1.x) | 400, error -32000 "Bad Request: No valid session ID provided", no id | no answer
//! |
//! | Python SDK 1.x | 404, error -32600 "Session not found", id "server-error" | 404, "Could not find session" |
//! | Python SDK 2.x | 404, error -32600 "Session not found", id null | 404, "Could not find session" |
//! | rmcp, as in `wharf_server` | 404, "Not Found: Session not found" | 404, by `wharf_server` |
//!
//! Over SSE the client never sees that, because the stream ends with the server, and the session with it.

use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use wharf_client::{
    CallOptions, Http, HttpSse, NoHost, Outcome, Progress, ProtocolMode, RemoteOptions, Session, SessionOptions,
    SessionStatus, WebSocket,
};
use wharf_io::{ChildSpec, Environment, HttpClient, HttpSettings, Managed, ManagedSpec};
use wharf_server::{RemoteServer, Reply, Router, Toolbox};
use wharf_testkit::{children_of, free_port, peers, soon, until};

use crate::json;
use crate::peers::{EVERYTHING, NODE, call, names, with_progress};

/// The number of concurrent callers.
const MANY: i64 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Streamable,
    Sse,
}

/// A server in its own process, always on the same port.
pub(crate) struct Peer {
    spec: ManagedSpec,
    running: Option<Managed>,
    way: Way,
    _folder: tempfile::TempDir,
}

impl Peer {
    pub(crate) async fn start(way: Way, command_line: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let root = peers();
        let fill = |word: &str| word.replace("ROOT", root.to_str().unwrap()).replace("PORT", &port.to_string());
        let environment = Environment::default()
            .with("PATH", "/usr/local/bin:/usr/bin:/bin")
            .with("HOME", "/nonexistent")
            .with("PORT", port.to_string());
        let child = ChildSpec {
            command: fill(command_line[0]).into(),
            args: command_line[1..].iter().map(|word| fill(word).into()).collect(),
            environment,
            cwd: None,
            watcher: None,
        };
        let spec = ManagedSpec {
            port,
            path: if way == Way::Streamable { "/mcp" } else { "/sse" }.to_owned(),
            startup_timeout: Duration::from_secs(25),
            poll: Duration::from_millis(20),
            ..ManagedSpec::new("peer", child, folder.path().join("log"))
        };
        let mut peer = Self { spec, running: None, way, _folder: folder };
        peer.start_again().await;
        peer
    }

    pub(crate) async fn everything(way: Way) -> Self {
        Self::start(way, &[NODE, EVERYTHING, if way == Way::Streamable { "streamableHttp" } else { "sse" }]).await
    }

    pub(crate) async fn python(way: Way, version: u8) -> Self {
        let python = format!("ROOT/.peers/py{version}/bin/python");
        let script = format!("ROOT/peers/mcp{version}_server.py");
        let word = if way == Way::Streamable { "http" } else { "sse" };
        Self::start(way, &[&python, &script, word, "PORT"]).await
    }

    /// Sends SIGKILL. A dying process with many threads closes its listener before its connections, and looks dead
    /// before
    /// its threads are, so that this waits until nothing of it is left.
    pub(crate) async fn kill(&mut self) {
        let dying = children_of(std::process::id());
        drop(self.running.take());
        let is_gone = |pid: &u32| !Path::new(&format!("/proc/{pid}")).exists();
        until(async || dying.iter().all(is_gone)).await;
    }

    pub(crate) async fn start_again(&mut self) {
        self.running = Some(soon(Managed::start(self.spec.clone())).await.unwrap());
    }

    pub(crate) async fn restart(&mut self) {
        self.kill().await;
        self.start_again().await;
    }

    pub(crate) fn url(&self) -> String {
        self.running.as_ref().unwrap().url()
    }

    /// Its stderr since the last start.
    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.spec.log_path).unwrap()).into_owned()
    }

    fn session(&self) -> Session {
        self.session_in(ProtocolMode::Auto)
    }

    fn session_in(&self, protocol: ProtocolMode) -> Session {
        let url = self.url();
        let options = RemoteOptions::default();
        let name = "peer".parse().unwrap();
        let own = SessionOptions { protocol, ..SessionOptions::default() };
        match self.way {
            Way::Streamable => Session::new(name, Http::new(&url, options).unwrap(), NoHost, own),
            Way::Sse => Session::new(name, HttpSse::new(&url, options).unwrap(), NoHost, own),
        }
    }
}

/// A call whose answer is the sum.
struct Sum {
    tool: &'static str,
    answer: fn(i64) -> String,
}

const GET_SUM: Sum = Sum { tool: "get-sum", answer: |sum| format!("The sum of {} and 1 is {sum}.", sum - 1) };
const ADD: Sum = Sum { tool: "add", answer: |sum| sum.to_string() };

impl Sum {
    async fn works(&self, session: &Session, a: i64) {
        assert_eq!(call(session, self.tool, json!({"a": a, "b": 1})).await, (self.answer)(a + 1));
    }

    async fn works_for_many(&self, session: &Session) {
        join_all((0..MANY).map(|a| self.works(session, a))).await;
    }
}

/// Kills and restarts the server before many calls: every call is answered, and all of them cost one handshake, or none
/// without sessions.
async fn survives_a_restart(peer: &mut Peer, session: &Session, sum: &Sum) {
    let before = session.health().connections;
    let id = session.session_id();
    let modern = soon(session.connect()).await.unwrap().revision == "2026-07-28";
    assert_eq!(id.is_some(), peer.way == Way::Streamable && !modern);
    peer.restart().await;
    sum.works_for_many(session).await;
    let again = u64::from(!(modern && peer.way == Way::Streamable));
    assert_eq!(session.health().connections, before + again);
    assert!(id.is_none() || session.session_id() != id);
}

/// Kills the server as soon as a call reports progress, restarts it, and returns the call's result.
async fn killed_while(peer: &mut Peer, session: &Session, tool: &str, arguments: Value) -> Result<String, Outcome> {
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let mut listen = |_: Progress| {
        let _ = sender.send(());
    };
    let arguments = json(arguments);
    let options = CallOptions { progress: Some(&mut listen), ..CallOptions::default() };
    let calling = session.call_with(tool, &arguments, options);
    let striking = async {
        receiver.recv().await.unwrap();
        peer.restart().await;
    };
    let (result, ()) = soon(Box::pin(async { tokio::join!(calling, striking) })).await;
    result.map(|output| output.text()).map_err(|error| error.outcome())
}

async fn closes(session: &Session) {
    soon(session.close()).await;
    assert_eq!((session.health().violations, session.health().noise), (0, 0));
}

async fn everything(way: Way) {
    let mut peer = Peer::everything(way).await;
    let session = peer.session();
    assert_eq!(soon(session.connect()).await.unwrap().revision, "2025-11-25");
    assert!(names(&session).await.iter().any(|name| name == "trigger-long-running-operation"));
    assert_eq!(call(&session, "echo", json!({"message": "hi"})).await, "Echo: hi");
    GET_SUM.works(&session, 1).await;
    GET_SUM.works_for_many(&session).await;
    let long = json!({"duration": 0.3, "steps": 3});
    let (steps, answer) = with_progress(&session, "trigger-long-running-operation", long).await;
    assert_eq!(steps, ["1 of 3", "2 of 3", "3 of 3"]);
    assert!(answer.starts_with("Long running operation completed"), "{answer}");

    let stale = match way {
        Way::Streamable => stale_answer(&peer, "/mcp").await,
        Way::Sse => stale_answer(&peer, "/message?sessionId=0123456789abcdef0123456789abcdef").await,
    };
    assert_eq!(
        stale,
        match way {
            Way::Streamable =>
                r#"400 {"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}"#,
            Way::Sse => "nothing",
        }
    );

    survives_a_restart(&mut peer, &session, &GET_SUM).await;
    // The tool is idempotent, which must be read again after a restart.
    names(&session).await;
    let long = json!({"duration": 0.5, "steps": 5});
    let answer = killed_while(&mut peer, &session, "trigger-long-running-operation", long).await;
    match (way, answer) {
        // A broken stream is requested again after a while, and the new server answers that the session does not exist.
        (Way::Streamable, answer) => assert!(answer.unwrap().starts_with("Long running operation completed")),
        // The call is retried if the new server is available within the connect deadline.
        (Way::Sse, Ok(answer)) => assert!(answer.starts_with("Long running operation completed")),
        (Way::Sse, Err(outcome)) => assert_eq!(outcome, Outcome::Unknown),
    }
    assert_eq!(call(&session, "echo", json!({"message": "back"})).await, "Echo: back");
    closes(&session).await;
}

async fn python(way: Way, version: u8, protocol: ProtocolMode, revision: &str) {
    let mut peer = Peer::python(way, version).await;
    let session = peer.session_in(protocol);
    let info = soon(session.connect()).await.unwrap();
    assert_eq!((info.name.clone(), info.revision.as_str()), (format!("wharf-peer-mcp{version}"), revision));
    assert_eq!(names(&session).await, ["add", "echo", "slow", "crash", "fail", "picture"]);
    ADD.works(&session, 1).await;
    ADD.works_for_many(&session).await;
    assert_eq!(
        call(&session, "fail", json!({"reason": "no luck"})).await,
        "failed: Error executing tool fail: no luck"
    );
    let (steps, answer) = with_progress(&session, "slow", json!({"steps": 3, "delay_ms": 20})).await;
    assert_eq!(steps, ["1 of 3 step 1 of 3", "2 of 3 step 2 of 3", "3 of 3 step 3 of 3"]);
    assert_eq!(answer, "finished 3 steps");

    let stale = match way {
        Way::Streamable => stale_answer(&peer, "/mcp").await,
        Way::Sse => stale_answer(&peer, "/messages/?session_id=0123456789abcdef0123456789abcdef").await,
    };
    let id = if version == 1 { r#""server-error""# } else { "null" };
    assert_eq!(
        stale,
        match way {
            Way::Streamable => {
                format!(r#"404 {{"jsonrpc":"2.0","id":{id},"error":{{"code":-32600,"message":"Session not found"}}}}"#)
            }
            Way::Sse => "404 Could not find session".to_owned(),
        }
    );

    survives_a_restart(&mut peer, &session, &ADD).await;
    // The tool is not idempotent, so that the caller must decide.
    let answer = killed_while(&mut peer, &session, "slow", json!({"steps": 100, "delay_ms": 50})).await;
    assert_eq!(answer, Err(Outcome::Unknown));
    assert_eq!(call(&session, "echo", json!({"text": "back"})).await, "back");
    closes(&session).await;
}

#[tokio::test]
async fn the_everything_server_over_streamable_http_lists_calls_progresses_dies_and_returns() {
    everything(Way::Streamable).await;
}

#[tokio::test]
async fn the_everything_server_over_sse_lists_calls_progresses_dies_and_returns() {
    everything(Way::Sse).await;
}

#[tokio::test]
async fn the_python_sdk_1_over_streamable_http_lists_calls_progresses_dies_and_returns() {
    python(Way::Streamable, 1, ProtocolMode::Auto, "2025-11-25").await;
}

#[tokio::test]
async fn the_python_sdk_1_over_sse_lists_calls_progresses_dies_and_returns() {
    python(Way::Sse, 1, ProtocolMode::Auto, "2025-11-25").await;
}

#[tokio::test]
async fn the_python_sdk_2_over_streamable_http_lists_calls_progresses_dies_and_returns() {
    python(Way::Streamable, 2, ProtocolMode::Auto, "2026-07-28").await;
}

#[tokio::test]
async fn the_python_sdk_2_does_the_same_in_the_legacy_era() {
    python(Way::Streamable, 2, ProtocolMode::Legacy, "2025-11-25").await;
}

#[tokio::test]
async fn the_python_sdk_2_over_sse_lists_calls_progresses_dies_and_returns() {
    python(Way::Sse, 2, ProtocolMode::Auto, "2026-07-28").await;
}

#[tokio::test]
async fn an_unreachable_server_differs_from_a_lost_session_and_recovers() {
    let mut peer = Peer::everything(Way::Streamable).await;
    let session = peer.session();
    GET_SUM.works(&session, 1).await;
    peer.kill().await;
    let error = soon(session.call("get-sum", &json(json!({"a": 1, "b": 1})))).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotRun, "{error}");
    assert!(error.to_string().contains("cannot be reached"), "{error}");
    // The session is kept: the server may still know it when it returns.
    assert!(matches!(&*session.status().borrow(), SessionStatus::Connected(_)));
    peer.start_again().await;
    GET_SUM.works(&session, 2).await;
}

/// The server's answer to a message for a session that it does not know.
async fn stale_answer(peer: &Peer, posted_to: &str) -> String {
    let url = peer.url().replace(&peer.spec.path, posted_to);
    let request = http::Request::post(url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-session-id", "0123456789abcdef0123456789abcdef")
        .header("mcp-protocol-version", "2025-11-25")
        .body(r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#.into())
        .unwrap();
    let client = HttpClient::new(HttpSettings::default()).unwrap();
    let Ok(response) = tokio::time::timeout(Duration::from_millis(500), client.send(request)).await else {
        return "nothing".to_owned();
    };
    let (head, mut body) = response.unwrap().into_parts();
    format!("{} {}", head.status.as_u16(), String::from_utf8_lossy(&body.read_head(1000, Duration::from_secs(5)).await))
}

/// A server of this workspace, based on rmcp.
pub(crate) fn toolbox() -> Toolbox {
    let numbers = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}});
    Toolbox::new("ours", "1.0.0")
        .tool(json!({"name": "add", "inputSchema": numbers}), |call| async move {
            let number = |name: &str| call.arguments.get(name).and_then(Value::as_i64).unwrap_or_default();
            Ok(Reply::Text((number("a") + number("b")).to_string()))
        })
        .tool(json!({"name": "slow", "inputSchema": {"type": "object"}}), |call| async move {
            for step in [1.0, 2.0, 3.0] {
                call.progress(step, 3.0, "working").await;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok(Reply::Text("done".to_owned()))
        })
}

#[tokio::test]
async fn an_rmcp_server_lists_calls_progresses_loses_its_session_and_recovers_over_every_transport() {
    let modes = [ProtocolMode::Legacy, ProtocolMode::Auto].into_iter().flat_map(|it| [(false, it), (true, it)]);
    for (json_responses, protocol) in modes {
        let options = wharf_server::ListenOptions { json_responses, ..wharf_server::ListenOptions::default() };
        let remote = RemoteServer::bind(([127, 0, 0, 1], 0).into(), Router::new(toolbox, options)).await.unwrap();
        let name = || "ours".parse().unwrap();
        let own = || SessionOptions { protocol, ..SessionOptions::default() };
        let reach = RemoteOptions::default;
        let sessions = [
            Session::new(name(), Http::new(&remote.http_url(), reach()).unwrap(), NoHost, own()),
            Session::new(name(), HttpSse::new(&remote.sse_url(), reach()).unwrap(), NoHost, own()),
            Session::new(name(), WebSocket::new(&remote.ws_url(), reach()).unwrap(), NoHost, own()),
        ];
        for session in &sessions {
            assert_eq!(names(session).await, ["add", "slow"]);
            ADD.works(session, 1).await;
            let (steps, answer) = with_progress(session, "slow", json!({})).await;
            assert_eq!(steps, ["1 of 3 working", "2 of 3 working", "3 of 3 working"]);
            assert_eq!(answer, "done");
        }
        for round in 2..5 {
            soon(remote.router().forget_sessions()).await;
            // A call at the end of a stream may have run; these are sent after the end was detected.
            until(async || sessions[1..].iter().all(|session| !session.is_connected())).await;
            for session in &sessions {
                ADD.works_for_many(session).await;
            }
            // Without a session, none is lost.
            let first = if protocol == ProtocolMode::Legacy { round } else { 1 };
            let connections = sessions.each_ref().map(|session| session.health().connections);
            assert_eq!(connections, [first, round, round], "{protocol}");
            for session in &sessions {
                assert!(session.is_connected());
            }
        }
        for session in &sessions {
            closes(session).await;
        }
        soon(remote.close()).await;
    }
}
