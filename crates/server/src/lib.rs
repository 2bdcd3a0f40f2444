//! MCP servers over stdio, in-process streams and the network. Wharf's demo, examples and tests use them.
//!
//! [`Toolbox`] is the simplest server: a name, some tools, one function per tool. An existing rmcp handler works too.
//! [`serve_stdio`] and [`serve_stream`] serve one client. A [`Router`], behind a TCP listener a [`RemoteServer`], serves
//! many. All of them support both eras of the protocol: with `initialize`, up to 2025-11-25, and without it, since
//! 2026-07-28. The client's first request decides.

mod negotiation;
mod remote;
mod toolbox;

use rmcp::ServiceExt as _;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};

use negotiation::NegotiatingTransport;

pub use remote::{ClientAuth, ListenOptions, RemoteServer, Router, TokenCheck};
pub use rmcp;
pub use toolbox::{Call, Reply, Toolbox};

/// Why serving a client failed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The client disconnected before its first request, or the handshake failed.
    #[error("client did not complete the handshake: {0}")]
    Handshake(String),
    /// The serving task panicked or was aborted.
    #[error("serving task failed: {0}")]
    Broken(String),
}

/// Serves one client over stdin and stdout until it disconnects.
pub async fn serve_stdio(handler: impl rmcp::ServerHandler) -> Result<(), ServeError> {
    serve(handler, tokio::io::stdin(), tokio::io::stdout()).await
}

/// Serves one client over any stream, for example one half of an in-memory duplex, until it disconnects.
pub async fn serve_stream(
    handler: impl rmcp::ServerHandler,
    stream: impl AsyncRead + AsyncWrite + Send + 'static,
) -> Result<(), ServeError> {
    let (read, write) = tokio::io::split(stream);
    serve(handler, read, write).await
}

async fn serve(
    handler: impl rmcp::ServerHandler,
    read: impl AsyncRead + Send + Unpin + 'static,
    write: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), ServeError> {
    let transport = NegotiatingTransport::new(AsyncRwTransport::new_server(read, write), &handler);
    let serving = handler.serve(transport).await.map_err(|error| ServeError::Handshake(error.to_string()))?;
    serving.waiting().await.map(drop).map_err(|error| ServeError::Broken(error.to_string()))
}
