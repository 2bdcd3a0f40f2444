//! A peer that stands before an honest one and ruins what it says: over real TCP here, in memory in [`with_fault`].

mod between;
mod harmed;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use between::Between;
pub use harmed::with_fault;

/// How many bytes of nonsense [`NetworkFault::GarbageAfter`] says.
const GARBAGE: usize = 64 * 1024;

/// What is done to a connection. Bytes are counted as they reach the client, unless it says otherwise.
#[derive(Clone, Debug, Default)]
pub enum NetworkFault {
    /// Nothing.
    #[default]
    None,
    /// Everything comes in pieces of so many bytes.
    Slice(usize),
    /// Everything comes byte by byte, each after such a pause.
    Drip(Duration),
    /// Nothing comes after so many bytes, and the connection stays open.
    StallAfter(usize),
    /// The server's side ends properly after so many bytes; the client is still heard.
    HalfCloseAfter(usize),
    /// The connection is reset after so many bytes.
    ResetAfter(usize),
    /// The connection is reset after so many bytes have come from the client.
    ResetAfterReceiving(usize),
    /// 64 KiB of nonsense come after so many bytes, and then the end.
    GarbageAfter(usize),
    /// The connection is reset at once.
    Refuse,
}

impl NetworkFault {
    /// How many more bytes come honestly, if so many have come.
    fn honest(&self, told: usize) -> usize {
        match self {
            Self::StallAfter(bytes)
            | Self::HalfCloseAfter(bytes)
            | Self::ResetAfter(bytes)
            | Self::GarbageAfter(bytes) => bytes.saturating_sub(told),
            Self::Refuse => 0,
            Self::None | Self::Slice(_) | Self::Drip(_) | Self::ResetAfterReceiving(_) => usize::MAX,
        }
    }

    /// How many more bytes of the client are taken, if so many have been.
    fn bearable(&self, heard: usize) -> usize {
        match self {
            Self::ResetAfterReceiving(bytes) => bytes.saturating_sub(heard),
            Self::Refuse => 0,
            _ => usize::MAX,
        }
    }

    /// How many bytes come at a time.
    fn piece(&self) -> usize {
        match self {
            Self::Slice(bytes) => (*bytes).max(1),
            Self::Drip(_) => 1,
            _ => usize::MAX,
        }
    }
}

/// The same nonsense every time, so that a failure can be repeated.
fn garbage() -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..GARBAGE / size_of::<u64>()).flat_map(|_| next()).collect()
}

/// A TCP peer before an honest one. Dropping it closes everything that goes through it.
pub struct EvilPeer {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Aborts what it runs when it is dropped.
    _accepting: JoinSet<()>,
}

struct Shared {
    harms: watch::Sender<Harms>,
    connections: AtomicU64,
    measured: Mutex<Measured>,
}

#[derive(Default)]
struct Harms {
    all: NetworkFault,
    one: HashMap<u64, NetworkFault>,
}

/// How much has gone through one connection.
struct Measured {
    connection: u64,
    told: usize,
    heard: usize,
}

impl EvilPeer {
    /// Stands before the peer at `upstream`, and does no harm yet.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn before(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
        let address = listener.local_addr().expect("what listens has an address");
        let shared = Arc::new(Shared {
            harms: watch::Sender::default(),
            connections: AtomicU64::new(0),
            measured: Mutex::new(Measured::of(1)),
        });
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, upstream, Arc::clone(&shared)));
        Self { address, shared, _accepting: accepting }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Does this to the connection with this number, from now on; 0 is the next one that is accepted.
    ///
    /// Bytes that went through before count. The first connection is number 1.
    pub fn set_fault(&self, connection: u64, harm: NetworkFault) {
        let connection = if connection == 0 { self.connections() + 1 } else { connection };
        *self.shared.measured() = Measured::of(connection);
        self.shared.harms.send_modify(|harms| {
            harms.one.insert(connection, harm);
        });
    }

    /// Does this to every connection, from now on, whatever was said about single ones.
    pub fn set_fault_for_all(&self, harm: NetworkFault) {
        *self.shared.measured() = Measured::of(self.connections() + 1);
        self.shared.harms.send_replace(Harms { all: harm, one: HashMap::new() });
    }

    /// How many connections there have been.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// How many honest bytes have reached the client since harm was last done, on the connection it was done to.
    ///
    /// Before any harm that is the first connection; after harm to all it is the next one.
    pub fn bytes_to_client(&self) -> usize {
        self.shared.measured().told
    }

    /// How many bytes of the client have reached the server, likewise.
    pub fn bytes_to_server(&self) -> usize {
        self.shared.measured().heard
    }
}

impl Measured {
    fn of(connection: u64) -> Self {
        Self { connection, told: 0, heard: 0 }
    }
}

impl Shared {
    fn measured(&self) -> MutexGuard<'_, Measured> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn measure(&self, connection: u64, count: impl FnOnce(&mut Measured)) {
        let mut measured = self.measured();
        if measured.connection == connection {
            count(&mut measured);
        }
    }
}

impl Harms {
    fn of(&self, connection: u64) -> NetworkFault {
        self.one.get(&connection).unwrap_or(&self.all).clone()
    }
}

async fn accept(listener: TcpListener, upstream: SocketAddr, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                let number = shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
                connections.spawn(Between::new(number, Arc::clone(&shared)).stand(client, upstream));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}
