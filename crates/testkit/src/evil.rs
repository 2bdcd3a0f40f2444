//! A peer that sits in front of a real one and injects faults: over TCP with [`EvilPeer`], in memory with [`with_fault`].

mod connection;
mod fault;
mod state;
mod stream;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use connection::Connection;
pub use fault::NetworkFault;
use state::{Counts, Faults, Shared};
pub use stream::with_fault;

/// A TCP proxy in front of a real peer. Dropping it closes all its connections.
pub struct EvilPeer {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Aborts its task when dropped.
    _accepting: JoinSet<()>,
}

impl EvilPeer {
    /// Starts a proxy in front of the peer at `upstream`, without any fault.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn before(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(Shared {
            faults: watch::Sender::default(),
            connections: AtomicU64::new(0),
            counts: Mutex::new(Counts::of(1)),
        });
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, upstream, Arc::clone(&shared)));
        Self { address, shared, _accepting: accepting }
    }

    /// Returns the address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the fault of the connection with this number, starting now; 0 is the next connection to be accepted.
    ///
    /// Bytes forwarded earlier count. The first connection is number 1.
    pub fn set_fault(&self, connection: u64, fault: NetworkFault) {
        let connection = if connection == 0 { self.connections() + 1 } else { connection };
        *self.shared.counts() = Counts::of(connection);
        self.shared.faults.send_modify(|faults| {
            faults.by_connection.insert(connection, fault);
        });
    }

    /// Sets the fault of every connection, starting now, and removes the faults of single connections.
    pub fn set_fault_for_all(&self, fault: NetworkFault) {
        *self.shared.counts() = Counts::of(self.connections() + 1);
        self.shared.faults.send_replace(Faults { default: fault, by_connection: HashMap::new() });
    }

    /// Returns how many connections have been accepted.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Returns how many unmodified bytes have reached the client since the last fault was set, on the connection with
    /// that fault.
    ///
    /// Before any fault that is the first connection; after a fault for all it is the next one.
    pub fn bytes_to_client(&self) -> usize {
        self.shared.counts().to_client
    }

    /// Returns how many bytes of the client have reached the server, counted like [`EvilPeer::bytes_to_client`].
    pub fn bytes_to_server(&self) -> usize {
        self.shared.counts().to_server
    }
}

async fn accept(listener: TcpListener, upstream: SocketAddr, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                let number = shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
                connections.spawn(Connection::new(number, Arc::clone(&shared)).run(client, upstream));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}
