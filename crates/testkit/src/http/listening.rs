//! Accepts TCP connections and ends them, with a reset if the script requires it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::dispatch;
use super::response::Ending;
use super::server::HttpScripted;

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 128;
/// How often to try an address that its last user has not released yet.
const MAX_BIND_ATTEMPTS: u32 = 200;
const BIND_RETRY_DELAY: Duration = Duration::from_millis(10);

/// A server that accepts connections. Dropping it closes the port and all connections.
pub struct Listening {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    accepting: JoinSet<()>,
}

impl Listening {
    pub(super) async fn start(server: HttpScripted, address: SocketAddr) -> io::Result<Self> {
        let listener = bind(address).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(server, listener, stopped));
        Ok(Self { address, stop, accepting })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL for Streamable HTTP.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Returns the URL for HTTP+SSE.
    pub fn sse_url(&self) -> String {
        format!("http://{}/sse", self.address)
    }

    /// Returns the URL for WebSocket.
    pub fn ws_url(&self) -> String {
        format!("ws://{}/ws", self.address)
    }

    /// Closes the port and all connections, and waits until they are closed.
    pub async fn close(mut self) {
        let _ = self.stop.send(());
        while self.accepting.join_next().await.is_some() {}
    }
}

/// Binds with retries: a server that has just been dropped may need a moment to release its port.
async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        match socket.bind(address).and_then(|()| socket.listen(BACKLOG)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && attempts < MAX_BIND_ATTEMPTS => {
                tokio::time::sleep(BIND_RETRY_DELAY).await;
            }
            bound => return bound,
        }
    }
}

async fn accept(server: HttpScripted, listener: TcpListener, mut stopped: oneshot::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                // Small responses should not wait for each other.
                let _ = stream.set_nodelay(true);
                let ending = Arc::new(Ending::default());
                let stream = Resettable { stream, ending: Arc::clone(&ending) };
                connections.spawn(dispatch::serve(server.clone(), stream, ending));
            }
            Some(_) = connections.join_next() => {}
            _ = &mut stopped => break,
        }
    }
    drop(listener);
    connections.shutdown().await;
}

/// A stream that resets the connection on drop if its ending requires it.
struct Resettable {
    stream: TcpStream,
    ending: Arc<Ending>,
}

impl Drop for Resettable {
    fn drop(&mut self) {
        if self.ending.reset.load(Ordering::Relaxed) {
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Resettable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Resettable {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
