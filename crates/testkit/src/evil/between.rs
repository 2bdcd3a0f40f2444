//! One connection with harm done to it: bytes in both directions, counted.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{NetworkFault, Shared, garbage};

/// What has gone through a connection so far. Nothing is lost when the harm changes in the middle.
pub(super) struct Between {
    number: u64,
    shared: Arc<Shared>,
    telling: Flow,
    hearing: Flow,
}

/// Bytes in one direction.
#[derive(Default)]
struct Flow {
    waiting: BytesMut,
    passed: usize,
    ended: bool,
}

/// Why a connection ends before both sides have ended theirs.
enum End {
    Closed,
    Reset,
}

impl Between {
    pub(super) fn new(number: u64, shared: Arc<Shared>) -> Self {
        Self { number, shared, telling: Flow::default(), hearing: Flow::default() }
    }

    /// Stands between the two until one of them, or the harm, ends it.
    pub(super) async fn stand(mut self, mut client: TcpStream, upstream: SocketAddr) {
        let end = self.forward(&mut client, upstream).await;
        if matches!(end, Err(End::Reset)) {
            let _ = client.set_zero_linger();
        }
    }

    async fn forward(&mut self, client: &mut TcpStream, upstream: SocketAddr) -> Result<(), End> {
        let mut harms = self.shared.harms.subscribe();
        if matches!(harms.borrow().of(self.number), NetworkFault::Refuse) {
            return Err(End::Reset);
        }
        let Ok(mut server) = TcpStream::connect(upstream).await else { return Err(End::Reset) };
        // Every piece is to travel on its own.
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let ((mut from_client, mut to_client), (mut from_server, mut to_server)) = (client.split(), server.split());
        loop {
            let harm = harms.borrow_and_update().of(self.number);
            let (number, shared) = (self.number, &*self.shared);
            let told = |bytes| shared.measure(number, |measured| measured.told += bytes);
            let heard = |bytes| shared.measure(number, |measured| measured.heard += bytes);
            tokio::select! {
                biased;
                changed = harms.changed() => changed.map_err(|_| End::Closed)?,
                end = async {
                    tokio::try_join!(
                        self.telling.tell(&harm, &mut from_server, &mut to_client, told),
                        self.hearing.hear(&harm, &mut from_client, &mut to_server, heard),
                    )
                } => return end.map(|_| ()),
            }
        }
    }
}

impl Flow {
    /// From the server to the client.
    async fn tell(
        &mut self,
        harm: &NetworkFault,
        server: &mut (impl AsyncRead + Unpin),
        client: &mut (impl AsyncWrite + Unpin),
        told: impl Fn(usize),
    ) -> Result<(), End> {
        while !self.ended {
            let honest = harm.honest(self.passed);
            if honest == 0 {
                strike(harm, client).await?;
                self.ended = true;
                break;
            }
            if !self.fill(server).await? {
                break;
            }
            if let NetworkFault::Drip(pause) = harm {
                tokio::time::sleep(*pause).await;
            }
            told(self.pass(honest.min(harm.piece()), client).await?);
            if let NetworkFault::Slice(_) = harm {
                tokio::task::yield_now().await;
            }
        }
        let _ = client.shutdown().await;
        Ok(())
    }

    /// From the client to the server.
    async fn hear(
        &mut self,
        harm: &NetworkFault,
        client: &mut (impl AsyncRead + Unpin),
        server: &mut (impl AsyncWrite + Unpin),
        heard: impl Fn(usize),
    ) -> Result<(), End> {
        while !self.ended {
            let bearable = harm.bearable(self.passed);
            if bearable == 0 {
                return Err(End::Reset);
            }
            if !self.fill(client).await? {
                break;
            }
            heard(self.pass(bearable, server).await?);
        }
        let _ = server.shutdown().await;
        Ok(())
    }

    /// Waits until there are bytes to pass on; `false` at the end.
    async fn fill(&mut self, from: &mut (impl AsyncRead + Unpin)) -> Result<bool, End> {
        if self.waiting.is_empty() {
            // Who is reset on one side is reset on the other.
            self.ended = from.read_buf(&mut self.waiting).await.map_err(|_| End::Reset)? == 0;
        }
        Ok(!self.ended)
    }

    async fn pass(&mut self, most: usize, to: &mut (impl AsyncWrite + Unpin)) -> Result<usize, End> {
        let piece = self.waiting.len().min(most);
        let passed = to.write(&self.waiting[..piece]).await.map_err(|_| End::Closed)?;
        self.waiting.advance(passed);
        self.passed += passed;
        Ok(passed)
    }
}

/// What happens to the client when the honest bytes are used up.
async fn strike(harm: &NetworkFault, client: &mut (impl AsyncWrite + Unpin)) -> Result<(), End> {
    match harm {
        NetworkFault::HalfCloseAfter(_) => {
            let _ = client.shutdown().await;
            std::future::pending().await
        }
        NetworkFault::GarbageAfter(_) => {
            // Only this side ends here: closing with something unheard would take the garbage back.
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
