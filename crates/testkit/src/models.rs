//! Fake models that return scripted responses, with the real wire formats of the Messages API and Chat Completions.
//!
//! A script is a list of [`Turn`]s; each request consumes the next one. The path selects the API, and the request selects
//! streaming. Tests can inspect all requests.

mod anthropic;
mod fake;
mod openai;
mod serve;
mod turn;

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

pub use fake::FakeModels;
pub use turn::{Fault, Tokens, Turn};

impl FakeModels {
    /// Serves one HTTP/1.1 connection until it ends.
    pub async fn serve_connection(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        serve::connection(self, stream, 1).await;
    }

    /// Serves TCP connections on a free local port.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn listen(&self) -> ListeningModels {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
        let address = listener.local_addr().expect("a listener has an address");
        let mut accepting = JoinSet::new();
        accepting.spawn(serve::accept(self.clone(), listener));
        ListeningModels { address, _accepting: accepting }
    }
}

/// A provider that accepts connections. Dropping it closes the port and all connections.
pub struct ListeningModels {
    address: SocketAddr,
    _accepting: JoinSet<()>,
}

impl ListeningModels {
    /// Returns the base URL of the Messages API.
    pub fn anthropic_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the base URL of Chat Completions.
    pub fn openai_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}
