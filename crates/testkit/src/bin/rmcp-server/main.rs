//! A server on rmcp with all that the 2026-07-28 revision added: `rmcp-server` on stdio, `rmcp-server http PORT` at `/mcp`.
//!
//! Its tools, prompts and resources are the ones of `peers/mcp2_modern.py`, so that one test can run against both SDKs
//! and show where they answer differently. What the client is asked is in `ask`, what is put off in `task`, what there
//! is in `catalog`; `peer` holds it together. Of our own code nothing takes part.

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
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["http", port] => http(port.parse().expect("a port")).await,
        _ => stdio().await,
    }
    // Reading stdin keeps a thread busy that would hold up the end.
    std::process::exit(0);
}

async fn stdio() {
    // A client that only wanted to know who is there leaves before rmcp counts it as one.
    if let Ok(serving) = Peer::default().serve((tokio::io::stdin(), tokio::io::stdout())).await {
        let _ = serving.waiting().await;
    }
}

async fn http(port: u16) {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the port is free");
    // Each request of the new revision has a handler of its own, so they share what they know.
    let peer = Peer::default();
    let (sessions, config) = (Arc::new(LocalSessionManager::default()), StreamableHttpServerConfig::default());
    let streamable = StreamableHttpService::new(move || Ok(peer.clone()), sessions, config);
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.expect("the listener lives");
        let streamable = streamable.clone();
        connections.spawn(async move {
            let answer = service_fn(|request| answer(&streamable, request));
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(
    streamable: &StreamableHttpService<Peer, LocalSessionManager>,
    request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    if request.uri().path() == "/mcp" {
        return Ok(streamable.handle(request).await);
    }
    let mut nothing = Response::new(Empty::new().boxed());
    *nothing.status_mut() = StatusCode::NOT_FOUND;
    Ok(nothing)
}
