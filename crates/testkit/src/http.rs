//! A script served over HTTP.
//!
//! [`server`] holds the settings and the state. [`dispatch`] speaks HTTP on one stream and leaves the protocol to
//! [`streamable`], [`legacy`] or [`websocket`], which all work on a [`connection`]. [`play`] turns steps into [`output`],
//! [`response`] turns output into responses, and [`listening`] accepts TCP connections.

mod connection;
mod dispatch;
mod legacy;
mod listening;
mod output;
mod play;
mod response;
mod server;
mod streamable;
mod websocket;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

pub use listening::Listening;
pub use server::{GetBehavior, HttpScripted, ResponseFormat, UnknownSession};

impl HttpScripted {
    /// Serves one HTTP/1.1 connection until it ends.
    pub async fn serve_connection(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        dispatch::serve(self, stream, Arc::default()).await;
    }

    /// Serves TCP connections on a free local port.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn listen(&self) -> Listening {
        self.listen_on(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a port is free")
    }

    /// Serves TCP connections on this address, which another server may just have released.
    pub async fn listen_on(&self, address: SocketAddr) -> std::io::Result<Listening> {
        Listening::start(self.clone(), address).await
    }
}
