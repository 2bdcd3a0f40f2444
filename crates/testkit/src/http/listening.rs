//! Accepting real TCP connections, and ending them, if need be rudely.

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

use super::HttpScripted;
use super::connection;
use super::response::Ending;

/// How many clients may wait to be accepted.
const BACKLOG: u32 = 128;
/// How often to try an address that its last user has not left yet, and how long to wait between.
const TRIES: u32 = 200;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// A server that accepts connections. Dropping it closes them all, and the port.
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it speaks Streamable HTTP.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Where it speaks the old HTTP with SSE.
    pub fn sse_url(&self) -> String {
        format!("http://{}/sse", self.address)
    }

    /// Where it speaks over a WebSocket.
    pub fn ws_url(&self) -> String {
        format!("ws://{}/ws", self.address)
    }

    /// Closes everything and waits until it is closed.
    pub async fn close(mut self) {
        let _ = self.stop.send(());
        while self.accepting.join_next().await.is_some() {}
    }
}

/// A server that has just been dropped may need a moment to leave its port.
async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let mut tries = 0;
    loop {
        tries += 1;
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        match socket.bind(address).and_then(|()| socket.listen(BACKLOG)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries < TRIES => {
                tokio::time::sleep(BETWEEN_TRIES).await;
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
                // Small answers should not wait for each other.
                let _ = stream.set_nodelay(true);
                let ending = Arc::new(Ending::default());
                let stream = Resettable { stream, ending: Arc::clone(&ending) };
                connections.spawn(connection::serve(server.clone(), stream, ending));
            }
            Some(_) = connections.join_next() => {}
            _ = &mut stopped => break,
        }
    }
    drop(listener);
    connections.shutdown().await;
}

/// A stream that is dropped with a reset if its ending says so.
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
