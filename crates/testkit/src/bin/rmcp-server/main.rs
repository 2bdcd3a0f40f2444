//! A server on rmcp with all features of the 2026-07-28 revision: `rmcp-server` on stdio, `rmcp-server http PORT` at
//! `/mcp`.
//!
//! It has the same tools, prompts and resources as `peers/mcp2_modern.py`, so that one test can run against both SDKs and
//! show their differences. `ask` requests input from the client, `task` runs tasks, `catalog` lists tools, prompts and
//! resources, and `peer` is the handler. It uses no code of Wharf.

mod ask;
mod catalog;
mod peer;
mod task;

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rmcp::ServiceExt as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::peer::Peer;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["http", port] => http(port.parse().expect("a port")).await,
        _ => stdio().await,
    }
    // A thread blocked on stdin would delay a normal exit.
    std::process::exit(0);
}

async fn stdio() {
    // A client that only probes disconnects before rmcp has finished its handshake.
    if let Ok(serving) = Peer::default().serve((tokio::io::stdin(), tokio::io::stdout())).await {
        let _ = serving.waiting().await;
    }
}

async fn http(port: u16) {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the port is free");
    // Each request of the new revision has its own handler, so the handlers share their state.
    let peer = Peer::default();
    let sessions = Arc::new(LocalSessionManager::default());
    let config = StreamableHttpServerConfig::default();
    let streamable = StreamableHttpService::new(move || Ok(peer.clone()), sessions, config);
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.expect("the listener is open");
        let streamable = streamable.clone();
        connections.spawn(async move {
            let service = service_fn(|request| handle(&streamable, request));
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn handle(
    streamable: &StreamableHttpService<Peer, LocalSessionManager>,
    request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    if request.uri().path() == "/mcp" {
        return Ok(streamable.handle(request).await);
    }
    let mut not_found = Response::new(Empty::new().boxed());
    *not_found.status_mut() = StatusCode::NOT_FOUND;
    Ok(not_found)
}
