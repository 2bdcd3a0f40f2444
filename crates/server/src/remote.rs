//! A [`Router`] behind a TCP listener, and what can be chosen about serving over the network.

mod backend;
mod event_stream;
mod guard;
mod reply;
mod router;
mod sse;
mod streamable;
mod watched;
mod websocket;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use router::Router;

/// How many connections are served at a time; further ones wait to be accepted.
const MOST_CONNECTIONS: usize = 1024;

/// How long to leave a listener alone that cannot accept, for example because no file descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long closing waits for the connections to end by themselves.
const CLOSE_LIMIT: Duration = Duration::from_secs(8);

/// What can be chosen about serving over the network.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// Whether Streamable HTTP answers as `application/json` where one message is all there is to say, instead of as a
    /// stream of events. In the modern era an answer that takes longer than `keep_alive` is a stream all the same.
    pub json_answers: bool,
    /// How often a quiet event stream carries a comment, and how often a WebSocket is pinged.
    pub keep_alive: Duration,
    /// Host names beside the loopback ones that requests may name in `Host` and `Origin`, each with or without a port.
    pub allowed_hosts: Option<Vec<String>>,
    /// How many bytes a client's message may have.
    pub largest_message: usize,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            json_answers: false,
            keep_alive: Duration::from_secs(15),
            allowed_hosts: None,
            largest_message: 4 * 1024 * 1024,
        }
    }
}

/// A router behind a TCP listener. Dropping it ends its connections; [`RemoteServer::close`] waits for that too.
pub struct RemoteServer {
    address: SocketAddr,
    router: Router,
    closing: CancellationToken,
    /// The one task that accepts connections; it owns theirs.
    accepting: JoinSet<()>,
}

impl RemoteServer {
    /// Listens on `address`; port 0 picks a free one.
    pub async fn bind(address: SocketAddr, router: Router) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let closing = CancellationToken::new();
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, router.clone(), closing.clone()));
        Ok(Self { address, router, closing, accepting })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where Streamable HTTP is spoken.
    pub fn http_url(&self) -> String {
        format!("http://{}/mcp", self.reachable())
    }

    /// Where HTTP+SSE is spoken.
    pub fn sse_url(&self) -> String {
        format!("http://{}/sse", self.reachable())
    }

    /// Where WebSocket is spoken.
    pub fn ws_url(&self) -> String {
        format!("ws://{}/ws", self.reachable())
    }

    /// The router behind the listener.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// Stops listening, ends the connections and waits for their tasks. The sessions of Streamable HTTP stay with the
    /// router: bind it again, and they go on; forget them, and it was a restart.
    pub async fn close(mut self) {
        self.closing.cancel();
        // What is still running after twice its own limit is stuck, and is aborted.
        let _ = tokio::time::timeout(CLOSE_LIMIT * 2, self.accepting.join_next()).await;
        self.accepting.shutdown().await;
    }

    /// The address with a name for "every interface" that a client on this machine can connect to.
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
            accepted = listener.accept(), if connections.len() < MOST_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    // Messages are small and waited for; a socket that refuses the option still works.
                    let _ = stream.set_nodelay(true);
                    let (router, closing) = (router.clone(), closing.clone());
                    connections.spawn(async move { router.serve_connection_until(stream, &closing).await });
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
        }
    }
    drop(listener);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(CLOSE_LIMIT, all_ended).await;
    connections.shutdown().await;
}
