//! One proxied connection: forwards bytes in both directions and injects the fault.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::fault::{NetworkFault, garbage};
use super::state::Shared;

/// A proxied connection. No bytes are lost when its fault changes.
pub(super) struct Connection {
    number: u64,
    shared: Arc<Shared>,
    to_client: Flow,
    to_server: Flow,
}

/// The bytes in one direction.
#[derive(Default)]
struct Flow {
    buffered: BytesMut,
    forwarded: usize,
    ended: bool,
}

/// Why a connection ends before both sides have closed theirs.
enum End {
    Closed,
    Reset,
}

impl Connection {
    pub(super) fn new(number: u64, shared: Arc<Shared>) -> Self {
        Self { number, shared, to_client: Flow::default(), to_server: Flow::default() }
    }

    /// Forwards until one side, or the fault, ends the connection.
    pub(super) async fn run(mut self, mut client: TcpStream, upstream: SocketAddr) {
        let end = self.forward(&mut client, upstream).await;
        if matches!(end, Err(End::Reset)) {
            let _ = client.set_zero_linger();
        }
    }

    async fn forward(&mut self, client: &mut TcpStream, upstream: SocketAddr) -> Result<(), End> {
        let mut faults = self.shared.faults.subscribe();
        if matches!(faults.borrow().of(self.number), NetworkFault::Refuse) {
            return Err(End::Reset);
        }
        let Ok(mut server) = TcpStream::connect(upstream).await else { return Err(End::Reset) };
        // Every chunk must be sent separately.
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        loop {
            let fault = faults.borrow_and_update().of(self.number);
            let number = self.number;
            let shared = &*self.shared;
            let count_to_client = |bytes| shared.count(number, |counts| counts.to_client += bytes);
            let count_to_server = |bytes| shared.count(number, |counts| counts.to_server += bytes);
            tokio::select! {
                biased;
                changed = faults.changed() => changed.map_err(|_| End::Closed)?,
                end = async {
                    tokio::try_join!(
                        self.to_client.send(&fault, &mut from_server, &mut to_client, count_to_client),
                        self.to_server.receive(&fault, &mut from_client, &mut to_server, count_to_server),
                    )
                } => return end.map(|_| ()),
            }
        }
    }
}

impl Flow {
    /// Forwards from the server to the client.
    async fn send(
        &mut self,
        fault: &NetworkFault,
        server: &mut (impl AsyncRead + Unpin),
        client: &mut (impl AsyncWrite + Unpin),
        count: impl Fn(usize),
    ) -> Result<(), End> {
        while !self.ended {
            let sendable = fault.sendable(self.forwarded);
            if sendable == 0 {
                inject(fault, client).await?;
                self.ended = true;
                break;
            }
            if !self.fill(server).await? {
                break;
            }
            if let NetworkFault::Drip(pause) = fault {
                tokio::time::sleep(*pause).await;
            }
            count(self.write(sendable.min(fault.chunk_bytes()), client).await?);
            if let NetworkFault::Slice(_) = fault {
                tokio::task::yield_now().await;
            }
        }
        let _ = client.shutdown().await;
        Ok(())
    }

    /// Forwards from the client to the server.
    async fn receive(
        &mut self,
        fault: &NetworkFault,
        client: &mut (impl AsyncRead + Unpin),
        server: &mut (impl AsyncWrite + Unpin),
        count: impl Fn(usize),
    ) -> Result<(), End> {
        while !self.ended {
            let receivable = fault.receivable(self.forwarded);
            if receivable == 0 {
                return Err(End::Reset);
            }
            if !self.fill(client).await? {
                break;
            }
            count(self.write(receivable, server).await?);
        }
        let _ = server.shutdown().await;
        Ok(())
    }

    /// Waits for bytes to forward; returns `false` at the end.
    async fn fill(&mut self, from: &mut (impl AsyncRead + Unpin)) -> Result<bool, End> {
        if self.buffered.is_empty() {
            // A reset on one side resets the other.
            self.ended = from.read_buf(&mut self.buffered).await.map_err(|_| End::Reset)? == 0;
        }
        Ok(!self.ended)
    }

    async fn write(&mut self, max_bytes: usize, to: &mut (impl AsyncWrite + Unpin)) -> Result<usize, End> {
        let chunk = self.buffered.len().min(max_bytes);
        let written = to.write(&self.buffered[..chunk]).await.map_err(|_| End::Closed)?;
        self.buffered.advance(written);
        self.forwarded += written;
        Ok(written)
    }
}

/// Does what the fault does after its last unmodified byte.
async fn inject(fault: &NetworkFault, client: &mut (impl AsyncWrite + Unpin)) -> Result<(), End> {
    match fault {
        NetworkFault::HalfCloseAfter(_) => {
            let _ = client.shutdown().await;
            std::future::pending().await
        }
        NetworkFault::GarbageAfter(_) => {
            // Closes only this direction: closing a socket with unread bytes would discard the garbage.
            client.write_all(&garbage()).await.map_err(|_| End::Closed)
        }
        NetworkFault::ResetAfter(_) | NetworkFault::Refuse => Err(End::Reset),
        NetworkFault::StallAfter(_)
        | NetworkFault::None
        | NetworkFault::Slice(_)
        | NetworkFault::Drip(_)
        | NetworkFault::ResetAfterReceiving(_) => std::future::pending().await,
    }
}
