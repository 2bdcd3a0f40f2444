//! Tools served over stdio, in-process and over the network: what Wharf's demo, its examples and its tests talk to.
//!
//! [`Toolbox`] is the short way to a server: a name, some tools, a function each. Whoever has an rmcp handler already
//! serves that instead. Both go through [`serve_stdio`] and [`serve_stream`] for one client, and through a [`Router`],
//! behind a TCP listener a [`RemoteServer`], for many. Each of them speaks both eras of the protocol: with `initialize`, up to
//! 2025-11-25, and without it, from 2026-07-28 on. The client's first request decides.

mod opening;
mod remote;
mod toolbox;

use rmcp::ServiceExt as _;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};

use opening::Opening;

pub use remote::{ListenOptions, RemoteServer, Router};
pub use rmcp;
pub use toolbox::{Call, Reply, Toolbox};

/// Why serving ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The client went away before it had asked for anything, or could not be agreed with.
    #[error("the client did not finish the handshake: {0}")]
    Handshake(String),
    /// The serving task broke down.
    #[error("serving broke down: {0}")]
    Broken(String),
}

/// Serves one client over stdin and stdout until it goes away.
pub async fn serve_stdio(handler: impl rmcp::ServerHandler) -> Result<(), ServeError> {
    serve(handler, (tokio::io::stdin(), tokio::io::stdout())).await
}

/// Serves one client over any stream, for example one half of a duplex in memory, until it goes away.
pub async fn serve_stream(
    handler: impl rmcp::ServerHandler,
    stream: impl AsyncRead + AsyncWrite + Send + 'static,
) -> Result<(), ServeError> {
    serve(handler, tokio::io::split(stream)).await
}

async fn serve<R, W>(handler: impl rmcp::ServerHandler, (read, write): (R, W)) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let transport = Opening::new(AsyncRwTransport::new_server(read, write), &handler);
    let serving = handler.serve(transport).await.map_err(|error| ServeError::Handshake(error.to_string()))?;
    serving.waiting().await.map(drop).map_err(|error| ServeError::Broken(error.to_string()))
}
