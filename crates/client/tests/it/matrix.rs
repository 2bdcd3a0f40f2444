//! The negotiated revision of every available server, over every transport and in every mode.

use std::sync::Arc;

use futures_util::future::join_all;
use wharf_client::{
    ConnectErrorKind, Http, HttpSse, InProcess, Link, NoHost, ProtocolMode, RemoteOptions, Session, SessionOptions,
    Transport, WebSocket,
};
use wharf_server::{RemoteServer, Router, serve_stream};
use wharf_testkit::{rmcp_server, soon};

use crate::peers::{EVERYTHING, NODE, stdio};
use crate::peers_http::{Peer, Way, toolbox};

#[tokio::test]
async fn every_server_connects_in_the_modes_that_it_supports() {
    let rmcp = rmcp_server().to_str().unwrap().to_owned();
    // One server after the other, each in all modes concurrently: that is enough for a small machine.
    let mut rows = vec![on_stdio("everything over stdio", &[NODE, EVERYTHING, "stdio"]).await];
    rows.push(streamable("everything over HTTP", &Peer::everything(Way::Streamable).await).await);
    rows.extend(sse("everything", &Peer::everything(Way::Sse).await).await);
    for version in [1, 2] {
        let python = format!("ROOT/.peers/py{version}/bin/python");
        let script = format!("ROOT/peers/mcp{version}_server.py");
        rows.push(on_stdio(&format!("python {version} over stdio"), &[&python, &script]).await);
        let peer = Peer::python(Way::Streamable, version).await;
        rows.push(streamable(&format!("python {version} over HTTP"), &peer).await);
        drop(peer);
        rows.extend(sse(&format!("python {version}"), &Peer::python(Way::Sse, version).await).await);
    }
    rows.push(on_stdio("rmcp over stdio", &[&rmcp]).await);
    let peer = Peer::start(Way::Streamable, &[&rmcp, "http", "PORT"]).await;
    rows.push(streamable("rmcp over HTTP", &peer).await);
    rows.push(on_stdio("the time server over stdio", &["ROOT/.peers/py2/bin/mcp-server-time"]).await);
    rows.extend(ours().await);
    insta::assert_snapshot!(table(&rows));
}

/// The result of each mode with one server: the negotiated revision, or the error.
struct Row {
    server: String,
    cells: Vec<Result<String, ConnectErrorKind>>,
}

const MODES: [ProtocolMode; 3] = [ProtocolMode::Auto, ProtocolMode::Legacy, ProtocolMode::Modern];

fn table(rows: &[Row]) -> String {
    let line = |server: &str, cells: [&str; 3]| format!("{server:<36}{:<12}{:<12}{}", cells[0], cells[1], cells[2]);
    let kind =
        |error: &ConnectErrorKind| if matches!(error, ConnectErrorKind::Refused(_)) { "refused" } else { "failed" };
    let lines = rows.iter().map(|row| {
        let cell = |at: usize| row.cells[at].as_ref().map_or_else(kind, String::as_str);
        line(&row.server, [cell(0), cell(1), cell(2)])
    });
    let reasons = rows.iter().flat_map(|row| {
        let failed = MODES.iter().zip(&row.cells).filter_map(|(mode, cell)| Some((mode, cell.as_ref().err()?)));
        failed.map(|(mode, error)| format!("{}, {mode}: {error}", row.server))
    });
    let head = line("", MODES.map(ProtocolMode::name));
    [head].into_iter().chain(lines).chain([String::new()]).chain(reasons).collect::<Vec<_>>().join("\n")
}

async fn on_stdio(name: &str, command_line: &[&str]) -> Row {
    row(name, &(Arc::new(stdio(command_line)) as _)).await
}

async fn streamable(name: &str, peer: &Peer) -> Row {
    row(name, &(Arc::new(Http::new(&peer.url(), RemoteOptions::default()).unwrap()) as _)).await
}

/// A server that supports only the older transport, with and without naming it.
async fn sse(name: &str, peer: &Peer) -> [Row; 2] {
    let transport = HttpSse::new(&peer.url(), RemoteOptions::default()).unwrap();
    [
        row(&format!("{name} over SSE"), &(Arc::new(transport) as _)).await,
        streamable(&format!("{name}, SSE at an HTTP address"), peer).await,
    ]
}

async fn ours() -> Vec<Row> {
    let serve = |stream| async { drop(serve_stream(toolbox(), stream).await) };
    let stream = move || {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = tokio::io::split(ours);
        // The far end lives for as long as its stream is read.
        let serving = std::sync::Mutex::new(tokio::task::JoinSet::new());
        serving.lock().unwrap().spawn(serve(theirs));
        async move { Ok(Link::from_bytes(reader, writer).with_peer(Far { _serving: serving })) }
    };
    let router = Router::new(toolbox, wharf_server::ListenOptions::default());
    let remote = RemoteServer::bind(([127, 0, 0, 1], 0).into(), router).await.unwrap();
    let reach = RemoteOptions::default;
    let ways: [(&str, Arc<dyn Transport>); 5] = [
        ("ours in-process", Arc::new(InProcess::new(serve))),
        ("ours over a stream", Arc::new(stream)),
        ("ours over HTTP", Arc::new(Http::new(&remote.http_url(), reach()).unwrap())),
        ("ours over SSE", Arc::new(HttpSse::new(&remote.sse_url(), reach()).unwrap())),
        ("ours over WebSocket", Arc::new(WebSocket::new(&remote.ws_url(), reach()).unwrap())),
    ];
    let rows = join_all(ways.iter().map(|(name, transport)| row(name, transport))).await;
    soon(remote.close()).await;
    rows
}

/// Serves the far end of a stream.
struct Far {
    _serving: std::sync::Mutex<tokio::task::JoinSet<()>>,
}

impl wharf_client::PeerHandle for Far {}

async fn row(server: &str, transport: &Arc<dyn Transport>) -> Row {
    let cells = join_all(MODES.map(|mode| cell(transport, mode))).await;
    Row { server: server.to_owned(), cells }
}

/// Connects in one mode. A connected server also lists its tools.
async fn cell(transport: &Arc<dyn Transport>, protocol: ProtocolMode) -> Result<String, ConnectErrorKind> {
    let options = SessionOptions { protocol, ..SessionOptions::default() };
    let session = Session::with_shared("matrix".parse().unwrap(), Arc::clone(transport), Arc::new(NoHost), options);
    let connected = soon(session.connect()).await;
    if connected.is_ok() {
        assert!(!soon(session.list_tools()).await.unwrap().items.is_empty());
    }
    soon(session.close()).await;
    assert_eq!(session.health().violations, 0);
    connected.map(|info| info.revision.clone()).map_err(|error| error.kind)
}
