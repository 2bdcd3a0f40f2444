//! A [`Router`] behind a TCP listener.

mod backend;
mod client_auth;
mod connection;
mod event_stream;
mod guard;
mod options;
mod reply;
mod router;
mod session_limit;
mod sse;
mod streamable;
mod timeout_stream;
mod websocket;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use client_auth::{ClientAuth, TokenCheck};
pub use options::ListenOptions;
pub use router::Router;

/// Maximum number of open connections; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 1024;

/// Delay before the next attempt when accepting fails, for example because no file descriptors are left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// How long closing waits for connections before it aborts them.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(8);

/// A router behind a TCP listener. Dropping it closes its connections; [`RemoteServer::close`] also waits for them.
pub struct RemoteServer {
    address: SocketAddr,
    router: Router,
    closing: CancellationToken,
    /// The task that accepts connections; it owns their tasks.
    accepting: JoinSet<()>,
}

impl RemoteServer {
    /// Listens on `address`; port 0 picks a free port.
    ///
    /// # Errors
    /// If the address cannot be bound, and with [`io::ErrorKind::PermissionDenied`] if other machines could reach it
    /// without authentication ([`ClientAuth::Local`]).
    pub async fn bind(address: SocketAddr, router: Router) -> io::Result<Self> {
        if router.is_local() && !address.ip().to_canonical().is_loopback() {
            let reason =
                format!("refused to listen on {address}: other machines could send requests without authentication");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let closing = CancellationToken::new();
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, router.clone(), closing.clone()));
        Ok(Self { address, router, closing, accepting })
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL for Streamable HTTP.
    pub fn http_url(&self) -> String {
        format!("http://{}/mcp", self.reachable())
    }

    /// Returns the URL for HTTP+SSE.
    pub fn sse_url(&self) -> String {
        format!("http://{}/sse", self.reachable())
    }

    /// Returns the URL for WebSocket.
    pub fn ws_url(&self) -> String {
        format!("ws://{}/ws", self.reachable())
    }

    /// Returns the router behind the listener.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// Stops listening, closes the connections and waits for their tasks. The router keeps the sessions of Streamable
    /// HTTP: they continue if it is bound again, unless [`Router::forget_sessions`] is called to simulate a restart.
    pub async fn close(mut self) {
        self.closing.cancel();
        // A task that still runs after twice its own timeout hangs and is aborted.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT * 2, self.accepting.join_next()).await;
        self.accepting.shutdown().await;
    }

    /// Returns the address, with loopback instead of "every interface", so that local clients can connect to it.
    fn reachable(&self) -> SocketAddr {
        let ip = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        SocketAddr::new(ip, self.address.port())
    }
}

async fn accept(listener: TcpListener, router: Router, closing: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = closing.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    // Messages are small and latency matters; a socket that refuses the option still works.
                    let _ = stream.set_nodelay(true);
                    let router = router.clone();
                    let closing = closing.clone();
                    connections.spawn(async move { router.serve_connection_until(stream, &closing).await });
                }
                Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
            },
        }
    }
    drop(listener);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, all_ended).await;
    connections.shutdown().await;
}
