//! Serves one HTTP connection and dispatches its requests by path.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use http::{Method, Request};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::connection::Connection;
use super::response::{self, Ending, Response};
use super::server::HttpScripted;
use super::websocket;
use crate::seen_request::SeenRequest;

/// Serves one connection until it ends; steps that are still being played end with it.
pub(super) async fn serve(
    server: HttpScripted,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ending: Arc<Ending>,
) {
    let connection = Arc::new(Connection::new(server, ending));
    let service = service_fn(|request| {
        let connection = Arc::clone(&connection);
        async move { Ok::<_, Infallible>(handle(&connection, request).await) }
    });
    let mut serving = pin!(http1::Builder::new().serve_connection(TokioIo::new(stream), service).with_upgrades());
    loop {
        tokio::select! {
            _ = serving.as_mut() => break,
            () = connection.ending.cut.notified() => return,
            () = connection.ending.after_this.notified() => serving.as_mut().graceful_shutdown(),
        }
    }
    if let Some((opening, upgrade)) = connection.take_upgrade()
        && let Ok(stream) = upgrade.await
    {
        websocket::serve(&connection, opening, stream).await;
    }
}

async fn handle(connection: &Connection, mut request: Request<Incoming>) -> Response {
    let upgrade = hyper::upgrade::on(&mut request);
    let (head, body) = request.into_parts();
    // An incomplete body is not a request; hyper ends the connection.
    let Ok(body) = body.collect().await else { return response::empty(400) };
    let seen = SeenRequest {
        method: head.method.to_string(),
        path: head.uri.to_string(),
        headers: head.headers,
        body: String::from_utf8_lossy(&body.to_bytes()).into_owned(),
        connection: connection.number,
    };
    connection.server.record(seen.clone());
    match (head.method, head.uri.path()) {
        (Method::GET, "/sse") => connection.legacy_stream().await,
        (method, "/sse") => connection.legacy_other_method(method.as_str()).await,
        (Method::POST, "/messages") => connection.legacy_post(&seen).await,
        (Method::GET, "/ws") => connection.websocket(&seen.headers, upgrade).await,
        (Method::POST, _) => connection.post(&seen).await,
        (Method::GET, _) => connection.get(&seen).await,
        (Method::DELETE, _) => connection.delete(&seen).await,
        _ => response::not_allowed("GET, POST, DELETE"),
    }
}
